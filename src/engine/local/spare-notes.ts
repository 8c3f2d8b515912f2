/**
 * Which databases this node has made ahead, one small file for each under `spares/` in the data directory.
 *
 * Always true: a note is on disk before anything of its database is made, and says on disk for which name the database
 * is given before anybody else can know of it. So what has a note and no name in it was never given to anybody, and
 * whatever a crash leaves of it has a note. A note that is gone may come back with a loss of power: it says the same as
 * before. Must not know: what is made, who is given it.
 */
import { closeSync, existsSync, fstatSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { placeFile, writeWhole, type Disk } from "../../base/disk.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { isUuid } from "../../format/core/binary.ts";
import { formats, requireVersion } from "../../format/core/versions.ts";

/** What a note says. */
export interface SpareNote {
  readonly uuid: string;
  /** The name that the database was given to; undefined while it is nobody's. */
  readonly name: string | undefined;
}

/** The folder of the notes, beside that of the databases. */
function spareDirectory(databasesDirectory: string): string {
  return join(dirname(databasesDirectory), "spares");
}

export class SpareNotes {
  readonly #directory: string;
  readonly #disk: Disk;

  constructor(databasesDirectory: string, disk: Disk) {
    this.#directory = spareDirectory(databasesDirectory);
    this.#disk = disk;
  }

  /** From now on the database is a spare one, and nothing of it is there yet. */
  async add(uuid: string): Promise<void> {
    const isNew = mkdirSync(this.#directory, { recursive: true, mode: 0o700 }) !== undefined;
    await placeFile(this.#disk, this.#path(uuid), toLine({ v: formats.spare.writes[0] }));
    if (isNew) await this.#disk.syncDirectory(dirname(this.#directory));
  }

  /** From now on the database is the name's or nobody's: one fsync. A note that was not written whole says nothing. */
  async give(uuid: string, name: string): Promise<void> {
    const path = this.#path(uuid);
    const descriptor = openSync(path, "r+");
    try {
      writeWhole(this.#disk, descriptor, path, toLine({ name }), fstatSync(descriptor).size);
      await this.#disk.fdatasync(descriptor, path);
    } finally {
      closeSync(descriptor);
    }
  }

  /** The database is one like all others, or gone. */
  remove(uuid: string): void {
    rmSync(this.#path(uuid), { force: true });
  }

  /** Every note; `unreadable` hears of one that this build cannot read, which stays. */
  list(unreadable: (uuid: string, error: unknown) => void): SpareNote[] {
    if (!existsSync(this.#directory)) return [];
    return readdirSync(this.#directory)
      .filter(isUuid)
      .toSorted()
      .flatMap((uuid) => {
        try {
          return { uuid, name: readName(readFileSync(this.#path(uuid), "utf8")) };
        } catch (error) {
          if (!(error instanceof StoreError)) throw error;
          unreadable(uuid, error);
          return [];
        }
      });
  }

  #path(uuid: string): string {
    return join(this.#directory, uuid);
  }
}

function toLine(value: object): Buffer {
  return Buffer.from(`${JSON.stringify(value)}\n`);
}

/** The name in a note; a line that a crash has cut short was never said. Throws StoreError. */
function readName(text: string): string | undefined {
  const [first, second] = text.split("\n").slice(0, -1);
  try {
    requireVersion(formats.spare, (JSON.parse(first ?? "") as { readonly v?: unknown } | null)?.v);
    return second === undefined ? undefined : (JSON.parse(second) as { readonly name: string }).name;
  } catch (error) {
    if (error instanceof SyntaxError) throw new StoreError("corrupt", "the note of a spare database is not JSON");
    throw error;
  }
}
