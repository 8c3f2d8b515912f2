/*
** Rows of a user's statement, stepped and measured here before anything is made of them.
**
** better-sqlite3 turns a whole row into JavaScript values in one go, so that a row of many long values takes many times
** its size before anybody can count it. Here the statement is stepped by a function of the control connection, which adds
** up what SQLite holds of the row and refuses one that is too large; only then the control connection's own columns copy
** the values, one for each guard_column.
*/
#include "sqlguard.h"
SQLITE_EXTENSION_INIT3

/* The statement whose row this thread has stepped to; null between rows. */
static __thread sqlite3_stmt *row;

static void fail(sqlite3_context *ctx, sqlite3 *db) {
  sqlite3_result_error(ctx, sqlite3_errmsg(db), -1);
  sqlite3_result_error_code(ctx, sqlite3_extended_errcode(db));
}

/* Bytes of the row's texts and blobs, and a word for each value. */
static i64 rowBytes(sqlite3_stmt *stmt) {
  int i, count = sqlite3_data_count(stmt);
  i64 bytes = 0;
  for (i = 0; i < count; i++) {
    int type = sqlite3_column_type(stmt, i);
    bytes += 8;
    if (type == SQLITE_TEXT || type == SQLITE_BLOB) bytes += sqlite3_column_bytes(stmt, i);
  }
  return bytes;
}

/* Steps to the next row: 1 when there is one, 0 at the end, -1 for a row of more than `bytesMax`. */
void guardStep(sqlite3_context *ctx, Guard *g, i64 bytesMax) {
  int rc;
  if (g->stmt == 0 || !g->on) {
    sqlite3_result_error(ctx, "no statement to step", -1);
    return;
  }
  row = 0;
  rc = sqlite3_step(g->stmt);
  if (rc == SQLITE_DONE) {
    sqlite3_result_int(ctx, 0);
  } else if (rc != SQLITE_ROW) {
    fail(ctx, g->db);
  } else if (rowBytes(g->stmt) > bytesMax) {
    sqlite3_result_int(ctx, -1);
  } else {
    row = g->stmt;
    sqlite3_result_int(ctx, 1);
  }
}

/* A value of that row, as it is; null when there is none. Only in the statement that has stepped to it. */
void guardColumn(sqlite3_context *ctx, int column) {
  if (row) sqlite3_result_value(ctx, sqlite3_column_value(row, column));
}
