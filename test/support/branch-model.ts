/**
 * A branch as its writer keeps it, with made-up pages: commits, ships, packs, rebases, rewinds, forks and trims through
 * engine/history/timelines, and remembers every state it ever had.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { computeSha256, type Manifest, type TailSegment } from "../../src/format/history/manifest.ts";
import type { History } from "../../src/format/history/history.ts";
import { poolId, segmentKey } from "../../src/format/keys/object-keys.ts";
import { pageBytes } from "../../src/format/history/pages.ts";
import type { SegmentRef } from "../../src/format/history/refs.ts";
import { encodeSegment, type PageGroup, type PageImage } from "../../src/format/history/segment.ts";
import { packDue, packed } from "../../src/engine/compaction/timeline-length.ts";
import {
  forkedManifest,
  findRestorePlan,
  rebased,
  rewound,
  trimmed,
  type Plan,
  type Succession,
} from "../../src/engine/history/timelines.ts";
import { pack, uploadImages } from "../../src/engine/compaction/compaction.ts";
import type { PageSource } from "../../src/engine/segments/pool-objects.ts";
import { materialise, readStatePoint } from "../../src/engine/segments/restore.ts";
import { seeded } from "./random.ts";
import { memorySource, Ulids, emptyManifest } from "./model-source.ts";

/** A page that no canonical form changes; page 1 begins like a database. */
function madePage(page: number, content: number): Uint8Array {
  const bytes = new Uint8Array(pageBytes);
  const words = new Uint32Array(bytes.buffer);
  for (let at = 64; at < 128; at++) words[at] = Math.imul(content + at, 0x9e3779b1);
  words[64] = page;
  if (page === 1) {
    bytes.set(Buffer.from("SQLite format 3\0"));
    bytes[16] = 0x10;
  }
  return bytes;
}

/** How long a state was the branch's newest, in Unix ms. */
export interface Currency {
  fromMs: number;
  untilMs: number;
}

export class BranchModel {
  readonly source: PageSource;
  readonly ulids: Ulids;
  readonly directory: string;
  readonly random: () => number;
  manifest: Manifest;
  history: History;
  nowMs = 1_000_000;
  /** SHA-256 of each state that was ever shipped, in hex. */
  readonly states = new Map<number, string>();
  readonly currency = new Map<number, Currency>();
  #pages: Uint8Array[] = [];
  #waiting: PageGroup[] = [];
  #nextTxid: number;
  #files = 0;

  constructor(
    random: () => number,
    source: PageSource = memorySource(),
    ulids = new Ulids(),
    manifest = emptyManifest("main"),
  ) {
    this.random = random;
    this.source = source;
    this.ulids = ulids;
    this.manifest = manifest;
    this.#nextTxid = manifest.txid + 1;
    this.history = { uuid: manifest.uuid, branchId: manifest.branchId, timelines: [], checkpoints: [] };
    this.directory = mkdtempSync(join(tmpdir(), "palimpsest-branch-"));
    onTestFinished(() => rmSync(this.directory, { recursive: true, force: true }));
  }

  below(count: number): number {
    return Math.floor(this.random() * count);
  }

  /** A path that nothing stands at. */
  path(): string {
    return join(this.directory, `${++this.#files}.db`);
  }

  get newestTxid(): number {
    return this.#waiting.at(-1)?.txid ?? this.manifest.txid;
  }

