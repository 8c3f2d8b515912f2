/**
 * Looks for erased data in everything that a database has in object storage, and in states restored from it.
 *
 * Always true:
 * - what it calls proven was listed and read completely just now
 * - every page was searched as it is at rest, and has nothing in its unused space
 * - restored states up to `checkedStateBytesMax` were checked too (sqlite/soundness)
 *
 * Finding something is an answer, not a failure; what cannot be read is one. It changes nothing.
 *
 * Must not know: what a coupon is for, how history was cut.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { decodeManifest } from "../../format/history/manifest.ts";
import { databasePrefix, isBranchId, parsePoolId } from "../../format/keys/object-keys.ts";
import { makeCanonical, pageBytes } from "../../format/history/pages.ts";
import type { Compression } from "../../format/core/compression.ts";
import { orderFrames } from "../../format/history/frame-order.ts";
import { decodeFrame, readSegmentIndexes, type SegmentIndex } from "../../format/history/segment.ts";
import { TraceSearch } from "../../format/erasure/traces.ts";
import { strayMetadata } from "../../model/docs/memory-metadata.ts";
import { isBatched } from "../../model/core/database-state.ts";
import { strayMemoryText } from "../../model/memory/keyword.ts";
import { strayPins } from "../../model/memory/memory-pins.ts";
import { strayFingerprint } from "../../model/memory/fingerprint-index.ts";
import { straySubjects } from "../../model/core/subjects.ts";
import { strayTurnDetails } from "../../model/transcript/turn-details.ts";
import { strayTurnText } from "../../model/transcript/turn-text.ts";
import type { Connection } from "../../sqlite/connection/connection.ts";
import type { ErasureEvidence } from "../../format/erasure/erasure-receipt.ts";
import type { GarbageCollector, Survey } from "../maintenance/garbage-collector.ts";
import { restoringTimelines, type Past } from "./history-truncation.ts";
import { findRestorePlan } from "../history/timelines.ts";
import type { ErasedCoupon } from "../api/protocol.ts";
import {
  holdsErased,
  inRestored,
  readRestoredState,
  turnEnd,
  windowAt,
  findLiveWindows,
  withRestored,
  type StatePlace,
} from "../segments/restored-state.ts";

/**
 * A state that proves an erasure is checked too up to this size, on the thread that makes segments: about 0.2 s; its
 * tables are looked through on the engine's.
 */
const checkedStateBytesMax = 64 * 1024 * 1024;

/** What is looked at in object storage. */
export type StoreEvidence = Omit<ErasureEvidence, "store" | "local">;

/** Proven, or the obstacle: a key that still holds something, or objects that wait to be collected. */
export type Proof =
  | { readonly kind: "proven"; readonly evidence: StoreEvidence }
  | { readonly kind: "uncollected" }
  | { readonly kind: "residue"; readonly what: string };

/** A branch by its name, as it is after the cut. */
export interface NamedPast {
  readonly name: string;
  readonly past: Past;
}

/** States that are restored of each branch between its oldest and its newest. */
const statesBetween = 3;

export class Prover {
  readonly #place: StatePlace;
  readonly #collector: Pick<GarbageCollector, "survey">;

  constructor(place: StatePlace, collector: Pick<GarbageCollector, "survey">) {
    this.#place = place;
    this.#collector = collector;
  }

