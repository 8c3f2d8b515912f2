/*
** The native half of the SQL guard: what SQLite offers against hostile SQL and better-sqlite3 does not expose.
**
** Two entry points, two kinds of connection:
**   sqlite3_sqlguard_init         on a connection that will run user SQL: installs the authorizer and the bounded
**                                 functions. It adds no function that switches anything, so user SQL has nothing to
**                                 call, whatever the authorizer says.
**   sqlite3_sqlguardcontrol_init  on a private in-memory connection, one for each thread: the functions that switch a
**                                 guarded connection on and off by its handle, and that interrupt it.
**
** Always true: an interrupt names a handle and a ticket, both compared under one mutex, so it can only reach the
** statement it was meant for; a handle leaves the table before its connection is freed. The library stays loaded,
** because the table and the watcher thread outlive any one connection.
**
** Must not know: what is allowed (authorizer.c), transactions, JavaScript.
*/
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include "sqlguard.h"
SQLITE_EXTENSION_INIT1

i64 guardLimits[OWN_LIMITS];
static int sqliteLimits[SQLITE_LIMITS]; /* -1: leave as it is */

static const struct {
  const char *name;
  int args;
  int json; /* the result is JSON to other JSON functions */
} boundedSpecs[BOUNDED_COUNT] = {
  {"instr", 2, 0}, {"replace", 3, 0}, {"trim", 2, 0},       {"ltrim", 2, 0},
  {"rtrim", 2, 0}, {"unhex", 2, 0},   {"json_patch", 2, 1}, {"jsonb_patch", 2, 0},
};

/* ---- The table of guards ---- */

#define BUCKETS 1024
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static Guard *buckets[BUCKETS];
static Guard *running;
static i64 handleNext = 1;
static __thread i64 handleLast; /* the handle that this thread attached last */
static i64 early[EARLY];          /* tickets whose interrupt came before they began, on whatever connection */
static unsigned earlyNext;

/* The mutex is held. */
static Guard *find(i64 handle) {
  Guard *g = buckets[handle % BUCKETS];
  while (g && g->handle != handle) g = g->bucketNext;
  return g;
}

/* The mutex is held. */
static void forget(Guard *g) {
  Guard **at;
  for (at = &buckets[g->handle % BUCKETS]; *at; at = &(*at)->bucketNext) {
    if (*at == g) {
      *at = g->bucketNext;
      break;
    }
  }
  for (at = &running; *at; at = &(*at)->runningNext) {
    if (*at == g) {
      *at = g->runningNext;
      break;
    }
  }
}

/* ---- Bounded functions ---- */

static void runBounded(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  Bounded *b = (Bounded *)sqlite3_user_data(ctx);
  Guard *g = b->guard;
  int i;
  if (g->on && (i64)sqlite3_value_bytes(argv[0]) * sqlite3_value_bytes(argv[1]) > OWN(WORK_PRODUCT)) {
    char message[128];
    sqlite3_snprintf((int)sizeof(message), message, "the arguments of %s() are too long together", boundedSpecs[b->spec].name);
    sqlite3_result_error(ctx, message, -1);
    return;
  }
  if (b->stmt == 0) {
    char sql[64];
    if (g->scratch == 0 && sqlite3_open_v2(":memory:", &g->scratch, SQLITE_OPEN_READWRITE, 0) != SQLITE_OK) {
      sqlite3_result_error_nomem(ctx);
      return;
    }
    sqlite3_snprintf((int)sizeof(sql), sql, "SELECT %s(%s)", boundedSpecs[b->spec].name, argc == 3 ? "?,?,?" : "?,?");
    if (sqlite3_prepare_v3(g->scratch, sql, -1, SQLITE_PREPARE_PERSISTENT, &b->stmt, 0) != SQLITE_OK) {
      sqlite3_result_error(ctx, sqlite3_errmsg(g->scratch), -1);
      return;
    }
  }
  sqlite3_limit(g->scratch, SQLITE_LIMIT_LENGTH, sqlite3_limit(g->db, SQLITE_LIMIT_LENGTH, -1));
  for (i = 0; i < argc; i++) sqlite3_bind_value(b->stmt, i + 1, argv[i]);
  if (sqlite3_step(b->stmt) == SQLITE_ROW) {
    sqlite3_result_value(ctx, sqlite3_column_value(b->stmt, 0));
    if (boundedSpecs[b->spec].json && sqlite3_column_type(b->stmt, 0) == SQLITE_TEXT) sqlite3_result_subtype(ctx, 'J');
  } else {
    sqlite3_result_error(ctx, sqlite3_errmsg(g->scratch), -1);
  }
  sqlite3_reset(b->stmt);
  sqlite3_clear_bindings(b->stmt);
}

