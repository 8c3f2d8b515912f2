/*
** A VFS for tests: SQLite's own file operations, written down and made to fail.
**
** Loaded once, it becomes the default VFS and wraps the one before it. Files below a watched folder are watched: what
** is written and cut goes into a journal together with what stood there before, and so do syncs, new names and names
** that go; JavaScript drains the journal (test/support/disk-ledger.ts) and so knows what a loss of power may take back.
** Operations on them fail by chance, drawn from the folder's own seed, or as scripted: the n-th one from now.
** Files anywhere else are the wrapped VFS's, untouched.
**
** Always true: the same seed and the same operations give the same faults; nothing is really synced below a watched
** folder, as only the journal says what is. Not for several threads at once: a simulation has one.
*/
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "sqlite3ext.h"
SQLITE_EXTENSION_INIT1

typedef sqlite3_int64 i64;

/* Kinds of journal entries, as disk-ledger.ts reads them. */
enum { WROTE = 1, CUT = 2, SYNCED = 3, SYNC_FAILED = 4, NAMED = 5, REMOVED = 6, FOLDER_SYNCED = 7 };

/* Kinds of faults, as disk-ledger.ts names them. */
enum { READ_FAILS, WRITE_FULL, WRITE_SHORT, WRITE_FAILS, CUT_FAILS, SYNC_FAILS, FAULTS };

typedef struct Folder Folder;
struct Folder {
  i64 id;
  char *path;  /* with a slash at its end */
  char *grave; /* where removed files are linked to, by their inode */
  uint64_t random;
  double chance[FAULTS];
  i64 scripted[FAULTS]; /* the n-th operation from now fails; 0: none */
  i64 faults;
  int files; /* open ones: a folder goes when it is dropped and nobody has a file of it open */
  int dropped;
  Folder *next;
};

static Folder *folders;
static i64 folderNext = 1;
static sqlite3_vfs *wrapped;

/* ---- The journal ---- */

static unsigned char *journal;
static size_t journalUsed, journalRoom;

static void append(const void *bytes, size_t count) {
  if (journalUsed + count > journalRoom) {
    journalRoom = (journalUsed + count) * 2;
    journal = realloc(journal, journalRoom);
    if (!journal) abort();
  }
  memcpy(journal + journalUsed, bytes, count);
  journalUsed += count;
}

/* Six numbers, then so many bytes as the last one says. */
static void note(const Folder *folder, i64 kind, i64 ino, i64 offset, i64 length, const void *bytes, i64 count) {
  i64 head[6] = {folder->id, kind, ino, offset, length, count};
  append(head, sizeof head);
  append(bytes, (size_t)count);
}

/* ---- Faults ---- */

static double drawn(Folder *folder) {
  uint64_t x = (folder->random += 0x9e3779b97f4a7c15u);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return (double)((x ^ (x >> 31)) >> 11) / 9007199254740992.0;
}

static int fails(Folder *folder, int fault) {
  int hit = folder->chance[fault] > 0 && drawn(folder) < folder->chance[fault];
  if (folder->scripted[fault] > 0 && --folder->scripted[fault] == 0) hit = 1;
  folder->faults += hit;
  return hit;
}

/* ---- Files ---- */

typedef struct {
  sqlite3_file base;
  Folder *folder;
  i64 ino;
  char *name;
  int unsyncedName; /* the unix VFS syncs the folder at the first sync of a log that it might have made */
  sqlite3_file *real;
} File;

static File *fileOf(sqlite3_file *file) { return (File *)file; }
static sqlite3_file *realOf(sqlite3_file *file) { return fileOf(file)->real; }

static void letGo(Folder *folder) {
  Folder **at = &folders;
  if (!folder->dropped || folder->files > 0) return;
  while (*at != folder) at = &(*at)->next;
  *at = folder->next;
  free(folder->path);
  free(folder->grave);
  free(folder);
}

static int fileClose(sqlite3_file *file) {
  File *f = fileOf(file);
  int rc = f->real->pMethods->xClose(f->real);
  f->folder->files--;
  letGo(f->folder);
  free(f->name);
  return rc;
}

static int fileRead(sqlite3_file *file, void *into, int count, i64 offset) {
  File *f = fileOf(file);
  if (fails(f->folder, READ_FAILS)) return SQLITE_IOERR_READ;
  return f->real->pMethods->xRead(f->real, into, count, offset);
}

