/**
 * What is kept of local files that must not be used and may hold acknowledged writes.
 *
 * A branch's file and its log are moved to `quarantine/<uuid>/` in the data directory, under a name of their own, with
 * a label beside them that says what they are and why they are there. It stays until an operator removes it, or an
 * erasure or the deletion of its database does.
 *
 * Always true: the label is on disk before the first of them moves, as `<name>.moving`, and is called `<name>.json`
 * once they all have; a start, and the next opening of the branch, finish what a crash or a failing disk has left of a
 * move before the branch is opened. So a log is never parted from its file, and nothing is set aside without a label.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from "node:fs";
import { dirname, join } from "node:path";
import { toHex } from "../../base/bytes.ts";
import { placeFile, type Disk } from "../../base/disk.ts";
import type { World } from "../../base/world.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import { formats } from "../../format/core/versions.ts";
import type { DatabaseState } from "../../model/schema.ts";
import { branchPath, databaseUuids, quarantineDirectory, removeFile } from "./database-files.ts";

/** What lies in quarantine, as its label says. */
export interface SetAside {
  readonly uuid: string;
  /** The branch's id. */
  readonly branchId: string;
  /** The newest transaction id in the file; undefined when it could not be read. */
  readonly txid: number | undefined;
  /** The id of the writer epoch under which that was written, in hexadecimal digits. */
  readonly tenure: string | undefined;
  /** How far the branch's manifest was then; undefined where there is none. */
  readonly manifest: Pick<Manifest, "epoch" | "seq" | "txid"> | undefined;
  /** Unix ms. */
  readonly atMs: number;
  /** Why, in words for an operator. */
  readonly why: string;
  /** Names of the file and its log, beside the label. */
  readonly files: readonly string[];
}

/** What is found in quarantine. */
export interface Quarantined {
  readonly uuid: string;
  /** The name that its label and files share. */
  readonly name: string;
  readonly directory: string;
  /** Undefined for what an older build has set aside without a label, or a label that cannot be read. */
  readonly label: SetAside | undefined;
  /** Whether the move was not finished: the next start does that. */
  readonly isMoving: boolean;
}

export interface QuarantineOptions {
  readonly databasesDirectory: string;
  readonly disk: Disk;
  readonly world: Pick<World, "nowMs" | "ulid" | "crashPoint">;
  /** The databases that are this thread's. */
  readonly isOurs: (uuid: string) => boolean;
  /** There is more, or less, than before. */
  readonly changed: (count: number) => void;
}

const done = ".json";
const moving = ".moving";

export class Quarantine {
  readonly #options: QuarantineOptions;
  readonly #root: string;
  /** How many files lie there of each database. */
  readonly #counts = new Map<string, number>();
  /** Branches whose move has begun and was not seen to end. */
  readonly #unfinished = new Set<string>();