/* ---- The watcher: SQLite's own heap limit needs memory statistics, which this build of it leaves out ---- */

static i64 residentBytes(void) {
#ifdef __linux__
  char text[64];
  long total, resident;
  FILE *file = fopen("/proc/self/statm", "re");
  if (file == 0) return 0;
  if (fgets(text, sizeof(text), file) == 0 || sscanf(text, "%ld %ld", &total, &resident) != 2) resident = 0;
  fclose(file);
  return (i64)resident * sysconf(_SC_PAGESIZE);
#else
  return 0; /* no cheap way to ask: the time budget alone bounds the statement */
#endif
}

/*
** Length of the log's file, into which a transaction that outgrows the page cache writes while it runs. By its name, which
** is the connection's and lives as long: the file may come to be only then.
*/
static i64 logBytes(const Guard *g) {
  struct stat found;
  return stat(g->logPath, &found) == 0 ? (i64)found.st_size : 0;
}

static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static int watcherStarted, watcherAsleep;

static void *watch(void *unused) {
  const struct timespec tick = {0, 20 * 1000 * 1000};
  int idle = 0;
  (void)unused;
  pthread_mutex_lock(&mutex);
  for (;;) {
    Guard *g;
    i64 now;
    if (running == 0 && ++idle > 50) {
      watcherAsleep = 1;
      while (running == 0) pthread_cond_wait(&wake, &mutex);
      watcherAsleep = idle = 0;
    }
    pthread_mutex_unlock(&mutex);
    nanosleep(&tick, 0);
    now = residentBytes();
    pthread_mutex_lock(&mutex);
    if (running) idle = 0;
    for (g = running; g; g = g->runningNext) {
      if (g->baseline == 0) g->baseline = now;
      if (now - g->baseline > OWN(GROWTH_BYTES) && g->hit == HIT_NONE) {
        g->hit = HIT_MEMORY;
        sqlite3_interrupt(g->db);
      }
      if (g->logBytesMax > 0 && g->hit == HIT_NONE && logBytes(g) > g->logBytesMax) {
        g->hit = HIT_LOG;
        sqlite3_interrupt(g->db);
      }
    }
  }
  return 0;
}

/* The mutex is held. Signals stay with the threads of the host. Without the thread the time budget still holds. */
static void startWatcher(void) {
  pthread_t thread;
  sigset_t all, before;
  if (watcherStarted) {
    if (watcherAsleep) pthread_cond_signal(&wake);
    return;
  }
  watcherStarted = 1;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  if (pthread_create(&thread, 0, watch, 0) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, 0);
}

/* ---- Control functions ---- */

static Guard *guardOf(sqlite3_context *ctx, sqlite3_value *handle) {
  Guard *g;
  pthread_mutex_lock(&mutex);
  g = find(sqlite3_value_int64(handle));
  pthread_mutex_unlock(&mutex);
  if (g == 0) sqlite3_result_error(ctx, "no such guard", -1);
  return g;
}

