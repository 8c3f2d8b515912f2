/**
 * Earlier states of branches that were restored to be read: a cache on this node's disk, never shipped, gone with the
 * thread.
 *
 * Always true:
 * - A state is restored from a manifest that was read after the node's copy was registered and after the state had its
 *   place here. So what is removed of a database (`evict`) finds every state that an older manifest can have led to,
 *   those that are being made among them, and none comes back from before an erasure's cut.
 * - A state that is held is not closed; what is over the bounds goes as soon as nobody holds it, the least recently
 *   used first.
 *
 * Must not know: which state a caller means, what is read.
 */
import { statSync } from "node:fs";
import { ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { Semaphore } from "../../base/collections/semaphore.ts";
import { Signal } from "../../base/signal.ts";
import { TimeUp, within } from "../../base/time-limit.ts";
import type { World } from "../../base/world.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import { readHistory } from "../history/branch-history.ts";
import type { Plan } from "../history/timelines.ts";
import type { PastMeasures } from "../api/measures.ts";
import type { Copies } from "../local/copies.ts";
import { scratchFile } from "../local/database-files.ts";
import { findPastPlan } from "../segments/past-point.ts";
import type { PageSource } from "../segments/pool-objects.ts";
import { materialise, materialiseBy } from "../segments/restore.ts";
import { PastState, removePastFile, type PastStateParts } from "./past-state.ts";

/** States of one thread, with a connection each; and of those that are held or made, beyond which none is begun. */
const pastStatesMax = 16;
const pastStatesHardMax = 64;
/** Restored at once: each reads a database's objects. */
const restoresAtOnceMax = 2;
/** A state that nobody has read for so long is removed. */
const pastIdleMs = 600_000;

export interface PastStatesParts extends PastStateParts {
  readonly world: World;
  readonly copies: Copies;
  readonly source: (uuid: string) => PageSource;
  readonly scratchDirectory: string;
  /** The newest manifest of a branch in object storage. */
  readonly readManifest: (uuid: string, branchId: string) => Promise<Manifest>;
  /** The point-in-time window of a database. */
  readonly pitrMs: (uuid: string) => number;
  /** Bytes of all states of this thread that nobody holds; the newest stays whatever its size. */
  readonly bytesMax: number;
}

/** Which state of which branch. */
export interface PastPlace {
  readonly uuid: string;
  readonly branchId: string;
  readonly txid: number;
}

interface Entry extends PastPlace {
  readonly made: Promise<PastState>;
  state: PastState | undefined;
  bytes: number;
  holds: number;
  usedAtMs: number;
  /** It is removed as soon as it is made and nobody holds it. */
  isDropped: boolean;
}

export class PastStates {
  readonly #parts: PastStatesParts;
  /** Least recently used first. */
  readonly #entries = new Map<string, Entry>();
  /** Those that are being made or held though they are to go; each until it is gone. */
  readonly #leaving = new Set<Entry>();
  readonly #permits = new Semaphore(restoresAtOnceMax);
  readonly #left = new Signal();
  #restored = 0;

  constructor(parts: PastStatesParts) {
    this.#parts = parts;
  }

  get measures(): PastMeasures {
    const entries = [...this.#entries.values()];
    return {
      states: entries.length,
      bytes: entries.reduce((sum, { bytes }) => sum + bytes, 0),
      restored: this.#restored,
    };
  }

  /** How many states of the database are here. */
  count(uuid: string): number {
    return this.#listAll().filter((entry) => entry.uuid === uuid).length;
  }

  /**
   * The state, which stays until it is released: restored now unless it is here. Throws not_found when it cannot be
   * restored any more, request_timeout when that takes too long; it goes on then, for whoever asks again.
   */
  async hold(place: PastPlace, deadlineMs: number): Promise<{ readonly state: PastState; release(): void }> {
    const { world } = this.#parts;
    const entry = this.#find(place);
    entry.holds++;
    try {
      const leftMs = Math.max(0, deadlineMs - world.monotonicMs());
      const state = entry.state ?? (await within(world, leftMs, () => entry.made));
      return { state, release: () => this.#release(entry) };
    } catch (error) {
      this.#release(entry);
      if (!(error instanceof TimeUp)) throw error;
      throw new ServiceError(
        "request_timeout",
        `transaction ${place.txid} was not restored in the request's time; it goes on, so try again`,
      );
    }
  }

  /** The same for a state that is here; undefined where it is not. */
  holdNow(place: PastPlace): { readonly state: PastState; release(): void } | undefined {
    const { state } = this.#entries.get(buildKey(place)) ?? {};
    if (!state) return undefined;
    const entry = this.#find(place);
    entry.holds++;
    return { state, release: () => this.#release(entry) };
  }

  /**
   * Removes what is here of the database, or of one of its branches. Resolves when it is gone: whoever holds it is
   * waited for.
   */
  async evict(uuid: string, branchId?: string): Promise<void> {
    const going = this.#listAll().filter(
      (entry) => entry.uuid === uuid && (branchId === undefined || entry.branchId === branchId),
    );
    for (const entry of going) this.#drop(entry);
    while (going.some((entry) => this.#leaving.has(entry))) await this.#left.next(this.#parts.world);
  }

  /** Removes what nobody has used for long. */
  tick(): void {
    const beforeMs = this.#parts.world.monotonicMs() - pastIdleMs;
    for (const entry of this.#entries.values())
      if (entry.holds === 0 && entry.state && entry.usedAtMs < beforeMs) this.#drop(entry);
  }

  /** Removes everything, as far as it ends soon; the rest goes with the scratch directory. */
  async close(): Promise<void> {
    const { world } = this.#parts;
    const untilMs = world.monotonicMs() + limits.lastShipMs;
    for (const entry of this.#entries.values()) this.#drop(entry);
    while (this.#leaving.size > 0 && world.monotonicMs() < untilMs) await this.#left.next(world, untilMs);
  }

  #listAll(): Entry[] {
    return [...this.#entries.values(), ...this.#leaving];
  }

  #find(place: PastPlace): Entry {
    const key = buildKey(place);
    const entry = this.#entries.get(key) ?? this.#begin(key, place);
    // The most recently used comes last.
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    entry.usedAtMs = this.#parts.world.monotonicMs();
    return entry;
  }

  #begin(key: string, place: PastPlace): Entry {
    if (this.#entries.size + this.#leaving.size >= pastStatesHardMax)
      throw new ServiceError("overloaded", "too many earlier states are being read on this node", {
        retryAfterSecs: 1,
      });
    const { promise: made, resolve, reject } = Promise.withResolvers<PastState>();
    // Whoever waits for it hears of a failure; there may be nobody any more.
    made.catch(() => {});
    const usedAtMs = this.#parts.world.monotonicMs();
    const entry: Entry = { ...place, made, state: undefined, bytes: 0, holds: 1, usedAtMs, isDropped: false };
    this.#entries.set(key, entry);
    this.#make(entry).then(resolve, (error: unknown) => {
      this.#drop(entry);
      reject(error);
    });
    // The making itself holds it.
    made.then(
      () => this.#release(entry),
      () => this.#release(entry),
    );
    return entry;
  }

  async #make(entry: Entry): Promise<PastState> {
    const { world, copies, scratchDirectory } = this.#parts;
    const path = scratchFile(scratchDirectory, `past-${world.ulid()}.db`);
    try {
      await this.#permits.run(() =>
        copies.making(entry.uuid, async (registered) => {
          await registered;
          // It may have waited for its permit for long.
          if (entry.isDropped) throw removedMeanwhile();
          await this.#restore(entry, path);
        }),
      );
      if (entry.isDropped) throw removedMeanwhile();
      entry.state = new PastState(path, entry.txid, this.#parts);
      entry.bytes = statSync(path).size;
      this.#restored++;
      return entry.state;
    } catch (error) {
      removePastFile(path);
      throw error;
    }
  }

  async #restore(entry: Entry, path: string): Promise<void> {
    const source = this.#parts.source(entry.uuid);
    const plan = await this.#findPlan(source, entry);
    // Laid by what makes segments, the thread is free meanwhile.
    if (source.maker) await materialiseBy(source.maker, source, plan, path);
    else await materialise(source, plan, path);
  }

  async #findPlan(source: PageSource, { uuid, branchId, txid }: PastPlace): Promise<Plan> {
    const manifest = await this.#parts.readManifest(uuid, branchId);
    const history = await readHistory(source.store, manifest);
    const cutoffMs = this.#parts.world.nowMs() - this.#parts.pitrMs(uuid);
    return findPastPlan(source, { manifest, history, cutoffMs }, String(txid));
  }

  #release(entry: Entry): void {
    entry.holds--;
    if (entry.holds > 0) return;
    if (entry.isDropped) void this.#remove(entry);
    else this.#trim();
  }

  /** Removes the least recently used ones until the bounds are kept; the newest stays. */
  #trim(): void {
    const { bytesMax } = this.#parts;
    let { bytes } = this.measures;
    for (const entry of [...this.#entries.values()].slice(0, -1)) {
      if (bytes <= bytesMax && this.#entries.size <= pastStatesMax) return;
      if (entry.holds > 0) continue;
      bytes -= entry.bytes;
      this.#drop(entry);
    }
  }

  /** From now on nobody gets it; it is removed when nobody holds it. */
  #drop(entry: Entry): void {
    if (entry.isDropped) return;
    entry.isDropped = true;
    this.#entries.delete(buildKey(entry));
    this.#leaving.add(entry);
    if (entry.holds === 0) void this.#remove(entry);
  }

  async #remove(entry: Entry): Promise<void> {
    try {
      await entry.state?.close();
    } finally {
      this.#leaving.delete(entry);
      this.#left.raise();
    }
  }
}

function removedMeanwhile(): ServiceError {
  return new ServiceError("unavailable", "what this node had of the database was removed meanwhile", {
    retryAfterSecs: 1,
  });
}

/** Uuids and ids of branches hold no slash. */
function buildKey({ uuid, branchId, txid }: PastPlace): string {
  return `${uuid}/${branchId}/${txid}`;
}
