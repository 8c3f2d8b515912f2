/*
** What only a process that runs user SQL and nothing else has: quotas on its files and its memory, an ear for interrupts
** beside the thread that computes, and an end that comes with its parent's.
**
** Always true once guardServe was called: temporary files together, and the log of the database that is written, stay
** within the guard's bounds, refused by the very write that would go beyond; no connection folds a log in or deletes it
** when it closes; the process ends when its parent does, however busy it is.
*/
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include "sqlguard.h"
SQLITE_EXTENSION_INIT3

/* ---- Files: a VFS around the default one that counts what temporary files and logs take ---- */

static sqlite3_vfs *wrapped;
static sqlite3_vfs counting;
static i64 spilled; /* bytes of all temporary files of the process */

typedef struct {
  sqlite3_file base;
  sqlite3_file *real; /* behind this struct */
  i64 bytes;          /* how far the file was written */
  int isLog;
} File;

static sqlite3_file *realOf(sqlite3_file *file) { return ((File *)file)->real; }

/* The file is `bytes` long from now on. */
static void grown(File *f, i64 bytes) {
  if (!f->isLog) __atomic_add_fetch(&spilled, bytes - f->bytes, __ATOMIC_RELAXED);
  f->bytes = bytes;
}

static int fileClose(sqlite3_file *file) {
  File *f = (File *)file;
  grown(f, 0);
  return f->real->pMethods->xClose(f->real);
}
static int fileRead(sqlite3_file *file, void *into, int count, i64 offset) {
  return realOf(file)->pMethods->xRead(realOf(file), into, count, offset);
}
static int fileWrite(sqlite3_file *file, const void *from, int count, i64 offset) {
  File *f = (File *)file;
  int rc;
  if (offset + count > f->bytes) {
    if (f->isLog && !guardLogMayReach(offset + count)) return SQLITE_FULL;
    if (!f->isLog && __atomic_load_n(&spilled, __ATOMIC_RELAXED) + offset + count - f->bytes > OWN(SPILL_BYTES)) {
      guardStopAll(HIT_SPILL);
      return SQLITE_FULL;
    }
  }
  rc = f->real->pMethods->xWrite(f->real, from, count, offset);
  if (rc == SQLITE_OK && offset + count > f->bytes) grown(f, offset + count);
  if (rc == SQLITE_FULL) guardStopAll(HIT_DISK);
  return rc;
}
static int fileTruncate(sqlite3_file *file, i64 size) {
  File *f = (File *)file;
  int rc = f->real->pMethods->xTruncate(f->real, size);
  if (rc == SQLITE_OK) grown(f, size);
  return rc;
}
static int fileSync(sqlite3_file *file, int flags) { return realOf(file)->pMethods->xSync(realOf(file), flags); }
static int fileSize(sqlite3_file *file, i64 *size) { return realOf(file)->pMethods->xFileSize(realOf(file), size); }
static int fileLock(sqlite3_file *file, int lock) { return realOf(file)->pMethods->xLock(realOf(file), lock); }
static int fileUnlock(sqlite3_file *file, int lock) { return realOf(file)->pMethods->xUnlock(realOf(file), lock); }
static int fileCheckReserved(sqlite3_file *file, int *out) { return realOf(file)->pMethods->xCheckReservedLock(realOf(file), out); }
static int fileControl(sqlite3_file *file, int op, void *arg) {
  /* Hints would make room that nobody counts. */
  if (op == SQLITE_FCNTL_SIZE_HINT || op == SQLITE_FCNTL_CHUNK_SIZE) return SQLITE_OK;
  return realOf(file)->pMethods->xFileControl(realOf(file), op, arg);
}
static int fileSectorSize(sqlite3_file *file) { return realOf(file)->pMethods->xSectorSize(realOf(file)); }
static int fileCharacteristics(sqlite3_file *file) { return realOf(file)->pMethods->xDeviceCharacteristics(realOf(file)); }

/* Version 1: no memory maps of these files, which would grow them unseen. */
static const sqlite3_io_methods methods = {
  1, fileClose, fileRead, fileWrite, fileTruncate, fileSync, fileSize, fileLock, fileUnlock, fileCheckReserved, fileControl, fileSectorSize, fileCharacteristics, 0, 0, 0, 0, 0, 0,
};