/* What stands at the offset, up to the end of the file. */
static i64 standing(File *f, unsigned char *into, i64 count, i64 offset) {
  i64 size = 0;
  if (f->real->pMethods->xFileSize(f->real, &size) != SQLITE_OK || offset >= size) return 0;
  if (offset + count > size) count = size - offset;
  return f->real->pMethods->xRead(f->real, into, (int)count, offset) == SQLITE_OK ? count : 0;
}

static int writeNoted(File *f, const void *from, int count, i64 offset) {
  unsigned char *before = malloc(count > 0 ? (size_t)count : 1);
  i64 size = 0;
  if (!before) return SQLITE_IOERR_NOMEM;
  f->real->pMethods->xFileSize(f->real, &size);
  i64 stood = standing(f, before, count, offset);
  i64 head[6] = {f->folder->id, WROTE, f->ino, offset, count, stood + (i64)sizeof size};
  append(head, sizeof head);
  append(&size, sizeof size);
  append(before, (size_t)stood);
  free(before);
  return f->real->pMethods->xWrite(f->real, from, count, offset);
}

static int fileWrite(sqlite3_file *file, const void *from, int count, i64 offset) {
  File *f = fileOf(file);
  if (fails(f->folder, WRITE_FULL)) return SQLITE_FULL;
  if (fails(f->folder, WRITE_SHORT)) {
    writeNoted(f, from, (int)(drawn(f->folder) * count), offset);
    return SQLITE_FULL;
  }
  if (fails(f->folder, WRITE_FAILS)) return SQLITE_IOERR_WRITE;
  return writeNoted(f, from, count, offset);
}

static int fileTruncate(sqlite3_file *file, i64 size) {
  File *f = fileOf(file);
  i64 was = 0;
  if (fails(f->folder, CUT_FAILS)) return SQLITE_IOERR_TRUNCATE;
  f->real->pMethods->xFileSize(f->real, &was);
  if (was != size) {
    i64 lost = was > size ? was - size : 0;
    unsigned char *before = malloc(lost > 0 ? (size_t)lost : 1);
    if (!before) return SQLITE_IOERR_NOMEM;
    note(f->folder, CUT, f->ino, size, was, before, standing(f, before, lost, size));
    free(before);
  }
  return f->real->pMethods->xTruncate(f->real, size);
}

static int fileSync(sqlite3_file *file, int flags) {
  File *f = fileOf(file);
  (void)flags;
  if (fails(f->folder, SYNC_FAILS)) {
    note(f->folder, SYNC_FAILED, f->ino, 0, 0, "", 0);
    return SQLITE_IOERR_FSYNC;
  }
  note(f->folder, SYNCED, f->ino, 0, 0, "", 0);
  if (f->unsyncedName) note(f->folder, FOLDER_SYNCED, f->ino, 0, 0, f->name, (i64)strlen(f->name));
  f->unsyncedName = 0;
  return SQLITE_OK;
}

static int fileSize(sqlite3_file *file, i64 *size) { return realOf(file)->pMethods->xFileSize(realOf(file), size); }
static int fileLock(sqlite3_file *file, int level) { return realOf(file)->pMethods->xLock(realOf(file), level); }
static int fileUnlock(sqlite3_file *file, int level) { return realOf(file)->pMethods->xUnlock(realOf(file), level); }
static int fileReserved(sqlite3_file *file, int *out) { return realOf(file)->pMethods->xCheckReservedLock(realOf(file), out); }
static int fileControl(sqlite3_file *file, int op, void *arg) { return realOf(file)->pMethods->xFileControl(realOf(file), op, arg); }
static int fileSector(sqlite3_file *file) { return realOf(file)->pMethods->xSectorSize(realOf(file)); }
static int fileDevice(sqlite3_file *file) { return realOf(file)->pMethods->xDeviceCharacteristics(realOf(file)); }
static int shmMap(sqlite3_file *file, int page, int size, int extend, void volatile **out) { return realOf(file)->pMethods->xShmMap(realOf(file), page, size, extend, out); }
static int shmLock(sqlite3_file *file, int offset, int count, int flags) { return realOf(file)->pMethods->xShmLock(realOf(file), offset, count, flags); }
static void shmBarrier(sqlite3_file *file) { realOf(file)->pMethods->xShmBarrier(realOf(file)); }
static int shmUnmap(sqlite3_file *file, int remove) { return realOf(file)->pMethods->xShmUnmap(realOf(file), remove); }