  /**
   * Commits a group: changes some pages; now and then the database grows or shrinks, also to leave pages that nobody
   * writes.
   */
  commit(changes: { readonly size?: number; readonly pages?: readonly number[] } = {}): void {
    const before = this.#pages.length;
    const size = changes.size ?? Math.max(3, before + (this.random() < 0.4 ? this.below(9) - 4 : 0));
    const touched = new Set(changes.pages ?? Array.from({ length: 1 + this.below(4) }, () => 1 + this.below(size)));
    if (before === 0) for (let page = 1; page <= size; page++) touched.add(page);
    this.#pages.length = Math.min(before, size);
    for (let page = before + 1; page <= size; page++) this.#pages[page - 1] = new Uint8Array(pageBytes);
    const images: PageImage[] = [...touched]
      .filter((page) => page <= size)
      .sort((a, b) => a - b)
      .map((page) => ({ page, bytes: madePage(page, this.below(2 ** 30)) }));
    for (const { page, bytes } of images) this.#pages[page - 1] = bytes;
    this.nowMs += 1_000;
    this.#endCurrency();
    const txid = this.#nextTxid++;
    this.#waiting.push({ txid, committedAtMs: this.nowMs, pages: size, images });
    this.states.set(txid, Buffer.from(computeSha256(Buffer.concat(this.#pages))).toString("hex"));
    this.currency.set(txid, { fromMs: this.nowMs, untilMs: Number.POSITIVE_INFINITY });
  }

  #endCurrency(): void {
    const newest = this.currency.get(this.newestTxid);
    if (newest) newest.untilMs = this.nowMs;
  }

  /** Ships everything that waits: within the manifest, or as an object together with what the manifest had. */
  async ship(inline: boolean): Promise<void> {
    if (this.manifest.refs.length === 0) await this.#begin();
    const groups = this.#waiting;
    const last = groups.at(-1);
    if (!last) return inline ? undefined : this.#spill();
    this.#waiting = [];
    const bytes = await encodeSegment(
      { kind: "delta", uuid: this.manifest.uuid, branchId: this.manifest.branchId, epoch: this.manifest.epoch, groups },
      this.source.press,
    );
    const rawBytes = groups.reduce((sum, { images }) => sum + images.length * pageBytes, 0);
    const segment: TailSegment = {
      firstTxid: groups[0]!.txid,
      lastTxid: last.txid,
      lastAtMs: last.committedAtMs,
      rawBytes,
      bytes,
    };
    const writerEpochs = this.manifest.writerEpochs.map((writerEpoch, index) =>
      index === this.manifest.writerEpochs.length - 1 ? { ...writerEpoch, lastTxid: last.txid } : writerEpoch,
    );
    this.manifest = {
      ...this.manifest,
      tail: [...this.manifest.tail, segment],
      writerEpochs,
      txid: last.txid,
      committedAtMs: last.committedAtMs,
      pages: last.pages,
      reservedTo: last.txid + 100,
    };
    if (!inline) await this.#spill();
  }

  /** A branch begins with the images of its first state. */
  async #begin(): Promise<void> {
    const first = this.#waiting.shift();
    if (!first) return;
    const path = this.path();
    writeFileSync(path, Buffer.concat(first.images.map(({ bytes }) => bytes)));
    const { refs, pages } = await uploadImages(this.source, path, first, this.manifest.branchId, () => this.newId());
    rmSync(path);
    const writerEpochs = this.manifest.writerEpochs.map((writerEpoch) => ({ ...writerEpoch, lastTxid: first.txid }));
    this.manifest = {
      ...this.manifest,
      refs,
      writerEpochs,
      txid: first.txid,
      committedAtMs: first.committedAtMs,
      pages,
      fromTxid: first.txid,
      reservedTo: first.txid + 100,
    };
  }

  async #spill(): Promise<void> {
    const { tail } = this.manifest;
    if (tail.length > 0)
      this.manifest = { ...this.manifest, refs: [...this.manifest.refs, await this.putDelta(tail)], tail: [] };
  }

  async putDelta(segments: readonly TailSegment[]): Promise<SegmentRef> {
    const bytes = Buffer.concat(segments.map((segment) => segment.bytes));
    const [first, last] = [segments[0]!, segments.at(-1)!];
    const id = this.newId();
    await this.source.store.put(segmentKey(this.manifest.uuid, id), bytes, { kind: "absent" });
    const rawBytes = segments.reduce((sum, segment) => sum + segment.rawBytes, 0);
    return {
      kind: "delta",
      id,
      firstTxid: first.firstTxid,
      lastTxid: last.lastTxid,
      cut: false,
      lastAtMs: last.lastAtMs,
      bytes: bytes.length,
      rawBytes,
      sha256: computeSha256(bytes),
    };
  }

  newId(): string {
    return poolId(this.manifest.branchId, this.manifest.epoch, this.ulids.next());
  }

  /** Another claim: what was not shipped is gone, and the ids that were reserved with it. */
  async failOver(): Promise<void> {
    for (const { txid } of this.#waiting) for (const known of [this.states, this.currency]) known.delete(txid);
    this.#waiting = [];
    const { manifest } = this;
    await this.#load(manifest.txid);
    this.currency.get(manifest.txid)!.untilMs = Number.POSITIVE_INFINITY;
    const firstTxid = manifest.reservedTo + 1;
    const writerEpoch = {
      epoch: manifest.epoch + 1,
      id: new Uint8Array(16).fill(manifest.epoch + 1),
      firstTxid,
      lastTxid: firstTxid - 1,
    };
    const lost = [...manifest.lost, { firstTxid: manifest.txid + 1, lastTxid: firstTxid - 1 }];
    this.manifest = {
      ...manifest,
      epoch: manifest.epoch + 1,
      writerEpochs: [...manifest.writerEpochs, writerEpoch].slice(-16),
      lost,
      reservedTo: firstTxid + 99,
    };
    this.#nextTxid = firstTxid;
  }

  /** How to restore a state; there must be a way. */
  findRestorePlan(txid: number): Plan {
    const plan = findRestorePlan(this.manifest, this.history, txid);
    if (!plan) throw new Error(`no timeline holds transaction id ${txid}`);
    return plan;
  }

  /** Restores the state into a new file. */
  async restored(txid: number): Promise<string> {
    const path = this.path();
    await materialise(this.source, this.findRestorePlan(txid), path);
    return path;
  }

  /** What the state must be like, and what the file is like, as hashes. */
  compare(txid: number, path: string): { readonly expected: string | undefined; readonly found: string } {
    return { expected: this.states.get(txid), found: Buffer.from(computeSha256(readFileSync(path))).toString("hex") };
  }

  async #load(txid: number): Promise<void> {
    const path = await this.restored(txid);
    const bytes = readFileSync(path);
    rmSync(path);
    this.#pages = Array.from(
      { length: bytes.length / pageBytes },
      (_, index) => new Uint8Array(bytes.subarray(index * pageBytes, (index + 1) * pageBytes)),
    );
  }