#define TEMPORARY (SQLITE_OPEN_TEMP_DB | SQLITE_OPEN_TRANSIENT_DB | SQLITE_OPEN_TEMP_JOURNAL | SQLITE_OPEN_SUBJOURNAL)

static int countingOpen(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *flagsOut) {
  File *f = (File *)file;
  i64 size = 0;
  int rc;
  (void)vfs;
  if (!(flags & (TEMPORARY | SQLITE_OPEN_WAL))) return wrapped->xOpen(wrapped, name, file, flags, flagsOut);
  memset(f, 0, sizeof *f);
  f->real = (sqlite3_file *)&f[1];
  f->isLog = (flags & SQLITE_OPEN_WAL) != 0;
  rc = wrapped->xOpen(wrapped, name, f->real, flags, flagsOut);
  if (f->real->pMethods == 0) return rc;
  f->base.pMethods = &methods;
  if (f->isLog && f->real->pMethods->xFileSize(f->real, &size) == SQLITE_OK) f->bytes = size;
  return rc;
}

static int countFiles(void) {
  wrapped = sqlite3_vfs_find(0);
  if (wrapped == 0) return SQLITE_ERROR;
  counting = *wrapped;
  counting.pNext = 0;
  counting.zName = "counting";
  counting.szOsFile += (int)sizeof(File);
  counting.xOpen = countingOpen;
  return sqlite3_vfs_register(&counting, 1);
}

/*
** The log belongs to the process that serves the database: whoever closes here neither folds it in nor deletes it. By this
** function, which SQLite calls for each connection before anybody has it, because a connection whose making fails half-way
** closes too.
*/
static int keepLog(sqlite3 *db, char **message, const sqlite3_api_routines *api) {
  (void)message;
  (void)api;
  return sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)0);
}

/* ---- Memory ---- */

/* Bytes of writable memory that is the process's own, as the system counts it for RLIMIT_DATA; 0 where it does not tell. */
static i64 dataBytes(void) {
#ifdef __linux__
  char line[128];
  long kib = 0;
  FILE *file = fopen("/proc/self/status", "re");
  if (file == 0) return 0;
  while (fgets(line, sizeof line, file)) {
    if (sscanf(line, "VmData: %ld kB", &kib) == 1) break;
  }
  fclose(file);
  return (i64)kib * 1024;
#else
  return 0;
#endif
}

/* From now on memory beyond the bound is refused by the system, to SQLite, which takes it, and to everybody else. */
static void boundMemory(void) {
  struct rlimit bound = {0, 0};
  i64 now = dataBytes();
  /* What the memory held would be in it. */
  setrlimit(RLIMIT_CORE, &bound);
  if (now == 0 || OWN(PROCESS_BYTES) == 0) return;
  bound.rlim_cur = bound.rlim_max = (rlim_t)(now + OWN(PROCESS_BYTES));
  setrlimit(RLIMIT_DATA, &bound);
}

/* ---- The ear ---- */

/* Tickets come over the pipe, eight bytes each; its end is the parent's. */
static void *listen(void *arg) {
  int fd = (int)(intptr_t)arg;
  i64 ticket = 0;
  size_t have = 0;
  for (;;) {
    ssize_t got = read(fd, (char *)&ticket + have, sizeof ticket - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) _exit(0);
    have += (size_t)got;
    if (have < sizeof ticket) continue;
    have = 0;
    guardInterrupt(ticket);
  }
  return 0;
}

const char *guardServe(int fd) {
  pthread_t thread;
  sigset_t all, before;
  int rc;
#ifdef __linux__
  /* The pipe's end says the same, a moment later. */
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return "the process cannot be tied to its parent";
#endif
  if (countFiles() != SQLITE_OK) return "files cannot be counted";
  if (sqlite3_auto_extension((void (*)(void))keepLog) != SQLITE_OK) return "logs cannot be kept";
  boundMemory();
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  rc = pthread_create(&thread, 0, listen, (void *)(intptr_t)fd);
  pthread_sigmask(SIG_SETMASK, &before, 0);
  if (rc != 0) return "nobody listens for interrupts";
  pthread_detach(thread);
  return 0;
}
