/**
 * What a disk is known to hold of a folder, and what a loss of power may take back.
 *
 * Every change below the folder is written down with what stood there before, whoever makes it: SQLite, through the VFS
 * for tests (fault-vfs), or our own code, through node:fs (watched-files). A sync strikes off what it covers: of a
 * file, its bytes and length; of a directory, the names in it.
 *
 * A loss of power gives any state that a real disk may be found in:
 * - of each file, any of its unsynced writes may be there or not, sector by sector and in any order, but a cut is
 *   undone together with what was written after it;
 * - of each directory, the unsynced changes of names are there up to some point, and the rest is undone;
 * - what an fsync was to cover that failed may be gone at the next loss, whatever a later fsync says, until it is
 *   written again: the kernel counts it as clean.
 */
import { randomInt } from "node:crypto";
import { mkdirSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { faultVfs, type VfsEntry } from "./fault-vfs.ts";
import { real, watchFiles } from "./watched-files.ts";

interface Change {
  readonly seq: number;
  readonly kind: "wrote" | "cut";
  readonly offset: number;
  readonly length: number;
  readonly sizeBefore: number;
  readonly before: Buffer;
  /** Its fsync has failed. */
  holed: boolean;
}

/** A name that came to mean another file, or none. */
interface Renaming {
  readonly path: string;
  /** The inode before; undefined when there was no such name. */
  readonly was: number | undefined;
}

/** One change of names: a rename is two, which are undone together. */
interface NameChange {
  readonly seq: number;
  readonly renamings: readonly Renaming[];
}

const sectorBytes = 512;

export class DiskLedger {
  readonly root: string;
  readonly vfsFolder: number;
  /** Where what was removed can still be read, by inode. */
  readonly #grave: string;
  readonly #changes = new Map<number, Change[]>();
  #names: NameChange[] = [];
  #seq = 0;
  /** Called before our own code reads a file; throws when the disk fails then. */
  onRead: (path: string) => void = () => {};
  /** Syncs that went over bytes of older ones. */
  overwriting = 0;

  /** `root` is there; what is in it counts as synced. */
  constructor(root: string, seed = randomInt(2 ** 32)) {
    this.root = root;
    this.#grave = `${root}.graves`;
    mkdirSync(this.#grave, { recursive: true });
    this.vfsFolder = faultVfs().watch(root, this.#grave, seed);
    ledgers.set(this.vfsFolder, this);
    watchFiles(root, this);
  }

  /** Watches no more. */
  close(): void {
    drain();
    ledgers.delete(this.vfsFolder);
    watchFiles(this.root, undefined);
    faultVfs().drop(this.vfsFolder);
  }

  /** Names this moment: what happened before it is covered by a sync that begins now. */
  mark(): number {
    drain();
    return this.#seq;
  }

  /** A file's sync that began at the mark has succeeded. */
  synced(ino: number, mark: number): void {
    drain();
    const changes = this.#changes.get(ino);
    if (!changes) return;
    const covered = changes.filter(({ seq }) => seq <= mark);
    if (covered.some(({ kind, sizeBefore, offset }) => kind === "wrote" && offset < sizeBefore)) this.overwriting++;
    // What has been written again since its fsync failed is dirty once more.
    const kept = changes.filter(
      (change, index) =>
        change.seq > mark ||
        (change.holed &&
          !covered.some((later) => !later.holed && changes.indexOf(later) > index && covers(later, change))),
    );
    if (kept.length > 0) this.#changes.set(ino, kept);
    else this.#changes.delete(ino);
  }

  /** A file's sync that began at the mark has failed. */
  syncFailed(ino: number, mark: number): void {
    drain();
    for (const change of this.#changes.get(ino) ?? []) if (change.seq <= mark) change.holed = true;
  }

  /** A directory's sync that began at the mark has succeeded. */
  folderSynced(path: string, mark: number): void {
    drain();
    this.#folderSynced(path, mark);
  }

  /** Something wrote to the file: call before it does, with what stands there. */
  wrote(ino: number, offset: number, length: number, sizeBefore: number, before: Buffer): void {
    drain();
    this.#change(ino, { kind: "wrote", offset, length, sizeBefore, before });
  }

  /** The file is about to be cut, or made longer, to `size`; `before` is what stands beyond. */
  cut(ino: number, size: number, sizeBefore: number, before: Buffer): void {
    drain();
    this.#change(ino, { kind: "cut", offset: size, length: 0, sizeBefore, before });
  }

  /** Names are about to change; `bury` are those whose files might go with them. */
  naming(renamings: readonly Renaming[], bury: readonly string[]): void {
    drain();
    for (const path of bury) {
      const grave = join(this.#grave, String(real.statSync(path).ino));
      if (!real.existsSync(grave)) real.linkSync(path, grave);
    }
    this.#names.push({ seq: ++this.#seq, renamings });
  }

  /** A folder goes with all that is in it; that it might come back is not looked at. */
  folderGone(path: string): void {
    drain();
    this.#names = this.#names.filter(
      ({ renamings }) => !renamings.some((one) => one.path === path || one.path.startsWith(`${path}/`)),
    );
  }

  /** What the VFS has seen. */
  take({ kind, ino, offset, length, bytes }: VfsEntry): void {
    const path = bytes.toString();
    switch (kind) {
      case "wrote":
        return this.#change(ino, {
          kind,
          offset,
          length,
          sizeBefore: Number(bytes.readBigInt64LE(0)),
          before: Buffer.from(bytes.subarray(8)),
        });
      case "cut":
        return this.#change(ino, { kind, offset, length: 0, sizeBefore: length, before: Buffer.from(bytes) });
      case "synced":
        return this.synced(ino, this.#seq);
      case "sync-failed":
        return this.syncFailed(ino, this.#seq);
      case "named":
        this.#names.push({ seq: ++this.#seq, renamings: [{ path, was: undefined }] });
        return;
      case "removed":
        this.#names.push({ seq: ++this.#seq, renamings: [{ path, was: ino }] });
        return;
      case "folder-synced":
        return this.#folderSynced(dirname(path), this.#seq);
    }
  }

  /** Copies everything to `to` as a disk may hold it after the power went. */
  lose(to: string, random: () => number): void {
    drain();
    const table = this.#files();
    const getContent = this.#contents(table);
    this.#undoNames(table, getContent, random);
    this.#copy(table, to, (path, ino) =>
      path.endsWith("-shm") && random() < 0.5
        ? undefined
        : this.#afterLoss(ino, real.readFileSync(getContent(ino)), random),
    );
  }

  /** Copies everything to `to` as it is. */
  copy(to: string): void {
    drain();
    this.#copy(this.#files(), to, (path) => real.readFileSync(path));
  }

  /** Copies everything to another ledger's empty folder as it is: what was not synced is not synced there either. */
  move(next: DiskLedger): void {
    drain();
    const moved = new Map<number, number>();
    const there = (path: string): string => join(next.root, relative(this.root, path));
    this.#copy(
      this.#files(),
      next.root,
      (path) => real.readFileSync(path),
      (ino, copy) => moved.set(ino, real.statSync(copy).ino),
    );
    for (const name of real.readdirSync(this.#grave)) {
      const ino = Number(name);
      if (moved.has(ino)) continue;
      const copy = join(next.#grave, "moving");
      real.copyFileSync(join(this.#grave, name), copy);
      moved.set(ino, real.statSync(copy).ino);
      real.renameSync(copy, join(next.#grave, String(moved.get(ino))));
    }
    // The copies are what there was: writing them is no change.
    next.#changes.clear();
    for (const [ino, changes] of this.#changes)
      if (moved.has(ino))
        next.#changes.set(
          moved.get(ino)!,
          changes.map((change) => ({ ...change })),
        );
    next.#names = this.#names.map(({ seq, renamings }) => ({
      seq,
      renamings: renamings.map(({ path, was }) => ({
        path: there(path),
        was: was === undefined ? undefined : (moved.get(was) ?? was),
      })),
    }));
    next.#seq = this.#seq;
  }

  #change(ino: number, change: Omit<Change, "seq" | "holed">): void {
    const changes = this.#changes.get(ino) ?? [];
    changes.push({ ...change, seq: ++this.#seq, holed: false });
    this.#changes.set(ino, changes);
  }

  #folderSynced(path: string, mark: number): void {
    this.#names = this.#names.filter(
      ({ seq, renamings }) => seq > mark || !renamings.some((one) => dirname(one.path) === path),
    );
  }

  /** Every name there is now, with its inode; undefined for a folder. */
  #files(): Map<string, number | undefined> {
    const table = new Map<string, number | undefined>();
    for (const entry of real.readdirSync(this.root, { withFileTypes: true, recursive: true })) {
      const path = join(entry.parentPath, entry.name);
      table.set(path, entry.isDirectory() ? undefined : real.statSync(path).ino);
    }
    return new Map([...table].toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }

  #undoNames(table: Map<string, number | undefined>, getContent: (ino: number) => string, random: () => number): void {
    const folders = [
      ...new Set(this.#names.flatMap(({ renamings }) => renamings.map(({ path }) => dirname(path)))),
    ].toSorted();
    const cuts = new Map(
      folders.map((folder) => {
        const seqs = this.#names
          .filter(({ renamings }) => renamings.some(({ path }) => dirname(path) === folder))
          .map(({ seq }) => seq);
        return [folder, [...seqs, Infinity][Math.floor(random() * (seqs.length + 1))]!];
      }),
    );
    const undone: NameChange[] = [];
    for (const change of this.#names) {
      const touched = change.renamings.map(({ path }) => dirname(path));
      if (!touched.some((folder) => cuts.get(folder)! <= change.seq)) continue;
      for (const folder of touched) cuts.set(folder, Math.min(cuts.get(folder)!, change.seq));
      undone.push(change);
    }
    for (const { renamings } of undone.toReversed()) {
      for (const { path, was } of renamings) {
        for (const name of [...table.keys()]) if (name === path || name.startsWith(`${path}/`)) table.delete(name);
        if (was !== undefined && real.existsSync(getContent(was))) table.set(path, was);
      }
    }
  }

  /** Where the bytes of each inode can be read: under the name that it has now, or in its grave. */
  #contents(table: ReadonlyMap<string, number | undefined>): (ino: number) => string {
    const paths = new Map([...table].map(([path, ino]) => [ino, path]));
    return (ino) => paths.get(ino) ?? join(this.#grave, String(ino));
  }

  #copy(
    table: ReadonlyMap<string, number | undefined>,
    to: string,
    readBytes: (path: string, ino: number) => Uint8Array | undefined,
    copied: (ino: number, copy: string) => void = () => {},
  ): void {
    real.mkdirSync(to, { recursive: true });
    for (const [path, ino] of table) {
      const copy = join(to, relative(this.root, path));
      if (ino === undefined) {
        real.mkdirSync(copy, { recursive: true });
        continue;
      }
      const bytes = readBytes(path, ino);
      if (!bytes) continue;
      real.mkdirSync(dirname(copy), { recursive: true });
      real.writeFileSync(copy, bytes);
      copied(ino, copy);
    }
  }

  /** The file's bytes with some of its unsynced changes undone. */
  #afterLoss(ino: number, now: Buffer, random: () => number): Uint8Array {
    const changes = this.#changes.get(ino);
    if (!changes) return now;
    // From some cut on, everything may be undone.
    const cuts = changes.map(({ kind }, index) => (kind === "cut" ? index : -1)).filter((index) => index >= 0);
    const from = cuts.length > 0 && random() < 0.5 ? cuts[Math.floor(random() * cuts.length)]! : changes.length;
    let bytes = now;
    for (const change of changes.slice(from).toReversed()) bytes = undo(bytes, change, () => true);
    const rest = changes.slice(0, from);
    const fate = random();
    if (fate < 0.2) return bytes;
    // In the order of writing, or sector by sector; all of it is lost when the point lies at the beginning.
    const drawPoint = (): number => (random() < 0.3 ? 0 : Math.floor(random() * (rest.length + 1)));
    const point = drawPoint();
    const points = new Map<number, number>();
    const sectorPoint = (sector: number): number => {
      if (fate < 0.6) return point;
      if (!points.has(sector)) points.set(sector, random() < 0.5 ? rest.length : drawPoint());
      return points.get(sector)!;
    };
    for (const [index, change] of [...rest.entries()].toReversed())
      bytes = undo(bytes, change, (sector) => sectorPoint(sector) <= index, fate < 0.6 && point <= index);
    return bytes;
  }
}

function covers(later: Change, earlier: Change): boolean {
  if (later.kind === "cut") return later.offset <= earlier.offset;
  return later.offset <= earlier.offset && later.offset + later.length >= earlier.offset + earlier.length;
}

/** The bytes without the change, in those sectors that lose it; with its size before when that is to be lost too. */
function undo(
  bytes: Buffer,
  { kind, offset, length, sizeBefore, before }: Change,
  loses: (sector: number) => boolean,
  losesSize = kind === "cut",
): Buffer {
  const end = kind === "cut" ? sizeBefore : offset + length;
  let undone = bytes;
  if (kind === "cut") {
    undone = Buffer.alloc(sizeBefore);
    bytes.copy(undone, 0, 0, Math.min(sizeBefore, offset));
    before.copy(undone, offset);
    return undone;
  }
  for (let at = offset; at < Math.min(end, bytes.length);) {
    const next = Math.min((Math.floor(at / sectorBytes) + 1) * sectorBytes, end, bytes.length);
    if (loses(Math.floor(at / sectorBytes))) {
      undone.fill(0, at, next);
      if (at - offset < before.length) before.copy(undone, at, at - offset, next - offset);
    }
    at = next;
  }
  return losesSize && sizeBefore < undone.length ? undone.subarray(0, sizeBefore) : undone;
}

const ledgers = new Map<number, DiskLedger>();

/** Gives each ledger what SQLite has done. */
function drain(): void {
  for (const entry of faultVfs().drain()) ledgers.get(entry.folder)?.take(entry);
}
