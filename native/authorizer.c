/*
** What user SQL may do, asked by SQLite while it prepares a statement: allow-lists of functions, modules and pragmas,
** and no way to the reserved tables, whatever path leads there (quotes, views, triggers, table functions).
**
** Its known holes (arguments of virtual tables, the new name of ALTER TABLE, conflict clauses) are closed by the text
** rules in src/sqlite/sql-text-check.ts. Always true: with the guard off everything is allowed, so that the service's own
** statements never notice it.
*/
#include <string.h>
#include "sqlguard.h"
SQLITE_EXTENSION_INIT3

static int startsWith(const char *name, const char *prefix) {
  return sqlite3_strnicmp(name, prefix, (int)strlen(prefix)) == 0;
}

/* "__service" itself counts: a virtual table of that name would own "__service_data". */
static int isReserved(const char *name) {
  if (name == 0) return 0;
  if (startsWith(name, "sqlite_autoindex_")) name += strlen("sqlite_autoindex_");
  return startsWith(name, "__service_") || sqlite3_stricmp(name, "__service") == 0;
}

static int isListed(const char *name, const char *const *list) {
  for (; *list; list++) {
    if (sqlite3_stricmp(name, *list) == 0) return 1;
  }
  return 0;
}

/*
** Functions that only compute. Left out for a reason: load_extension, fts3_tokenizer, rtreecheck and rtreenode reach
** beyond their arguments; json_pretty and geopoly_* grow without asking the length limit; sqlite_* tell about the build.
** The sqlite_* names listed are SQLite's own steps of ALTER TABLE, which it refuses to user SQL itself.
*/
static const char *const functions[] = {
  "->", "->>", "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "avg", "bm25", "ceil", "ceiling",
  "changes", "char", "coalesce", "concat", "concat_ws", "cos", "cosh", "count", "cume_dist", "current_date",
  "current_time", "current_timestamp", "date", "datetime", "degrees", "dense_rank", "exp", "first_value", "floor",
  "format", "glob", "group_concat", "hex", "highlight", "if", "ifnull", "iif", "instr", "json", "json_array",
  "json_array_insert", "json_array_length", "json_error_position", "json_extract", "json_group_array",
  "json_group_object", "json_insert", "json_object", "json_patch", "json_quote", "json_remove", "json_replace",
  "json_set", "json_type", "json_valid", "jsonb", "jsonb_array", "jsonb_array_insert", "jsonb_extract",
  "jsonb_group_array", "jsonb_group_object", "jsonb_insert", "jsonb_object", "jsonb_patch", "jsonb_remove",
  "jsonb_replace", "jsonb_set", "julianday", "lag", "last_insert_rowid", "last_value", "lead", "length", "like",
  "likelihood", "likely", "ln", "log", "log10", "log2", "lower", "ltrim", "match", "max", "median", "min", "mod",
  "nth_value", "ntile", "nullif", "octet_length", "percent_rank", "percentile", "percentile_cont", "percentile_disc",
  "pi", "pow", "power", "printf", "quote", "radians", "random", "randomblob", "rank", "replace", "round", "row_number",
  "rtrim", "sign", "sin", "sinh", "snippet", "soundex", "sqlite_version", "sqrt", "strftime", "string_agg", "substr",
  "substring", "sum", "tan", "tanh", "time", "timediff", "total", "total_changes", "trim", "trunc", "typeof", "unhex",
  "unicode", "unistr", "unistr_quote", "unixepoch", "unlikely", "upper", "zeroblob",
  "sqlite_rename_column", "sqlite_rename_table", "sqlite_rename_test", "sqlite_rename_quotefix", "sqlite_drop_column",
  "sqlite_drop_constraint", "sqlite_add_constraint", "sqlite_find_constraint", "sqlite_fail", 0};

static const char *const modules[] = {"fts5", "rtree", "rtree_i32", 0};

/* data_version is FTS5's own question. The whole-database checks are statements only, never table functions. */
static const char *const pragmas[] = {
  "table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list", 0};
static const char *const plainPragmas[] = {"user_version", "page_count", "page_size", "freelist_count", "encoding",
  "compile_options", "function_list", "module_list", "collation_list", "data_version", 0};
static const char *const checkPragmas[] = {"integrity_check", "quick_check", "foreign_key_check", 0};
static const char *const pragmaTables[] = {
  "pragma_table_info", "pragma_table_xinfo", "pragma_index_list", "pragma_index_info", "pragma_index_xinfo",
  "pragma_foreign_key_list", "pragma_compile_options", "pragma_function_list", "pragma_module_list", 0};

/* ---- The authorizer ---- */

static int deny(Guard *g, const char *what, const char *name) {
  sqlite3_snprintf((int)sizeof(g->reason), g->reason, "%s %.100s", what, name ? name : "");
  return SQLITE_DENY;
}

static int denyReserved(Guard *g, const char *name) {
  return deny(g, "names that start with __service_ are reserved:", name);
}

static int authorizePragma(Guard *g, const char *name, const char *value) {
  if (isReserved(value)) return denyReserved(g, value);
  if (isListed(name, pragmas)) return SQLITE_OK;
  if (isListed(name, plainPragmas) && value == 0) return SQLITE_OK;
  if (isListed(name, checkPragmas) && g->internal) return SQLITE_OK;
  return deny(g, "not an allowed pragma here:", name);
}