/* guard_configure(id, value) */
static void controlConfigure(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  int id = sqlite3_value_int(argv[0]);
  i64 value = sqlite3_value_int64(argv[1]);
  (void)argc;
  pthread_mutex_lock(&mutex);
  if (id >= 0 && id < SQLITE_LIMITS) sqliteLimits[id] = (int)value;
  else if (id >= VALUE_BYTES && id <= PROCESS_BYTES) OWN(id) = value;
  else sqlite3_result_error(ctx, "no such limit", -1);
  pthread_mutex_unlock(&mutex);
}

/* guard_attached(): the handle of the connection that this thread attached last. */
static void controlAttached(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  (void)argc;
  (void)argv;
  sqlite3_result_int64(ctx, handleLast);
}

/*
** Optimizer steps that copy the columns of a subquery into the query around it: SQLITE_QueryFlattener, _CountOfView,
** _PushDown and _FlttnUnionAll of sqliteInt.h. Numbers of this build of SQLite; others would only make plans slower.
*/
#define COPYING_STEPS (0x00000001u | 0x00000200u | 0x00001000u | 0x00800000u)

/*
** guard_enter(handle, ticket, internal, plain, defines, own): authorizer and limits on; `plain` plans without the steps above.
** `own` is a command of the node's own: it can be stopped and is watched, and may do what it likes.
** The pin is a statement that stays active meanwhile: SQLite forgets an interrupt when a statement starts while none
** is active, so without it an interrupt between two steps would be lost. It reads no table and so holds no lock.
*/
static void controlEnter(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  Guard *g = guardOf(ctx, argv[0]);
  i64 ticket = sqlite3_value_int64(argv[1]);
  int own = sqlite3_value_int(argv[5]);
  int i;
  (void)argc;
  if (g == 0) return;
  if (g->pin || g->on || ticket <= 0) {
    sqlite3_result_error(ctx, "the guard is already on, or the ticket is not positive", -1);
    return;
  }
  if (sqlite3_prepare_v2(g->db, "VALUES(1),(2)", -1, &g->pin, 0) != SQLITE_OK || sqlite3_step(g->pin) != SQLITE_ROW) {
    sqlite3_finalize(g->pin);
    g->pin = 0;
    sqlite3_result_error(ctx, "the guard cannot start", -1);
    return;
  }
  if (g->lastTicket != ticket) sqlite3_set_last_insert_rowid(g->db, 0);
  g->lastTicket = ticket;
  for (i = 0; i < SQLITE_LIMITS; i++) g->savedLimits[i] = sqlite3_limit(g->db, i, own ? -1 : sqliteLimits[i]);
  g->namesChecked = 0;
  g->reason[0] = 0;
  g->internal = sqlite3_value_int(argv[2]);
  g->defines = sqlite3_value_int(argv[4]);
  sqlite3_test_control(SQLITE_TESTCTRL_GETOPT, g->db, &g->savedOptimizations);
  if (sqlite3_value_int(argv[3])) sqlite3_test_control(SQLITE_TESTCTRL_OPTIMIZATIONS, g->db, g->savedOptimizations | COPYING_STEPS);
  pthread_mutex_lock(&mutex);
  g->ticket = ticket;
  g->hit = HIT_NONE;
  g->baseline = 0;
  for (i = 0; i < EARLY; i++) {
    if (g->early[i] == ticket || early[i] == ticket) g->hit = HIT_ASKED;
  }
  if (g->hit) sqlite3_interrupt(g->db);
  g->runningNext = running;
  running = g;
  startWatcher();
  pthread_mutex_unlock(&mutex);
  g->on = !own;
}

