/**
 * The search for what should be gone: secrets in every file of a directory, or in every object of a store.
 *
 * Always true:
 * - every byte is searched as it is stored
 * - pages inside segments, and inside the tails of manifests, are searched decompressed
 * - it only reads
 * - what it could not read or understand is reported, never passed over: only what vanishes between its listing and its
 *   reading counts as gone
 * - at most one object, or one piece of a file, is in memory
 *
 * Links are not followed. A store shows its current objects alone: older versions that a bucket keeps are removed by
 * `purgeVersions`, and those that a store in a directory keeps are found by a scan of the directory.
 */
import { open, opendir, stat } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { decodeManifest } from "../../format/history/manifest.ts";
import { databaseMagic, pageBytes } from "../../format/history/pages.ts";
import { threadedPress } from "../../format/core/compression.ts";
import { orderFrames } from "../../format/history/frame-order.ts";
import { decodeFrame, framePages, readSegmentIndexes, type SegmentIndex } from "../../format/history/segment.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { contextBytes, Needles, type PageOffset, type ResidueForm } from "./secret-patterns.ts";

const residueHitsMax = 10_000;
/** Files are read in pieces of this size. */
export const residuePieceBytes = 4 * 1024 * 1024;

/** A page that an object holds. */
interface ResiduePage {
  readonly txid: number;
  readonly page: number;
}

/** A secret that was found. */
export interface ResidueHit {
  /** Path of the file or key of the object. */
  readonly where: string;
  /** Place of the secret among those that were given, from 0. */
  readonly secret: number;
  readonly form: ResidueForm;
  /** Whether all of it lies there; a part otherwise. */
  readonly isWhole: boolean;
  /** The page inside a segment; undefined for what the file or object holds as it is. */
  readonly inPage: ResiduePage | undefined;
  /** Where it begins in the page, else in the file or object. */
  readonly offset: number;
}

/** What a search has found. */
export interface Residue {
  /** One for each secret, form and page; not more than are kept. */
  readonly hits: readonly ResidueHit[];
  readonly hitsTotal: number;
  /** What could not be read, and why. */
  readonly unread: readonly { readonly where: string; readonly why: string }[];
  /** Files or objects. */
  readonly places: number;
  readonly bytes: number;
  /** Pages inside segments. */
  readonly pages: number;
}

/** Looks for the secrets in a file, or in every file below a directory. */
export async function scanDirectory(path: string, secrets: readonly string[]): Promise<Residue> {
  const search = new Search(secrets);
  await search.path(path);
  return search;
}

/** Looks for the secrets in every object of the store. */
export async function scanStore(store: ObjectStore, secrets: readonly string[]): Promise<Residue> {
  const search = new Search(secrets);
  for (let after: string | undefined, isFirst = true; isFirst || after !== undefined; isFirst = false) {
    const { objects, next } = await store.list("", { after, limit: limits.storeListMax });
    for (const { key } of objects)
      await search.told(key, async () => search.object(key, (await store.get(key))?.bytes));
    after = next;
  }
  return search;
}

/** An object of ours. A store in a directory writes a byte before it. */
const magicBytes = 4;
const objectStarts = [0, 1];
/** What a write-ahead log begins with, whatever the order of its checksums' bytes, and how its pages lie. */
const logMagic = 0x377f0682;
const logHeaderBytes = 32;
const logFrameHeaderBytes = 24;

class Search implements Residue {
  readonly #needles: Needles;
  readonly hits: ResidueHit[] = [];
  readonly unread: { readonly where: string; readonly why: string }[] = [];
  hitsTotal = 0;
  places = 0;
  bytes = 0;
  pages = 0;

  constructor(secrets: readonly string[]) {
    this.#needles = new Needles(secrets);
  }