  /** Looks for what the coupons have erased, on every branch that there is. */
  async prove(branches: readonly NamedPast[], coupons: readonly ErasedCoupon[]): Promise<Proof> {
    const survey = await this.#collector.survey(this.#place.source.uuid);
    if (!survey || !(await this.isCollected(survey))) return { kind: "uncollected" };
    const search = new TraceSearch(coupons.map(({ traces }) => traces));
    const scan = new ObjectScan(this.#place, search);
    for (const key of survey.listed) if (!(await scan.look(key))) return { kind: "uncollected" };
    if (scan.slackIn !== undefined)
      return { kind: "residue", what: `an object with something left in unused space: ${scan.slackIn}` };
    const states: ErasureEvidence["states_restored"][number][] = [];
    const oldest: Record<string, number> = {};
    const isLive = new Set<string>();
    for (const branch of branches) {
      const txids = sampled(branch.past, () => this.#chance());
      oldest[branch.name] = txids[0]!;
      for (const txid of txids) {
        const looked = await this.#lookInto(branch, txid, coupons, scan.found.size > 0 ? search : undefined, isLive);
        if (typeof looked !== "number")
          return { kind: "residue", what: `${looked.what} of branch ${branch.name} at ${txid}` };
        states.push({ branch: branch.name, txid, pages: looked });
      }
    }
    const left = scan.found.entries().find(([window]) => !isLive.has(window));
    if (left) return { kind: "residue", what: `an object that still holds traces: ${left[1].key}` };
    const said = scan.found.values().reduce((sum, { sets }) => sum + sets.size, 0);
    const count = survey.listed.length;
    return {
      kind: "proven",
      evidence: {
        objects: { listed: count, live: count, scanned: scan.objects, bytes: scan.bytes },
        heads_checked: survey.manifests.size,
        catalogs_checked: 1,
        pages_scanned: scan.pages,
        // What a client has written again since is there by right.
        traces: { looked_for: search.size - said, hits: 0 },
        states_restored: states,
        oldest_restorable_txid: oldest,
      },
    };
  }

  /**
   * Whether everything that is listed is live: referred to, or made since the cut of states that are kept, which
   * packing leaves behind all the time. Objects that are not ours are never collected, but scanned like all others.
   */
  async isCollected({ listed, live, manifests }: Survey): Promise<boolean> {
    for (const key of listed) {
      if (live.has(key) || !isOurs(key) || key.startsWith("hist/")) continue;
      if (!key.startsWith("seg/") || !(await this.#isOfKeptStates(key, manifests))) return false;
    }
    return true;
  }

  /**
   * From the beginning of the timeline of a branch's manifest, all that the branch ever wrote is states of that
   * timeline.
   */
  async #isOfKeptStates(key: string, manifests: Survey["manifests"]): Promise<boolean> {
    const { store, uuid } = this.#place.source;
    const stored = await store.get(databasePrefix(uuid) + key);
    if (!stored) return true;
    return readSegmentIndexes(stored.bytes).every(
      ({ branchId, groups }) => groups[0]!.txid >= (manifests.get(branchId)?.fromTxid ?? Infinity),
    );
  }

  /** A number from 0 up to 1. */
  #chance(): number {
    return Buffer.from(this.#place.world.randomBytes(4)).readUInt32LE() / 2 ** 32;
  }

  /** Size of the sound state in pages, or what is left in it. Adds what the search finds in its live vectors. */
  async #lookInto(
    { past }: NamedPast,
    txid: number,
    coupons: readonly ErasedCoupon[],
    search: TraceSearch | undefined,
    isLive: Set<string>,
  ): Promise<number | { readonly what: string }> {
    const plan = findRestorePlan(past.manifest, past.history, txid);
    if (!plan) throw new StoreError("corrupt", `transaction id ${txid} of a branch should be restorable and is not`);
    return withRestored(this.#place, plan, async (path, pages) => {
      const isChecked = pages * pageBytes <= checkedStateBytesMax;
      const state = await readRestoredState(this.#place, path, isChecked);
      const what = inRestored(path, false, (connection) => {
        if (state.txid !== txid)
          throw new StoreError("corrupt", `the restored state ${txid} says of itself that it is another`);
        if (search) for (const window of findLiveWindows(connection, search, coupons)) isLive.add(window);
        if (holdsErased(connection, coupons)) return "an erased memory or record in the state";
        return isChecked ? leftoverIn(connection) : undefined;
      });
      return what === undefined ? pages : { what };
    });
  }
}

/** The oldest state of the branch, the newest, and some between, rising. */
function sampled(past: Past, chance: () => number): readonly number[] {
  const oldest = Math.min(...restoringTimelines(past).map(({ fromTxid }) => fromTxid));
  const newest = past.manifest.txid;
  const txids = new Set([oldest, newest]);
  for (let tries = 0; tries < 4 * statesBetween && txids.size < statesBetween + 2; tries++) {
    const txid = oldest + Math.floor(chance() * (newest - oldest));
    if (findRestorePlan(past.manifest, past.history, txid)) txids.add(txid);
  }
  return [...txids].sort((a, b) => a - b);
}

function isOurs(key: string): boolean {
  const [folder, id] = key.split("/");
  if (folder === "head") return isBranchId(id ?? "");
  return key === "catalog" || ((folder === "seg" || folder === "hist") && parsePoolId(id ?? "") !== undefined);
}

/** What a pass over the tables finds in a sound state that should not be there. */
function leftoverIn(connection: Connection): string | undefined {
  const strays = {
    "indexed text without its memory": strayMemoryText(connection),
    "provenance without its memory":
      "SELECT 1 FROM __service_memory_provenance WHERE memory NOT IN (SELECT row FROM __service_memory) LIMIT 1",
    "a fingerprint without its memory": isBatched(connection) ? strayFingerprint : undefined,
    "metadata without its memory": strayMetadata(connection),
    "a pin without its memory": strayPins(connection),
    "words without their turn": strayTurnText(connection),
    "details without their turn": strayTurnDetails(connection),
    "a subject without its record": straySubjects(connection),
    "a vector without its memory": `SELECT 1 FROM __service_vector JOIN __service_vector_space USING (space)
      WHERE kind = 'memory' AND owner NOT IN (SELECT row FROM __service_memory) LIMIT 1`,
  };
  return Object.entries(strays).find(([, sql]) => sql !== undefined && connection.get(sql) !== undefined)?.[0];
}

/** One pass over objects. */
class ObjectScan {
  readonly #place: StatePlace;
  readonly #search: TraceSearch;
  /** Windows that were found: where first, and for which of the searches' sets. */
  readonly found = new Map<string, { readonly key: string; readonly sets: Set<number> }>();
  /** The first object that has something in the unused space of a page. */
  slackIn: string | undefined;
  objects = 0;
  bytes = 0;
  pages = 0;

  constructor(place: StatePlace, search: TraceSearch) {
    this.#place = place;
    this.#search = search;
  }

  /** Looks at the object of this key below the database's folder; false when it is gone. */
  async look(key: string): Promise<boolean> {
    const { store, uuid, press } = this.#place.source;
    const stored = await store.get(databasePrefix(uuid) + key);
    if (!stored) return false;
    this.objects++;
    this.bytes += stored.bytes.length;
    await this.#lookAt(key, stored.bytes, press);
    await turnEnd(this.#place.world);
    return true;
  }

  async #lookAt(key: string, bytes: Uint8Array, press: Compression): Promise<void> {
    if (key.startsWith("seg/") && isOurs(key)) return this.#lookAtPages(key, bytes, readSegmentIndexes(bytes), press);
    this.#searchIn(key, bytes);
    const inner =
      key.startsWith("head/") && isOurs(key)
        ? decodeManifest(bytes).tail.map((segment) => segment.bytes)
        : isOurs(key)
          ? []
          : [bytes];
    for (const segments of inner) {
      const indexes = isOurs(key) ? readSegmentIndexes(segments) : indexesIfAny(segments);
      await this.#lookAtPages(key, segments, indexes, press);
    }
  }

  async #lookAtPages(
    key: string,
    bytes: Uint8Array,
    indexes: readonly SegmentIndex[],
    press: Compression,
  ): Promise<void> {
    const canonical = new Uint8Array(pageBytes);
    for (const index of indexes) {
      const pages = index.groups.flatMap(({ pageNumbers }) => [...pageNumbers]);
      const numbers = orderFrames(index.version, index.groups).map((number) => pages[number]!);
      let next = 0;
      for (const frame of index.frames.keys()) {
        const raw = await decodeFrame(bytes, index, frame, press);
        this.#searchIn(key, raw);
        for (let at = 0; at < raw.length; at += pageBytes) {
          const page = raw.subarray(at, at + pageBytes);
          canonical.set(page);
          makeCanonical(canonical, numbers[next++]!);
          this.pages++;
          if (Buffer.compare(page, canonical) !== 0) this.slackIn ??= key;
        }
        await turnEnd(this.#place.world);
      }
    }
  }

  #searchIn(key: string, bytes: Uint8Array): void {
    this.#search.search(bytes, (set, offset) => {
      const window = windowAt(bytes, offset);
      const before = this.found.get(window);
      if (before) before.sets.add(set);
      else this.found.set(window, { key, sets: new Set([set]) });
    });
  }
}

/** What an object that is not ours says as segments, if it is some: it is searched as it is anyway. */
function indexesIfAny(bytes: Uint8Array): readonly SegmentIndex[] {
  try {
    return readSegmentIndexes(bytes);
  } catch (error) {
    if (error instanceof StoreError) return [];
    throw error;
  }
}