/* guard_leave(handle): everything off again; answers whether and why the ticket was stopped. */
static void controlLeave(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  Guard *g = guardOf(ctx, argv[0]);
  Guard **at;
  int hit, i;
  (void)argc;
  if (g == 0) return;
  g->on = 0;
  g->internal = g->defines = 0;
  if (g->stmt) sqlite3_reset(g->stmt);
  g->stmt = 0;
  pthread_mutex_lock(&mutex);
  hit = g->hit;
  g->ticket = 0;
  g->hit = HIT_NONE;
  for (at = &running; *at; at = &(*at)->runningNext) {
    if (*at == g) {
      *at = g->runningNext;
      break;
    }
  }
  pthread_mutex_unlock(&mutex);
  for (i = 0; i < SQLITE_LIMITS; i++) sqlite3_limit(g->db, i, g->savedLimits[i]);
  sqlite3_test_control(SQLITE_TESTCTRL_OPTIMIZATIONS, g->db, g->savedOptimizations);
  sqlite3_finalize(g->pin);
  g->pin = 0;
  sqlite3_result_int(ctx, hit);
}

/*
** guard_fit(handle): bounds the length of values by the size of the statement prepared last.
** Every register of a program can hold a value, and SQLite checks for an interrupt only where a program jumps, so
** a straight line of a thousand randomblob() must fit by itself. A register takes 56 bytes of the statement's memory;
** the text itself, kept once whole and once as its literals, is no register.
*/
static void controlFit(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  Guard *g = guardOf(ctx, argv[0]);
  sqlite3_stmt *stmt;
  i64 text, registers, bytes;
  (void)argc;
  if (g == 0) return;
  stmt = sqlite3_next_stmt(g->db, 0);
  if (!g->on || stmt == 0 || stmt == g->pin) {
    sqlite3_result_error(ctx, "no statement to fit", -1);
    return;
  }
  text = (i64)strlen(sqlite3_sql(stmt));
  registers = (sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_MEMUSED, 0) - 2 * text) / 56 - sqlite3_bind_parameter_count(stmt);
  bytes = OWN(STATEMENT_BYTES) / (registers > 1 ? registers : 1);
  if (bytes > OWN(VALUE_BYTES)) bytes = OWN(VALUE_BYTES);
  if (bytes < OWN(VALUE_BYTES_FLOOR)) bytes = OWN(VALUE_BYTES_FLOOR);
  if (bytes < text) bytes = text;
  sqlite3_limit(g->db, SQLITE_LIMIT_LENGTH, (int)bytes);
  g->stmt = stmt;
  sqlite3_result_int64(ctx, bytes);
}

/* guard_step(handle, bytesMax): the next row of the statement that was fitted. */
static void controlStep(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  Guard *g = guardOf(ctx, argv[0]);
  (void)argc;
  if (g) guardStep(ctx, g, sqlite3_value_int64(argv[1]));
}

/* guard_column(index): a value of the row that this thread has stepped to last, null at the end. */
static void controlColumn(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  (void)argc;
  guardColumn(ctx, sqlite3_value_int(argv[0]));
}

/* guard_serve(fd): this process runs user SQL and nothing else from now on. */
static void controlServe(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  const char *wrong = guardServe(sqlite3_value_int(argv[0]));
  (void)argc;
  if (wrong) sqlite3_result_error(ctx, wrong, -1);
}

/* guard_bound_log(handle, bytes): from now on what runs is stopped when the log's file is longer; seen a tick late. */
static void controlBoundLog(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  Guard *g = guardOf(ctx, argv[0]);
  (void)argc;
  if (g == 0) return;
  pthread_mutex_lock(&mutex);
  g->logPath = sqlite3_filename_wal(sqlite3_db_filename(g->db, "main"));
  g->logBytesMax = sqlite3_value_int64(argv[1]);
  pthread_mutex_unlock(&mutex);
}

/* guard_reason(handle): what the authorizer refused since guard_enter, or empty. */
static void controlReason(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  Guard *g = guardOf(ctx, argv[0]);
  (void)argc;
  if (g) sqlite3_result_text(ctx, g->reason, -1, SQLITE_TRANSIENT);
}