  /** Looks at what earlier runs have left. Call before anything is opened. */
  constructor(options: QuarantineOptions) {
    this.#options = options;
    this.#root = quarantineDirectory(options.databasesDirectory);
    for (const uuid of databaseUuids(this.#root).filter(options.isOurs)) {
      for (const { label, isMoving } of listEntries(this.#root, uuid))
        if (isMoving && label) this.#unfinished.add(`${uuid}/${label.branchId}`);
      this.#counts.set(uuid, namesIn(join(this.#root, uuid)).length);
    }
    if (this.count > 0) options.changed(this.count);
  }

  /** How many files are set aside. */
  get count(): number {
    return this.#counts.values().reduce((sum, count) => sum + count, 0);
  }

  /** Moves a branch's closed file and its log away. Throws what the disk throws: then `finishMove` finishes it. */
  async setAside(
    uuid: string,
    branchId: string,
    state: DatabaseState | undefined,
    manifest: Manifest | undefined,
    why: string,
  ): Promise<string> {
    const { databasesDirectory, disk, world } = this.#options;
    const path = branchPath(databasesDirectory, uuid, branchId);
    const folder = join(this.#root, uuid);
    const name = `${branchId}-${state?.txid ?? "unread"}-${world.ulid()}`;
    const label: SetAside = {
      uuid,
      branchId,
      txid: state?.txid,
      tenure: state?.writerEpochId && toHex(state.writerEpochId),
      manifest: manifest && { epoch: manifest.epoch, seq: manifest.seq, txid: manifest.txid },
      atMs: world.nowMs(),
      why,
      files: besides.filter((suffix) => existsSync(`${path}${suffix}`)).map((suffix) => `${name}.db${suffix}`),
    };
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    // Before the label is there: whatever fails from here on, the move is finished before anything takes the file's
    // place.
    this.#unfinished.add(`${uuid}/${branchId}`);
    await placeFile(
      disk,
      join(folder, `${name}${moving}`),
      Buffer.from(`${JSON.stringify({ v: formats.setAside.writes[0], ...label }, undefined, 2)}\n`),
    );
    for (const directory of [dirname(this.#root), this.#root]) await disk.syncDirectory(directory);
    world.crashPoint("set-aside");
    await this.#finish(folder, name, label);
    this.recount(uuid);
    return join("quarantine", uuid, `${name}.db`);
  }

  /** Finishes a move of the branch's files that was cut short. Call before its file is looked at. */
  async finishMove(uuid: string, branchId: string): Promise<void> {
    if (!this.#unfinished.has(`${uuid}/${branchId}`)) return;
    for (const { name, label, isMoving } of listEntries(this.#root, uuid))
      if (isMoving && label?.branchId === branchId) await this.#finish(join(this.#root, uuid), name, label);
    this.#unfinished.delete(`${uuid}/${branchId}`);
  }

  /** Counts anew what lies there of the database, or of all: an operator, or an erasure, may have removed some. */
  recount(uuid?: string): void {
    for (const one of uuid === undefined ? [...this.#counts.keys()] : [uuid]) {
      const count = namesIn(join(this.#root, one)).length;
      if (count > 0) this.#counts.set(one, count);
      else this.#counts.delete(one);
    }
    this.#options.changed(this.count);
  }

  /** May be done again: what has moved is left alone, and so is what has taken its place since. */
  async #finish(folder: string, name: string, { uuid, branchId, files }: SetAside): Promise<void> {
    const { databasesDirectory, disk, world } = this.#options;
    const path = branchPath(databasesDirectory, uuid, branchId);
    if (!(existsSync(path) && existsSync(join(folder, `${name}.db`)))) {
      for (const file of files) {
        const source = `${path}${file.slice(`${name}.db`.length)}`;
        if (existsSync(source) && !existsSync(join(folder, file))) renameSync(source, join(folder, file));
        world.crashPoint("set-aside");
      }
      removeFile(path);
    }
    // Before the label says that all of it has moved, and before anything takes its place.
    for (const directory of [folder, dirname(path)]) if (existsSync(directory)) await disk.syncDirectory(directory);
    renameSync(join(folder, `${name}${moving}`), join(folder, `${name}${done}`));
    await disk.syncDirectory(folder);
    this.#unfinished.delete(`${uuid}/${branchId}`);
    world.crashPoint("set-aside");
  }
}

/** What is kept of a branch's files: the database and its log. */
const besides = ["", "-wal"];

/**
 * Everything in the quarantine of a data directory, oldest first of each database. Also works on the directory of a
 * running node.
 */
export function listQuarantine(dataDirectory: string): Quarantined[] {
  const root = quarantineDirectory(join(dataDirectory, "db"));
  return databaseUuids(root)
    .toSorted()
    .flatMap((uuid) => listEntries(root, uuid));
}

function listEntries(root: string, uuid: string): Quarantined[] {
  const directory = join(root, uuid);
  return namesIn(directory).map((name): Quarantined => {
    const isMoving = existsSync(join(directory, `${name}${moving}`));
    return {
      uuid,
      name,
      directory,
      label: readLabel(join(directory, `${name}${isMoving ? moving : done}`)),
      isMoving,
    };
  });
}

/** The names that labels and files share. */
function namesIn(directory: string): readonly string[] {
  const names = existsSync(directory)
    ? readdirSync(directory).flatMap((file) => /^(.+)\.(?:json|moving|db|db-wal)$/.exec(file)?.[1] ?? [])
    : [];
  return [...new Set(names)].toSorted((a, b) => (a.slice(-ulidChars) < b.slice(-ulidChars) ? -1 : 1));
}

const ulidChars = 26;

function readLabel(path: string): SetAside | undefined {
  if (!existsSync(path)) return undefined;
  try {
    const label = JSON.parse(readFileSync(path, "utf8")) as SetAside & { readonly v: number };
    return (formats.setAside.reads as readonly number[]).includes(label.v) && Array.isArray(label.files)
      ? label
      : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
