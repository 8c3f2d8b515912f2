/*
 * Loaded into a process before its C library (LD_PRELOAD): what it does to files below one directory fails, is slow, or is
 * carried out in part, as a control block in shared memory says. FAULTY_DISK_ROOT names the directory, FAULTY_DISK_CONTROL
 * the file that holds the block; whoever drives the test writes it (test/support/faulty-disk.ts says how it is laid out).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control {
  int32_t full;        /* 1: writes take what `room` says is left, and then fail with ENOSPC; directories cannot be made */
  int32_t read_only;   /* 1: whatever changes something fails with EROFS */
  int32_t bad_writes;  /* 1: writes fail with EIO */
  int32_t bad_syncs;   /* 1: fsyncs fail with EIO */
  int32_t delay_us;    /* writes and fsyncs take so much longer */
  int32_t unused;
  int64_t room;        /* bytes */
  int64_t refused;     /* calls that failed */
  int64_t cut;         /* writes of which only a part was taken */
  int64_t writes;      /* calls seen: writes, fsyncs, names */
  int64_t syncs;
  int64_t names;
};

static struct control *control;
static char root[PATH_MAX];
static size_t root_length;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("FAULTY_DISK_CONTROL"), *directory = getenv("FAULTY_DISK_ROOT");
  if (!path || !directory || !realpath(directory, root)) return;
  root_length = strlen(root);
  int descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return;
  void *block = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  syscall(SYS_close, descriptor);
  if (block != MAP_FAILED) control = block;
}

static int below(const char *path) {
  return strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || path[root_length] == 0);
}

static int is_ours(int descriptor) {
  if (!control) return 0;
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  return below(path);
}

static int is_our_path(const char *path) { return control && path && path[0] == '/' && below(path); }

static int refuse(int code) {
  __atomic_add_fetch(&control->refused, 1, __ATOMIC_SEQ_CST);
  errno = code;
  return -1;
}

static void dawdle(void) {
  int32_t delay = control->delay_us;
  if (delay <= 0) return;
  struct timespec pause = { delay / 1000000, (delay % 1000000) * 1000L };
  nanosleep(&pause, NULL);
}

/* How many of the bytes may be written; -1 with errno when none. */
static ssize_t taken(int descriptor, size_t bytes) {
  if (!is_ours(descriptor)) return (ssize_t)bytes;
  __atomic_add_fetch(&control->writes, 1, __ATOMIC_SEQ_CST);
  dawdle();
  if (control->read_only) return refuse(EROFS);
  if (control->bad_writes) return refuse(EIO);
  if (!control->full || bytes == 0) return (ssize_t)bytes;
  int64_t left = __atomic_fetch_sub(&control->room, (int64_t)bytes, __ATOMIC_SEQ_CST);
  if (left >= (int64_t)bytes) return (ssize_t)bytes;
  __atomic_store_n(&control->room, 0, __ATOMIC_SEQ_CST);
  if (left <= 0) return refuse(ENOSPC);
  __atomic_add_fetch(&control->cut, 1, __ATOMIC_SEQ_CST);
  return (ssize_t)left;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int descriptor, const void *bytes, size_t count) {
  static __typeof__(&write) next;
  if (!next) next = NEXT(write);
  ssize_t may = taken(descriptor, count);
  return may < 0 ? -1 : next(descriptor, bytes, (size_t)may);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t at) {
  static __typeof__(&pwrite) next;
  if (!next) next = NEXT(pwrite);
  ssize_t may = taken(descriptor, count);
  return may < 0 ? -1 : next(descriptor, bytes, (size_t)may, at);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t at) {
  static __typeof__(&pwrite64) next;
  if (!next) next = NEXT(pwrite64);
  ssize_t may = taken(descriptor, count);
  return may < 0 ? -1 : next(descriptor, bytes, (size_t)may, at);
}