/* guard_deferred(handle): whether a deferred foreign key is broken in the open transaction. */
static void controlDeferred(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  Guard *g = guardOf(ctx, argv[0]);
  int now = 0, highest = 0;
  (void)argc;
  if (g == 0) return;
  sqlite3_db_status(g->db, SQLITE_DBSTATUS_DEFERRED_FKS, &now, &highest, 0);
  sqlite3_result_int(ctx, now);
}

/*
 * guard_trim(): gives freed memory back to the system, where the C library can. Hundreds of closed connections leave
 * it in small pieces that glibc would otherwise keep for ever (250 MB after 600 databases, measured).
 */
static void controlTrim(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  (void)argc;
  (void)argv;
#ifdef __GLIBC__
  sqlite3_result_int(ctx, malloc_trim(0));
#else
  sqlite3_result_int(ctx, 0);
#endif
}

/* guard_detach(handle): no interrupt finds it any more. */
static void controlDetach(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  Guard *g = guardOf(ctx, argv[0]);
  (void)argc;
  if (g == 0) return;
  pthread_mutex_lock(&mutex);
  forget(g);
  pthread_mutex_unlock(&mutex);
}

/* guard_interrupt(handle, ticket): 2 stopped, 1 remembered for a ticket that does not run now, 0 no such handle. */
static void controlInterrupt(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  i64 ticket = sqlite3_value_int64(argv[1]);
  Guard *g;
  int result = 0;
  (void)argc;
  pthread_mutex_lock(&mutex);
  g = find(sqlite3_value_int64(argv[0]));
  if (g && g->ticket == ticket) {
    if (g->hit == HIT_NONE) g->hit = HIT_ASKED;
    sqlite3_interrupt(g->db);
    result = 2;
  } else if (g) {
    g->early[g->earlyNext++ % EARLY] = ticket;
    result = 1;
  }
  pthread_mutex_unlock(&mutex);
  sqlite3_result_int(ctx, result);
}

/* ---- For a process that runs user SQL and nothing else ---- */

/* The mutex is held. */
static void stop(Guard *g, int hit) {
  if (g->hit == HIT_NONE) g->hit = hit;
  sqlite3_interrupt(g->db);
}

void guardInterrupt(i64 ticket) {
  Guard *g;
  pthread_mutex_lock(&mutex);
  for (g = running; g && g->ticket != ticket; g = g->runningNext) {}
  if (g) stop(g, HIT_ASKED);
  else early[earlyNext++ % EARLY] = ticket;
  pthread_mutex_unlock(&mutex);
}

void guardStopAll(int hit) {
  Guard *g;
  pthread_mutex_lock(&mutex);
  for (g = running; g; g = g->runningNext) stop(g, hit);
  pthread_mutex_unlock(&mutex);
}

/* Outside of a statement the commit writes: its bound was looked at before. */
int guardLogMayReach(i64 bytes) {
  Guard *g;
  int may = 1;
  pthread_mutex_lock(&mutex);
  for (g = running; g; g = g->runningNext) {
    if (g->logBytesMax == 0 || bytes <= g->logBytesMax) continue;
    stop(g, HIT_LOG);
    may = 0;
  }
  pthread_mutex_unlock(&mutex);
  return may;
}

/* ---- Entry points ---- */

static void freeGuard(void *arg) {
  Guard *g = (Guard *)arg;
  int i;
  pthread_mutex_lock(&mutex);
  forget(g);
  pthread_mutex_unlock(&mutex);
  for (i = 0; i < BOUNDED_COUNT; i++) sqlite3_finalize(g->bounded[i].stmt);
  if (g->scratch) sqlite3_close(g->scratch);
  free(g);
}