  /** Runs the act; what it throws is reported with the place. */
  async told(where: string, act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code;
      if (code !== undefined) this.unread.push({ where, why: code });
      else if (error instanceof StoreError) this.unread.push({ where, why: error.message });
      else throw error;
    }
  }

  async path(path: string): Promise<void> {
    await this.told(path, async () => {
      const found = await unlessGone(() => stat(path));
      if (found?.isDirectory()) return this.#folder(path);
      if (found?.isFile()) return this.#file(path);
    });
  }

  async #folder(path: string): Promise<void> {
    const folder = await unlessGone(() => opendir(path));
    if (!folder) return;
    for await (const entry of folder) {
      if (entry.isDirectory() || entry.isFile()) await this.path(join(path, entry.name));
    }
  }

  async #file(path: string): Promise<void> {
    const file = await unlessGone(() => open(path));
    if (!file) return;
    try {
      const { size } = await file.stat();
      const start = await piece(file, 0, Math.min(size, databaseMagic.length + 1));
      if (objectStarts.some((at) => formatAt(start, at))) return await this.object(path, await piece(file, 0, size));
      this.places++;
      this.bytes += size;
      const pageOffset = detectPageOffset(start);
      for (let at = 0; at < size; at += residuePieceBytes) {
        const from = Math.max(0, at - contextBytes);
        const bytes = await piece(file, from, Math.min(size, at + residuePieceBytes + contextBytes));
        this.#look(path, bytes, { from: at - from, to: at - from + residuePieceBytes, base: from, pageOffset });
      }
    } finally {
      await file.close();
    }
  }

  /** Looks at an object's bytes, and at the pages within. */
  async object(where: string, bytes: Uint8Array | undefined): Promise<void> {
    if (!bytes) return;
    this.places++;
    this.bytes += bytes.length;
    this.#look(where, bytes, { from: 0, to: bytes.length, base: 0, pageOffset: undefined });
    for (const at of objectStarts) {
      const format = formatAt(bytes, at);
      const object = bytes.subarray(at);
      if (format === "PLSG") await this.#segments(where, object);
      if (format === "PLHD")
        for (const { bytes: tail } of decodeManifest(object).tail) await this.#segments(where, tail);
    }
  }

  async #segments(where: string, object: Uint8Array): Promise<void> {
    for (const index of readSegmentIndexes(object)) {
      const pages = listPages(index);
      for (const number of index.frames.keys()) {
        // Each frame proves itself, so one that is broken hides no other.
        await this.told(where, async () => {
          const frame = await decodeFrame(object, index, number, threadedPress);
          this.pages += frame.length / pageBytes;
          const own = pages.slice(number * framePages, (number + 1) * framePages);
          this.#look(where, frame, {
            from: 0,
            to: frame.length,
            base: 0,
            pageOffset: (at) => at % pageBytes,
            pages: own,
          });
        });
      }
    }
  }

  /** `base` is where the bytes begin in their file; `pages` says which pages they are. */
  #look(
    where: string,
    bytes: Uint8Array,
    window: { from: number; to: number; base: number; pageOffset: PageOffset; pages?: readonly ResiduePage[] },
  ): void {
    const { from, to, base, pageOffset, pages } = window;
    const seen = new Set<string>();
    this.#needles.find(
      bytes,
      from,
      to,
      pageOffset && ((at) => pageOffset(base + at)),
      ({ secret, form, offset, isWhole }) => {
        const page = Math.floor((base + offset) / pageBytes);
        const name = `${secret} ${form} ${page}`;
        if (seen.has(name)) return;
        seen.add(name);
        this.hitsTotal++;
        if (this.hits.length === residueHitsMax) return;
        const inPage = pages?.[page];
        this.hits.push({ where, secret, form, isWhole, inPage, offset: inPage ? offset % pageBytes : base + offset });
      },
    );
  }
}

/** The act's answer, or undefined when what it is about is not there. */
async function unlessGone<Value>(act: () => Promise<Value>): Promise<Value | undefined> {
  try {
    return await act();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** The file's bytes from one place to another, or as many as there still are. */
async function piece(file: FileHandle, from: number, to: number): Promise<Uint8Array> {
  const bytes = Buffer.allocUnsafe(to - from);
  let filled = 0;
  while (filled < bytes.length) {
    const { bytesRead } = await file.read(bytes, filled, bytes.length - filled, from + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return bytes.subarray(0, filled);
}

function formatAt(bytes: Uint8Array, at: number): "PLSG" | "PLHD" | undefined {
  const magic = Buffer.from(bytes.subarray(at, at + magicBytes)).toString("latin1");
  return magic === "PLSG" || magic === "PLHD" ? magic : undefined;
}

/** The kind of file that begins so, and so how its pages lie: a database, a write-ahead log, or neither. */
function detectPageOffset(start: Uint8Array): PageOffset {
  const bytes = Buffer.from(start);
  if (bytes.toString("latin1", 0, databaseMagic.length) === databaseMagic) return (at) => at % pageBytes;
  // The last bit says in which order the checksums' bytes are.
  if (bytes.length < magicBytes || (bytes.readUInt32BE() & ~1) !== logMagic) return undefined;
  return (at) => ((at - logHeaderBytes) % (logFrameHeaderBytes + pageBytes)) - logFrameHeaderBytes;
}

/** Every page of the segment, in the order of its frames. */
function listPages({ version, groups }: SegmentIndex): ResiduePage[] {
  const pages = groups.flatMap(({ txid, pageNumbers }) => Array.from(pageNumbers, (page) => ({ txid, page })));
  return Array.from(orderFrames(version, groups), (number) => pages[number]!);
}