/* Version 2: shared memory, but no mapping of the file itself, which would pass by the journal. */
static const sqlite3_io_methods methods = {
    2,          fileClose,     fileRead,    fileWrite,  fileTruncate, fileSync, fileSize, fileLock, fileUnlock,
    fileReserved, fileControl, fileSector, fileDevice, shmMap,     shmLock,      shmBarrier, shmUnmap, 0, 0};

/* ---- The VFS ---- */

static Folder *folderOf(const char *name) {
  Folder *folder = folders;
  if (!name) return 0;
  while (folder && (folder->dropped || strncmp(name, folder->path, strlen(folder->path)) != 0)) folder = folder->next;
  return folder;
}

static int vfsOpen(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out) {
  Folder *folder = flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL) ? folderOf(name) : 0;
  (void)vfs;
  /* The wrapped VFS's own file in our room: what it is asked later does not pass through here. */
  if (!folder) return wrapped->xOpen(wrapped, name, file, flags, out);
  File *f = fileOf(file);
  struct stat stat_;
  int isNew = access(name, F_OK) != 0;
  memset(f, 0, sizeof *f);
  f->real = (sqlite3_file *)(f + 1);
  int rc = wrapped->xOpen(wrapped, name, f->real, flags, out);
  if (rc != SQLITE_OK) return rc;
  f->base.pMethods = &methods;
  f->folder = folder;
  f->name = strdup(name);
  folder->files++;
  f->ino = stat(name, &stat_) == 0 ? (i64)stat_.st_ino : 0;
  if (isNew) note(folder, NAMED, f->ino, 0, 0, name, (i64)strlen(name));
  f->unsyncedName = (flags & SQLITE_OPEN_WAL) != 0 && (flags & SQLITE_OPEN_CREATE) != 0;
  return SQLITE_OK;
}

static int vfsDelete(sqlite3_vfs *vfs, const char *name, int syncFolder) {
  Folder *folder = folderOf(name);
  struct stat stat_;
  (void)vfs;
  if (folder && stat(name, &stat_) == 0) {
    char grave[4096];
    snprintf(grave, sizeof grave, "%s/%lld", folder->grave, (long long)stat_.st_ino);
    if (access(grave, F_OK) != 0 && link(name, grave) != 0) return SQLITE_IOERR_DELETE;
    note(folder, REMOVED, (i64)stat_.st_ino, 0, 0, name, (i64)strlen(name));
    if (syncFolder) note(folder, FOLDER_SYNCED, 0, 0, 0, name, (i64)strlen(name));
  }
  return wrapped->xDelete(wrapped, name, syncFolder);
}

static int vfsAccess(sqlite3_vfs *vfs, const char *name, int flags, int *out) { (void)vfs; return wrapped->xAccess(wrapped, name, flags, out); }
static int vfsFullPath(sqlite3_vfs *vfs, const char *name, int room, char *out) { (void)vfs; return wrapped->xFullPathname(wrapped, name, room, out); }
static void *vfsDlOpen(sqlite3_vfs *vfs, const char *name) { (void)vfs; return wrapped->xDlOpen(wrapped, name); }
static void vfsDlError(sqlite3_vfs *vfs, int room, char *out) { (void)vfs; wrapped->xDlError(wrapped, room, out); }
static void (*vfsDlSym(sqlite3_vfs *vfs, void *library, const char *name))(void) { (void)vfs; return wrapped->xDlSym(wrapped, library, name); }
static void vfsDlClose(sqlite3_vfs *vfs, void *library) { (void)vfs; wrapped->xDlClose(wrapped, library); }
static int vfsRandomness(sqlite3_vfs *vfs, int count, char *out) { (void)vfs; return wrapped->xRandomness(wrapped, count, out); }
static int vfsSleep(sqlite3_vfs *vfs, int us) { (void)vfs; return wrapped->xSleep(wrapped, us); }
static int vfsTime(sqlite3_vfs *vfs, double *out) { (void)vfs; return wrapped->xCurrentTime(wrapped, out); }
static int vfsLastError(sqlite3_vfs *vfs, int room, char *out) { (void)vfs; return wrapped->xGetLastError(wrapped, room, out); }
static int vfsTime64(sqlite3_vfs *vfs, i64 *out) { (void)vfs; return wrapped->xCurrentTimeInt64(wrapped, out); }