static int hardened(sqlite3 *db) {
  static const struct {
    int id, value;
  } settings[] = {
    {SQLITE_DBCONFIG_DEFENSIVE, 1},          {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
    {SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0},    {SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0},
    {SQLITE_DBCONFIG_DQS_DML, 0},            {SQLITE_DBCONFIG_DQS_DDL, 0},
    {SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, 0}, {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
  };
  int i, now;
  for (i = 0; i < (int)(sizeof(settings) / sizeof(settings[0])); i++) {
    if (sqlite3_db_config(db, settings[i].id, settings[i].value, &now) != SQLITE_OK || now != settings[i].value) return 0;
  }
  return 1;
}

__attribute__((visibility("default")))
int sqlite3_sqlguard_init(sqlite3 *db, char **message, const sqlite3_api_routines *api) {
  Guard *g;
  int i, rc;
  SQLITE_EXTENSION_INIT2(api);
  if (sqlite3_get_clientdata(db, "sqlguard")) {
    *message = sqlite3_mprintf("the connection is guarded already");
    return SQLITE_ERROR;
  }
  g = (Guard *)calloc(1, sizeof(Guard));
  if (g == 0) return SQLITE_NOMEM;
  g->db = db;
  pthread_mutex_lock(&mutex);
  g->handle = handleLast = handleNext++;
  g->bucketNext = buckets[g->handle % BUCKETS];
  buckets[g->handle % BUCKETS] = g;
  pthread_mutex_unlock(&mutex);
  /* From here on the connection owns the guard, and frees it when it closes. */
  rc = sqlite3_set_clientdata(db, "sqlguard", g, freeGuard);
  for (i = 0; rc == SQLITE_OK && i < BOUNDED_COUNT; i++) {
    int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS | (boundedSpecs[i].json ? SQLITE_RESULT_SUBTYPE : 0);
    g->bounded[i].guard = g;
    g->bounded[i].spec = i;
    rc = sqlite3_create_function_v2(db, boundedSpecs[i].name, boundedSpecs[i].args, flags, &g->bounded[i], runBounded, 0, 0, 0);
  }
  if (rc == SQLITE_OK && !hardened(db)) rc = SQLITE_ERROR;
  if (rc == SQLITE_OK) rc = sqlite3_set_authorizer(db, guardAuthorize, g);
  if (rc != SQLITE_OK) {
    *message = sqlite3_mprintf("the SQL guard could not be installed");
    return rc;
  }
  return SQLITE_OK_LOAD_PERMANENTLY;
}

__attribute__((visibility("default")))
int sqlite3_sqlguardcontrol_init(sqlite3 *db, char **message, const sqlite3_api_routines *api) {
  static const struct {
    const char *name;
    int args;
    void (*call)(sqlite3_context *, int, sqlite3_value **);
  } controls[] = {
    {"guard_configure", 2, controlConfigure}, {"guard_attached", 0, controlAttached}, {"guard_enter", 6, controlEnter},
    {"guard_leave", 1, controlLeave},         {"guard_fit", 1, controlFit},           {"guard_reason", 1, controlReason},
    {"guard_detach", 1, controlDetach},       {"guard_interrupt", 2, controlInterrupt},
    {"guard_trim", 0, controlTrim},           {"guard_bound_log", 2, controlBoundLog},
    {"guard_deferred", 1, controlDeferred},   {"guard_step", 2, controlStep},         {"guard_column", 1, controlColumn},
    {"guard_serve", 1, controlServe},
    {"slice_tenants", 2, sliceTenants},       {"slice_begin", 3, sliceBegin},         {"slice_is_over", 1, sliceIsOver},
    {"slice_end", 1, sliceEnd},               {"slice_attached", 0, sliceAttached},
    {"slice_shared", 1, sliceShared},
  };
  int i, rc = SQLITE_OK;
  (void)message;
  SQLITE_EXTENSION_INIT2(api);
  for (i = 0; rc == SQLITE_OK && i < (int)(sizeof(controls) / sizeof(controls[0])); i++) {
    rc = sqlite3_create_function_v2(db, controls[i].name, controls[i].args, SQLITE_UTF8, 0, controls[i].call, 0, 0, 0);
  }
  return rc == SQLITE_OK ? SQLITE_OK_LOAD_PERMANENTLY : rc;
}
