/* What the files of the SQL guard share: its bounds, and the state of one guarded connection. */
#ifndef SQLGUARD_H
#define SQLGUARD_H
#include "sqlite3ext.h"

typedef sqlite3_int64 i64;

/* Bounds come from base/limits.ts through the control connection (guard_configure), so that no number lives here. */
#define SQLITE_LIMITS 15 /* ids 0 to 14 are SQLite's own SQLITE_LIMIT_* */
enum { VALUE_BYTES = 100, STATEMENT_BYTES, VALUE_BYTES_FLOOR, GROWTH_BYTES, WORK_PRODUCT, NAMES_CHECKED, SPILL_BYTES, PROCESS_BYTES };
#define OWN_LIMITS (PROCESS_BYTES - VALUE_BYTES + 1)
extern i64 guardLimits[OWN_LIMITS];
#define OWN(id) guardLimits[(id) - VALUE_BYTES]

typedef struct Guard Guard;

/* Why a statement was stopped. */
enum { HIT_NONE = 0, HIT_ASKED = 1, HIT_MEMORY = 2, HIT_LOG = 3, HIT_SPILL = 4, HIT_DISK = 5 };

/* A built-in function whose cost is the product of two lengths: run on a private connection, after a look at both. */
typedef struct {
  Guard *guard;
  sqlite3_stmt *stmt;
  int spec;
} Bounded;

#define BOUNDED_COUNT 8

#define EARLY 8 /* interrupts remembered for tickets that have not begun */

struct Guard {
  sqlite3 *db;
  i64 handle;
  /* Under the mutex: */
  i64 ticket; /* what runs now; 0 for nothing */
  int hit;    /* why it was stopped: HIT_* */
  i64 early[EARLY];
  unsigned earlyNext;
  const char *logPath;
  i64 logBytesMax; /* how long the log's file may be while something runs; 0 for no bound */
  i64 baseline; /* resident bytes when the watcher first saw this ticket */
  Guard *bucketNext;
  Guard *runningNext;
  /* Of the connection's own thread: */
  int on;
  int internal; /* a whole-database check: SQLite itself reads the reserved tables */
  int defines;  /* ALTER or DROP: SQLite itself keeps its own tables in step */
  i64 lastTicket;
  i64 namesChecked;
  int savedLimits[SQLITE_LIMITS];
  unsigned savedOptimizations;
  sqlite3_stmt *pin;
  sqlite3_stmt *stmt; /* the user's statement, from guard_fit on */
  sqlite3 *scratch; /* runs the bounded functions */
  Bounded bounded[BOUNDED_COUNT];
  char reason[256];
};

/* The callback for sqlite3_set_authorizer; its first argument is the connection's Guard. */
int guardAuthorize(void *guard, int code, const char *a, const char *b, const char *schema, const char *via);

/* rows.c */
void guardStep(sqlite3_context *ctx, Guard *g, i64 bytesMax);
void guardColumn(sqlite3_context *ctx, int column);

/* process.c: what is wrong, or null. Once, before any connection that runs user SQL is opened. */
const char *guardServe(int fd);

/* sqlguard.c, for process.c: stops whatever runs under a ticket, now or once it begins; stops what runs now; asks for room in the log. */
void guardInterrupt(i64 ticket);
void guardStopAll(int hit);
int guardLogMayReach(i64 bytes);

/* slices.c: functions of a control connection. */
void sliceTenants(sqlite3_context *ctx, int argc, sqlite3_value **argv);
void sliceShared(sqlite3_context *ctx, int argc, sqlite3_value **argv);
void sliceAttached(sqlite3_context *ctx, int argc, sqlite3_value **argv);
void sliceBegin(sqlite3_context *ctx, int argc, sqlite3_value **argv);
void sliceIsOver(sqlite3_context *ctx, int argc, sqlite3_value **argv);
void sliceEnd(sqlite3_context *ctx, int argc, sqlite3_value **argv);

#endif