static sqlite3_vfs faultVfs = {
    2, 0, 0, 0, "palimpsest-fault", 0, vfsOpen, vfsDelete, vfsAccess, vfsFullPath, vfsDlOpen, vfsDlError, vfsDlSym, vfsDlClose,
    vfsRandomness, vfsSleep, vfsTime, vfsLastError, vfsTime64, 0, 0, 0};

/* ---- What JavaScript calls ---- */

static Folder *folderById(i64 id) {
  Folder *folder = folders;
  while (folder && folder->id != id) folder = folder->next;
  return folder;
}

/* fault_watch(path, grave, seed): watches a folder; gives its id. */
static void faultWatch(sqlite3_context *context, int count, sqlite3_value **args) {
  (void)count;
  Folder *folder = calloc(1, sizeof *folder);
  if (!folder) return sqlite3_result_error_nomem(context);
  folder->id = folderNext++;
  folder->path = strdup((const char *)sqlite3_value_text(args[0]));
  folder->grave = strdup((const char *)sqlite3_value_text(args[1]));
  folder->random = (uint64_t)sqlite3_value_int64(args[2]);
  folder->next = folders;
  folders = folder;
  sqlite3_result_int64(context, folder->id);
}

/* fault_chance(id, fault, chance) */
static void faultChance(sqlite3_context *context, int count, sqlite3_value **args) {
  (void)context, (void)count;
  Folder *folder = folderById(sqlite3_value_int64(args[0]));
  if (folder) folder->chance[sqlite3_value_int(args[1])] = sqlite3_value_double(args[2]);
}

/* fault_script(id, fault, n): the n-th operation of the kind from now fails. */
static void faultScript(sqlite3_context *context, int count, sqlite3_value **args) {
  (void)context, (void)count;
  Folder *folder = folderById(sqlite3_value_int64(args[0]));
  if (folder) folder->scripted[sqlite3_value_int(args[1])] = sqlite3_value_int64(args[2]);
}

/* fault_count(id): how many operations have failed. */
static void faultCount(sqlite3_context *context, int count, sqlite3_value **args) {
  (void)count;
  Folder *folder = folderById(sqlite3_value_int64(args[0]));
  sqlite3_result_int64(context, folder ? folder->faults : 0);
}

/* fault_drop(id): the folder is watched no more. */
static void faultDrop(sqlite3_context *context, int count, sqlite3_value **args) {
  (void)context, (void)count;
  Folder *folder = folderById(sqlite3_value_int64(args[0]));
  if (!folder) return;
  folder->dropped = 1;
  memset(folder->chance, 0, sizeof folder->chance);
  memset(folder->scripted, 0, sizeof folder->scripted);
  letGo(folder);
}

/* fault_drain(): the journal since the last call; null when there is nothing in it. */
static void faultDrain(sqlite3_context *context, int count, sqlite3_value **args) {
  (void)count, (void)args;
  if (journalUsed > 0) sqlite3_result_blob64(context, journal, journalUsed, SQLITE_TRANSIENT);
  journalUsed = 0;
}

#ifdef __GNUC__
__attribute__((visibility("default")))
#endif
int sqlite3_faultvfs_init(sqlite3 *db, char **error, const sqlite3_api_routines *api) {
  SQLITE_EXTENSION_INIT2(api);
  (void)error;
  sqlite3_create_function(db, "fault_watch", 3, SQLITE_UTF8, 0, faultWatch, 0, 0);
  sqlite3_create_function(db, "fault_chance", 3, SQLITE_UTF8, 0, faultChance, 0, 0);
  sqlite3_create_function(db, "fault_script", 3, SQLITE_UTF8, 0, faultScript, 0, 0);
  sqlite3_create_function(db, "fault_count", 1, SQLITE_UTF8, 0, faultCount, 0, 0);
  sqlite3_create_function(db, "fault_drop", 1, SQLITE_UTF8, 0, faultDrop, 0, 0);
  sqlite3_create_function(db, "fault_drain", 0, SQLITE_UTF8, 0, faultDrain, 0, 0);
  if (wrapped) return SQLITE_OK_LOAD_PERMANENTLY;
  wrapped = sqlite3_vfs_find(0);
  faultVfs.mxPathname = wrapped->mxPathname;
  faultVfs.szOsFile = (int)sizeof(File) + wrapped->szOsFile;
  if (sqlite3_vfs_register(&faultVfs, 1) != SQLITE_OK) return SQLITE_ERROR;
  return SQLITE_OK_LOAD_PERMANENTLY;
}