  /** Goes back to an older state by a new commit. */
  async rewind(txid: number): Promise<void> {
    await this.ship(false);
    const plan = this.findRestorePlan(txid);
    await this.#load(txid);
    this.commit({ size: this.#pages.length, pages: [2] });
    const group = this.#waiting.pop()!;
    const bytes = await encodeSegment(
      {
        kind: "delta",
        uuid: this.manifest.uuid,
        branchId: this.manifest.branchId,
        epoch: this.manifest.epoch,
        groups: [group],
      },
      this.source.press,
    );
    const delta = await this.putDelta([
      { firstTxid: group.txid, lastTxid: group.txid, lastAtMs: group.committedAtMs, rawBytes: pageBytes, bytes },
    ]);
    this.#succeed(rewound(this.manifest, plan, delta, this.nowMs));
    const writerEpochs = this.manifest.writerEpochs.map((writerEpoch, index) =>
      index === this.manifest.writerEpochs.length - 1 ? { ...writerEpoch, lastTxid: group.txid } : writerEpoch,
    );
    this.manifest = {
      ...this.manifest,
      writerEpochs,
      txid: group.txid,
      committedAtMs: group.committedAtMs,
      pages: group.pages,
      reservedTo: group.txid + 100,
    };
  }

  #succeed({ refs, fromTxid, closed }: Succession): void {
    this.manifest = { ...this.manifest, refs, fromTxid };
    this.history = { ...this.history, timelines: [...this.history.timelines, closed] };
  }

  /** Restores a state of the manifest's timeline and uploads it as images. */
  async images(txid: number): Promise<readonly SegmentRef[]> {
    const path = await this.restored(txid);
    const { refs } = await uploadImages(
      this.source,
      path,
      { txid, committedAtMs: this.currency.get(txid)!.fromMs },
      this.manifest.branchId,
      () => this.newId(),
    );
    rmSync(path);
    return refs;
  }

  /** Begins a new timeline over the images, if they are still of the manifest's timeline. */
  rebase(images: readonly SegmentRef[]): boolean {
    const next = rebased(this.manifest, images, this.nowMs);
    if (next) this.#succeed(next);
    return next !== undefined;
  }

  /** The newest state that a new base may be made of. */
  get baseTxid(): number | undefined {
    const newest = this.manifest.refs.findLast(({ kind, cut }) => kind === "delta" && !cut);
    return newest && newest.lastTxid >= this.manifest.fromTxid ? newest.lastTxid : undefined;
  }

  /** Concatenates what is due, or the given references. */
  async pack(range = packDue(this.manifest)): Promise<boolean> {
    if (!range) return false;
    const inputs = this.manifest.refs.slice(range.from, range.to);
    const refs = packed(this.manifest.refs, inputs, await pack(this.source, inputs, this.newId()));
    if (refs) this.manifest = { ...this.manifest, refs };
    return refs !== undefined;
  }

  trim(cutoffMs: number): void {
    this.history = trimmed(this.history, cutoffMs);
  }

  checkpoint(name: string, txid: number): void {
    this.history = {
      ...this.history,
      checkpoints: [...this.history.checkpoints, { name, txid, createdAtMs: this.nowMs }],
    };
  }

  /** A branch that begins with the state. Its random numbers follow from this one's. */
  async fork(txid: number): Promise<BranchModel> {
    const point = await readStatePoint(this.source, this.manifest, this.findRestorePlan(txid));
    const branchId = this.ulids.next();
    const manifest = await forkedManifest(
      this.manifest,
      this.history,
      txid,
      { branchId, nonce: new Uint8Array(16), node: "node", ...point },
      this.source.press,
    );
    if (!manifest) throw new Error(`no timeline holds transaction id ${txid}`);
    const child = new BranchModel(seeded(this.below(2 ** 31)), this.source, this.ulids, {
      ...manifest,
      epoch: 1,
      reservedTo: txid + 100,
      writerEpochs: [
        ...manifest.writerEpochs,
        { epoch: 1, id: new Uint8Array(16).fill(77), firstTxid: txid + 1, lastTxid: txid },
      ].slice(-16),
    });
    child.nowMs = this.nowMs;
    child.states.set(txid, this.states.get(txid)!);
    child.currency.set(txid, { fromMs: point.committedAtMs, untilMs: Number.POSITIVE_INFINITY });
    await child.#load(txid);
    return child;
  }
}