/* Writes the parts one by one as far as they may go; at < 0 for the file's own position. */
static ssize_t gather(int descriptor, const struct iovec *parts, int count, off_t at) {
  size_t total = 0;
  for (int part = 0; part < count; part++) total += parts[part].iov_len;
  ssize_t may = taken(descriptor, total);
  if (may < 0) return -1;
  if ((size_t)may == total) {
    return at < 0 ? syscall(SYS_writev, descriptor, parts, count) : syscall(SYS_pwritev, descriptor, parts, count, (long)at, 0L);
  }
  ssize_t done = 0;
  for (int part = 0; part < count && done < may; part++) {
    size_t length = parts[part].iov_len;
    if ((ssize_t)length > may - done) length = (size_t)(may - done);
    ssize_t written = at < 0 ? syscall(SYS_write, descriptor, parts[part].iov_base, length) : syscall(SYS_pwrite64, descriptor, parts[part].iov_base, length, at + done);
    if (written < 0) return done > 0 ? done : -1;
    done += written;
    if ((size_t)written < length) break;
  }
  return done;
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) { return gather(descriptor, parts, count, -1); }
ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t at) { return gather(descriptor, parts, count, at); }
ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off64_t at) { return gather(descriptor, parts, count, at); }

static int synced(int descriptor) {
  if (!is_ours(descriptor)) return 0;
  __atomic_add_fetch(&control->syncs, 1, __ATOMIC_SEQ_CST);
  dawdle();
  return control->bad_syncs ? refuse(EIO) : 0;
}

int fsync(int descriptor) { return synced(descriptor) < 0 ? -1 : (int)syscall(SYS_fsync, descriptor); }
int fdatasync(int descriptor) { return synced(descriptor) < 0 ? -1 : (int)syscall(SYS_fdatasync, descriptor); }

/* Whatever changes names or lengths. `needs_room` for what a full disk refuses too. */
static int changed(int is_one_of_ours, int needs_room) {
  if (!is_one_of_ours) return 0;
  __atomic_add_fetch(&control->names, 1, __ATOMIC_SEQ_CST);
  if (control->read_only) return refuse(EROFS);
  if (needs_room && control->full && control->room <= 0) return refuse(ENOSPC);
  return 0;
}

int ftruncate(int descriptor, off_t length) { return changed(is_ours(descriptor), 0) < 0 ? -1 : (int)syscall(SYS_ftruncate, descriptor, length); }
int ftruncate64(int descriptor, off64_t length) { return changed(is_ours(descriptor), 0) < 0 ? -1 : (int)syscall(SYS_ftruncate, descriptor, length); }
int mkdir(const char *path, mode_t mode) { return changed(is_our_path(path), 1) < 0 ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode); }
int link(const char *from, const char *to) { return changed(is_our_path(to), 0) < 0 ? -1 : (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0); }
int rename(const char *from, const char *to) { return changed(is_our_path(to), 0) < 0 ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0); }
int unlink(const char *path) { return changed(is_our_path(path), 0) < 0 ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0); }
int rmdir(const char *path) { return changed(is_our_path(path), 0) < 0 ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR); }

static int opened(int directory, const char *path, int flags, mode_t mode) {
  int writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT);
  if (writes && is_our_path(path) && changed(1, 0) < 0) return -1;
  return (int)syscall(SYS_openat, directory, path, flags | (sizeof(long) == 8 ? O_LARGEFILE : 0), mode);
}

#define MODE_OF(flags) \
  mode_t mode = 0; \
  if ((flags) & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = (mode_t)va_arg(rest, int); va_end(rest); }

int open(const char *path, int flags, ...) { MODE_OF(flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE_OF(flags) return opened(AT_FDCWD, path, flags, mode); }
int openat(int directory, const char *path, int flags, ...) { MODE_OF(flags) return opened(directory, path, flags, mode); }
int openat64(int directory, const char *path, int flags, ...) { MODE_OF(flags) return opened(directory, path, flags, mode); }
