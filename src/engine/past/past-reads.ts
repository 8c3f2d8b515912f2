/**
 * Reads of a branch as it was: which state is meant, whether object storage has it yet, and what is answered.
 *
 * Always true: what is answered from is a state that object storage holds, within the branch's point-in-time window
 * or under a name, as the branch's manifest has it now. What expires is judged at the time that was asked for, else at
 * that of the state's commit, so that the same state gives the same answer. A node that does not write the branch
 * answers for what its manifest covers; what may be newer is for the writer. Must not know: threads, wires.
 */
import { ServiceError, StoreError } from "../../base/faults/errors.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import { TimeUp, within } from "../../base/time-limit.ts";
import type { World } from "../../base/world.ts";
import { parseState } from "../../format/core/state-names.ts";
import type { History } from "../../format/history/history.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import type { ReadKind } from "../../model/commands.ts";
import type { MemoryRetention } from "../../model/core/retention.ts";
import { TurnedAway } from "../api/engine-port.ts";
import type { Completion, Consistency } from "../api/protocol.ts";
import type { Database } from "../database/database.ts";
import { readHistory } from "../history/branch-history.ts";
import type { Pinnable } from "../pool/pins.ts";
import { shipped } from "../pool/shipped.ts";
import { findPastPlan } from "../segments/past-point.ts";
import type { PageSource } from "../segments/pool-objects.ts";
import type { PastSight, PastState } from "./past-state.ts";
import type { PastStates } from "./past-states.ts";

/** History objects of a thread, which never change, and what a caller waits for at most whatever its deadline. */
const historiesMax = 64;
const patienceMs = 60_000;
/** Which state is meant is believed for so long while the manifest stays the same: windows and copies go on. */
const believedMs = 1_000;
const resolvedMax = 1_000;

export interface PastReadsParts {
  readonly world: World;
  readonly states: PastStates;
  readonly source: (uuid: string) => PageSource;
  readonly pitrMs: (uuid: string) => number;
  readonly findRetention: (uuid: string) => MemoryRetention | undefined;
  /** Whether this node writes the database. */
  readonly isHeld: (uuid: string) => boolean;
  /** Whether no other node can have a newer state. */
  readonly isCertain: (uuid: string) => boolean;
}

/** Which state is asked for, and how sure it must be that there is no newer one. */
export interface PastAsked {
  readonly at: string;
  readonly consistency?: Consistency | undefined;
  readonly deadlineMs: number;
}

/** A state that stays until it is released. */
export interface HeldPast {
  readonly state: PastState;
  readonly sight: PastSight;
  release(): void;
}

/** Which state was meant, by which manifest, and when that was found out. */
interface Resolved {
  readonly manifest: Manifest;
  readonly txid: number;
  readonly atMs: number;
}

export class PastReads {
  readonly #parts: PastReadsParts;
  /** By branch and by what was asked for. */
  readonly #resolved = new LruMap<string, Resolved>(resolvedMax);
  readonly #histories = new LruMap<string, History>(historiesMax);

  constructor(parts: PastReadsParts) {
    this.#parts = parts;
  }

  /** Reads the state; an error is told with the state that it speaks of where that was reached. */
  async read(database: Database, asked: PastAsked, command: ReadKind, input: unknown, to: Completion): Promise<void> {
    let txid: number | undefined;
    try {
      // Without a turn of the loop where everything is here.
      const { state, sight, release } = this.#holdNow(database, asked) ?? (await this.hold(database, asked));
      ({ txid } = state);
      try {
        to.done({ value: state.read(command, input, sight), txid });
      } finally {
        release();
      }
    } catch (error) {
      to.failed(error, txid ?? database.safeTxid);
    }
  }

  /** The state for a process that reads its file. */
  async pin(database: Database, asked: PastAsked): Promise<Pinnable & { readonly txid: number }> {
    const { state, sight, release } = await this.hold(database, asked);
    return {
      path: state.path,
      txid: state.txid,
      durableTxid: database.durableTxid,
      pin: () => sight,
      unpin: (seenTxid, completion) => {
        release();
        completion.done({ value: undefined, txid: seenTxid });
      },
    };
  }