/*
** SQLite's own tables of rows, such as sqlite_sequence, under whatever quoting: strings too can stand for a table. SQLite's
** own statements write them when a table is dropped or renamed; the text rules keep their names out of those.
*/
static int isSqlites(const Guard *g, const char *table) {
  if (table == 0 || g->internal || g->defines || !startsWith(table, "sqlite_")) return 0;
  return !startsWith(table, "sqlite_autoindex_") && sqlite3_stricmp(table, "sqlite_master") != 0 && sqlite3_stricmp(table, "sqlite_schema") != 0 &&
    sqlite3_stricmp(table, "sqlite_temp_master") != 0 && sqlite3_stricmp(table, "sqlite_temp_schema") != 0;
}

static int authorizeRows(Guard *g, const char *table) {
  if (isReserved(table)) return denyReserved(g, table);
  return isSqlites(g, table) ? deny(g, "not an allowed table:", table) : SQLITE_OK;
}

static int authorizeRead(Guard *g, const char *table) {
  if (isReserved(table)) return g->internal ? SQLITE_OK : denyReserved(g, table);
  if (isSqlites(g, table)) return deny(g, "not an allowed table:", table);
  if (startsWith(table, "pragma_") && !isListed(table, pragmaTables)) return deny(g, "not an allowed table function:", table);
  if (sqlite3_stricmp(table, "dbstat") == 0) return deny(g, "not an allowed table:", table);
  return SQLITE_OK;
}

/* A name that our own SQL uses as a table function must stay one. */
static int authorizeCreate(Guard *g, const char *name) {
  if (isReserved(name)) return denyReserved(g, name);
  if (sqlite3_stricmp(name, "json_each") == 0 || sqlite3_stricmp(name, "json_tree") == 0 || startsWith(name, "pragma_")) {
    return deny(g, "the name of a built-in table function cannot be taken:", name);
  }
  return SQLITE_OK;
}

int guardAuthorize(void *arg, int code, const char *a, const char *b, const char *schema, const char *via) {
  Guard *g = (Guard *)arg;
  (void)via;
  if (!g->on) return SQLITE_OK;
  /* Preparing can take long by itself (views of views); this callback is where it can be stopped. */
  if (__atomic_load_n(&g->hit, __ATOMIC_RELAXED)) return SQLITE_DENY;
  if (++g->namesChecked > OWN(NAMES_CHECKED)) return deny(g, "the statement is too complex", 0);
  /* ALTER TABLE looks through the (empty) temporary schema itself; its own callback has a column in this place. */
  if (schema && sqlite3_stricmp(schema, "main") != 0 && code != SQLITE_ALTER_TABLE && code != SQLITE_READ && code != SQLITE_UPDATE) {
    return deny(g, "objects outside the database are not allowed:", schema);
  }
  switch (code) {
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE:
      return SQLITE_OK;
    case SQLITE_READ:
      return authorizeRead(g, a);
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
      return authorizeRows(g, a);
    case SQLITE_CREATE_TABLE:
    case SQLITE_CREATE_VIEW:
      return authorizeCreate(g, a);
    case SQLITE_CREATE_INDEX:
    case SQLITE_CREATE_TRIGGER:
    case SQLITE_DROP_INDEX:
    case SQLITE_DROP_TRIGGER:
      return isReserved(a) ? denyReserved(g, a) : isReserved(b) ? denyReserved(g, b) : SQLITE_OK;
    case SQLITE_DROP_TABLE:
    case SQLITE_DROP_VIEW:
    case SQLITE_DROP_VTABLE:
      return isReserved(a) ? denyReserved(g, a) : SQLITE_OK;
    case SQLITE_CREATE_VTABLE:
      if (!isListed(b, modules)) return deny(g, "virtual tables of this kind are not allowed:", b);
      return authorizeCreate(g, a);
    case SQLITE_ALTER_TABLE:
      return isReserved(b) ? denyReserved(g, b) : SQLITE_OK;
    case SQLITE_REINDEX:
      /* CREATE INDEX and some ALTER TABLE forms rebuild; the REINDEX statement itself never gets here. */
      return isReserved(a) ? denyReserved(g, a) : SQLITE_OK;
    case SQLITE_FUNCTION:
      return isListed(b, functions) ? SQLITE_OK : deny(g, "not an allowed function:", b);
    case SQLITE_PRAGMA:
      return authorizePragma(g, a, b);
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
      return deny(g, "transaction control is not allowed:", a);
    case SQLITE_CREATE_TEMP_TABLE:
    case SQLITE_CREATE_TEMP_INDEX:
    case SQLITE_CREATE_TEMP_TRIGGER:
    case SQLITE_CREATE_TEMP_VIEW:
    case SQLITE_DROP_TEMP_TABLE:
    case SQLITE_DROP_TEMP_INDEX:
    case SQLITE_DROP_TEMP_TRIGGER:
    case SQLITE_DROP_TEMP_VIEW:
      return deny(g, "temporary objects are not allowed:", a);
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
      return deny(g, "ATTACH, DETACH and VACUUM are not allowed", 0);
    default:
      return deny(g, "not an allowed action", 0);
  }
}
