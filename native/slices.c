/*
** Time slices: how long a command of the node's own may hold its thread while another tenant waits for the same thread.
**
** Why here: what SQLite computes inside one statement only sqlite3_interrupt stops, and only another thread can call it. The
** thread that looks at the slices asks for two numbers of each lane: when its slice is over, and how many tenants have calls
** under way there, which the main thread tells. A tenant alone is never stopped.
**
** Always true: a connection is interrupted once in a slice at most, and never outside of one, so that the statement which
** undoes what was stopped is not stopped itself. Must not know: what runs, who the tenants are.
*/
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include "sqlguard.h"
SQLITE_EXTENSION_INIT3

#define LANES 1024
/* So often slices are looked at, and after so many looks without any the thread sleeps. */
#define LOOK_NS (4 * 1000 * 1000)
#define IDLE_LOOKS 500

typedef struct {
  sqlite3 *db; /* null: nothing runs within a slice */
  clockid_t work; /* what the thread computes */
  i64 overAtWorkNs;
  i64 overAtNs;
  int stopped;
} Slice;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static Slice slices[LANES];
static int lanesUsed; /* slices beyond were never used */
static int started, asleep;
static atomic_int tenants[LANES];
/* The connection that this thread attached last. */
static __thread sqlite3 *attached;

static i64 nsOf(clockid_t clock) {
  struct timespec now;
  if (clock_gettime(clock, &now) != 0) return 0;
  return (i64)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The clock of what this thread computes, as other threads can read it; where there is none, that of the wall. */
static clockid_t workClock(void) {
#ifdef __linux__
  clockid_t clock;
  if (pthread_getcpuclockid(pthread_self(), &clock) == 0) return clock;
#endif
  return CLOCK_MONOTONIC;
}

/* The mutex is held. */
static int isOver(int lane) {
  const Slice *slice = &slices[lane];
  if (slice->db == 0 || atomic_load_explicit(&tenants[lane], memory_order_relaxed) <= 1) return 0;
  return nsOf(slice->work) > slice->overAtWorkNs || nsOf(CLOCK_MONOTONIC) > slice->overAtNs;
}

static void *look(void *unused) {
  const struct timespec pause = {0, LOOK_NS};
  int idle = 0;
  (void)unused;
  for (;;) {
    int lane, busy = 0;
    nanosleep(&pause, 0);
    pthread_mutex_lock(&mutex);
    for (lane = 0; lane < lanesUsed; lane++) {
      if (slices[lane].db) busy = 1;
      if (!isOver(lane) || slices[lane].stopped) continue;
      slices[lane].stopped = 1;
      sqlite3_interrupt(slices[lane].db);
    }
    idle = busy ? 0 : idle + 1;
    if (idle > IDLE_LOOKS) {
      asleep = 1;
      while (asleep) pthread_cond_wait(&wake, &mutex);
      idle = 0;
    }
    pthread_mutex_unlock(&mutex);
  }
  return 0;
}

/* The mutex is held. Signals stay with the threads of the host. Without the thread, looks between statements remain. */
static void start(void) {
  pthread_t thread;
  sigset_t all, before;
  if (started) {
    if (asleep) {
      asleep = 0;
      pthread_cond_signal(&wake);
    }
    return;
  }
  started = 1;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  if (pthread_create(&thread, 0, look, 0) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, 0);
}

static int laneOf(sqlite3_context *ctx, sqlite3_value *value) {
  int lane = sqlite3_value_int(value);
  if (lane >= 0 && lane < LANES) return lane;
  sqlite3_result_error(ctx, "no such lane", -1);
  return -1;
}

/* slice_tenants(lane, count): so many tenants have calls under way there. */
void sliceTenants(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  int lane = laneOf(ctx, argv[0]);
  (void)argc;
  if (lane >= 0) atomic_store_explicit(&tenants[lane], sqlite3_value_int(argv[1]), memory_order_relaxed);
}

/* slice_shared(lane): whether several tenants have calls under way there. */
void sliceShared(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  int lane = laneOf(ctx, argv[0]);
  (void)argc;
  if (lane >= 0) sqlite3_result_int(ctx, atomic_load_explicit(&tenants[lane], memory_order_relaxed) > 1);
}

/* slice_attached(): the connection that this thread attached last, as slice_begin takes it. */
void sliceAttached(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  (void)argc;
  (void)argv;
  sqlite3_result_int64(ctx, (i64)(size_t)attached);
}

/*
** slice_begin(lane, connection, microseconds): what the connection runs from now on is stopped when this thread has computed
** for so long, or three times as long has gone by. A thread that others keep from its processor is not its tenant's fault.
*/
void sliceBegin(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  int lane = laneOf(ctx, argv[0]);
  i64 ns = sqlite3_value_int64(argv[2]) * 1000;
  (void)argc;
  if (lane < 0) return;
  pthread_mutex_lock(&mutex);
  slices[lane].db = (sqlite3 *)(size_t)sqlite3_value_int64(argv[1]);
  slices[lane].work = workClock();
  slices[lane].overAtWorkNs = nsOf(slices[lane].work) + ns;
  slices[lane].overAtNs = nsOf(CLOCK_MONOTONIC) + 3 * ns;
  slices[lane].stopped = 0;
  if (lane >= lanesUsed) lanesUsed = lane + 1;
  if (!started || asleep) start();
  pthread_mutex_unlock(&mutex);
}

/* slice_is_over(lane): whether what runs there is to stop; then it is not interrupted any more. */
void sliceIsOver(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  int lane = laneOf(ctx, argv[0]), over;
  (void)argc;
  if (lane < 0) return;
  pthread_mutex_lock(&mutex);
  over = slices[lane].stopped || isOver(lane);
  if (over) slices[lane].stopped = 1;
  pthread_mutex_unlock(&mutex);
  sqlite3_result_int(ctx, over);
}

/* slice_end(lane): what runs there from now on is not stopped. */
void sliceEnd(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  int lane = laneOf(ctx, argv[0]);
  (void)argc;
  if (lane < 0) return;
  pthread_mutex_lock(&mutex);
  slices[lane].db = 0;
  pthread_mutex_unlock(&mutex);
}

/* The connection closes, maybe because its thread has ended in the middle of a slice: nobody interrupts it any more. */
static void closing(void *db) {
  int lane;
  pthread_mutex_lock(&mutex);
  for (lane = 0; lane < lanesUsed; lane++) {
    if (slices[lane].db == (sqlite3 *)db) slices[lane].db = 0;
  }
  pthread_mutex_unlock(&mutex);
}

/* A connection of an engine thread: what it runs within a slice can be stopped at its end. */
__attribute__((visibility("default")))
int sqlite3_sqlslices_init(sqlite3 *db, char **message, const sqlite3_api_routines *api) {
  int rc;
  SQLITE_EXTENSION_INIT2(api);
  rc = sqlite3_set_clientdata(db, "sqlslices", db, closing);
  if (rc != SQLITE_OK) {
    *message = sqlite3_mprintf("time slices could not be installed");
    return rc;
  }
  attached = db;
  return SQLITE_OK_LOAD_PERMANENTLY;
}