  /** The state that is asked for. Throws not_found, and TurnedAway where only the branch's writer can know it. */
  async hold(database: Database, asked: PastAsked): Promise<HeldPast> {
    const { world } = this.#parts;
    const deadlineMs = Math.min(asked.deadlineMs, world.monotonicMs() + patienceMs);
    const txid = await this.#byDeadline(deadlineMs, this.#resolve(database, asked));
    const { uuid, branchId } = database.opened;
    const held = await this.#parts.states.hold({ uuid, branchId, txid }, deadlineMs);
    return { ...held, sight: this.#sight(uuid, asked, held.state) };
  }

  /** The state, where it was found out a moment ago which one is meant, and it is restored. */
  #holdNow(database: Database, asked: PastAsked): HeldPast | undefined {
    const { uuid, branchId, manifest } = database.opened;
    const known = this.#resolved.get(buildKey(database, asked.at));
    if (!known || known.manifest !== manifest.now || asked.consistency === "primary") return undefined;
    if (this.#parts.world.monotonicMs() > known.atMs + believedMs) return undefined;
    const held = this.#parts.states.holdNow({ uuid, branchId, txid: known.txid });
    return held && { ...held, sight: this.#sight(uuid, asked, held.state) };
  }

  #sight(uuid: string, { at }: PastAsked, { committedAtMs }: PastState): PastSight {
    const { world, findRetention } = this.#parts;
    const named = parseState(at);
    const nowMs = named?.kind === "time" ? Math.min(named.atMs, world.nowMs()) : committedAtMs;
    return { nowMs, retention: findRetention(uuid) };
  }

  /** The transaction id that is meant; object storage holds its state. */
  async #resolve(database: Database, { at, consistency }: PastAsked): Promise<number> {
    const { isHeld, isCertain, source, pitrMs, world } = this.#parts;
    const { uuid } = database.opened;
    const isOurs = isHeld(uuid);
    if (isOurs && consistency === "primary" && !isCertain(uuid)) await database.prove();
    if (isOurs && mayBeUnshipped(at, database.opened.manifest.now, database.safeTxid)) await shipped(database);
    const manifest = database.opened.manifest.now;
    // A copy knows what its manifest covers, and takes that for all there is only where its caller does.
    const isEnough = isOurs || consistency === "cached";
    if (!isEnough && mayBeUnshipped(at, manifest, Infinity)) throw new TurnedAway("behind");
    if (!database.opened.manifest.exists)
      throw new ServiceError("not_found", "the branch has no past yet: nothing was ever written to it");
    try {
      const history = await this.#readHistory(source(uuid), manifest);
      const cutoffMs = world.nowMs() - pitrMs(uuid);
      const { txid } = await findPastPlan(source(uuid), { manifest, history, cutoffMs }, at);
      // What is committed and not shipped may be meant by a time that is yet to come.
      if (isEnough && parseState(at)?.kind !== "time")
        this.#resolved.set(buildKey(database, at), { manifest, txid, atMs: world.monotonicMs() });
      return txid;
    } catch (error) {
      if (isEnough || !isMissing(error)) throw error;
      throw new TurnedAway("behind");
    }
  }

  async #readHistory({ store }: PageSource, manifest: Manifest): Promise<History> {
    const id = manifest.history?.id;
    if (id === undefined) return readHistory(store, manifest);
    const key = `${manifest.uuid}/${id}`;
    const known = this.#histories.get(key);
    if (known) return known;
    const history = await readHistory(store, manifest);
    this.#histories.set(key, history);
    return history;
  }

  async #byDeadline<Value>(deadlineMs: number, found: Promise<Value>): Promise<Value> {
    const { world } = this.#parts;
    try {
      return await within(world, Math.max(0, deadlineMs - world.monotonicMs()), () => found);
    } catch (error) {
      if (!(error instanceof TimeUp)) throw error;
      throw new ServiceError(
        "request_timeout",
        "it was not found out in the request's time which state is meant: object storage holds it once it answers",
      );
    }
  }
}

/** Ids of branches hold no slash. */
function buildKey({ opened: { uuid, branchId } }: Database, at: string): string {
  return `${uuid}/${branchId}/${at}`;
}

/** Whether the state may be one that the manifest does not cover yet; `safeTxid` is the newest that can be. */
function mayBeUnshipped(at: string, manifest: Manifest, safeTxid: number): boolean {
  if (safeTxid <= manifest.txid) return false;
  const state = parseState(at);
  if (state?.kind === "txid") return state.txid > manifest.txid && state.txid <= safeTxid;
  return state?.kind === "time" && state.atMs >= manifest.committedAtMs;
}

/** Whether the branch may have it by now: what was packed is at another place, and a name may be new. */
function isMissing(error: unknown): boolean {
  return error instanceof StoreError ? error.kind === "corrupt" : (error as ServiceError).code === "not_found";
}
