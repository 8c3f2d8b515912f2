/** Object storage of a fleet of any size: its listings come from a formula, and every request is counted. */
import { encodeCoupon } from "../../src/format/erasure/erasure-coupon.ts";
import { dueKey, dueKeysUntil, parseDueKey } from "../../src/format/keys/expiry-keys.ts";
import { parseErasureKey } from "../../src/format/keys/object-keys.ts";
import { shardsCount } from "../../src/format/core/shards.ts";
import { MemoryStore } from "../../src/store/memory-store.ts";
import type { ListedObject, ListPage, StoredObject } from "../../src/store/port/object-store.ts";
import type { SimWorld } from "../sim/sim-world.ts";
import { sampleCoupon } from "./format-samples.ts";
import { dueLookMs } from "../../src/service/jobs/idle-database-sweeper.ts";

const hourMs = 3_600_000;

export interface FleetOptions {
  readonly nodes: number;
  /** How many databases have something due in each hour. */
  readonly duePerHour?: number;
  /** Erasures that are unfinished all the time, each for a day. */
  readonly erasures?: number;
  /** Deleted databases of which a dead node has a copy. */
  readonly deleted?: number;
  /** What a cold database takes to be opened, swept and shipped. */
  readonly sweepMs?: number;
}

/** The n-th of so many uuids, which lie as evenly as random ones do; `which` makes others of them. */
export function uuidAt(index: number, count: number, which = 0): string {
  return `${Math.floor((index * 2 ** 32) / count)
    .toString(16)
    .padStart(8, "0")}-${which.toString(16).padStart(4, "0")}-4000-8000-${index.toString(16).padStart(12, "0")}`;
}

/** Requests of one kind. */
export type Requests = Record<"list" | "get" | "put" | "delete" | "etcd", number>;

/** Object storage of the fleet, counted as one node asks it. */
export class FleetStore extends MemoryStore {
  readonly requests: Requests;
  /** How late each entry of what is due was done with, in milliseconds. */
  readonly sweptAfterMs: number[] = [];
  /** How late each coupon was first read. */
  readonly foundAfterMs: number[] = [];
  /** Whether this node looks after the shard: what lies in the others is done by theirs. */
  isOurs: (shard: number) => boolean = () => true;
  readonly #options: FleetOptions;
  readonly #world: SimWorld;
  readonly #startMs: number;
  readonly #done = new Set<string>();
  /** How many entries of each hour are done with. */
  readonly #doneByShard = new Map<number, number>();
  readonly #found = new Set<string>();

  constructor(options: FleetOptions, world: SimWorld, requests: Requests) {
    super(world);
    this.#options = options;
    this.#world = world;
    this.#startMs = world.nowMs();
    this.requests = requests;
  }

  override get(key: string): Promise<StoredObject | undefined>;
  override get(key: string, heldVersion: string | undefined): Promise<StoredObject | "same" | undefined>;
  override async get(key: string, heldVersion?: string): Promise<StoredObject | "same" | undefined> {
    this.requests.get++;
    const coupon = key.startsWith("erasures/") ? parseErasureKey(key) : undefined;
    if (coupon) return { bytes: this.#coupon(coupon), version: "1" };
    if (parseDueKey(key)) return { bytes: new Uint8Array(0), version: "1" };
    return super.get(key, heldVersion);
  }

  override async put(...given: Parameters<MemoryStore["put"]>): ReturnType<MemoryStore["put"]> {
    this.requests.put++;
    return super.put(...given);
  }

  override async delete(key: string): Promise<void> {
    this.requests.delete++;
    const due = parseDueKey(key);
    if (!due) return super.delete(key);
    this.#done.add(key);
    this.#doneByShard.set(due.atMs, (this.#doneByShard.get(due.atMs) ?? 0) + 1);
    this.sweptAfterMs.push(this.#world.nowMs() - due.atMs);
  }

  override async list(prefix: string, options: { after?: string | undefined; limit: number }): Promise<ListPage> {
    this.requests.list++;
    if (prefix === "due/") return this.#buildPage(this.#dueAfter(options.after ?? ""), options.limit);
    if (prefix === "erasing/") return this.#buildPage(this.#erasingAfter(options.after ?? ""), options.limit);
    return super.list(prefix, options);
  }

  #buildPage(keys: Iterable<string>, limit: number): ListPage {
    const objects: ListedObject[] = [];
    for (const key of keys) {
      if (objects.length === limit) return { objects, next: objects.at(-1)!.key };
      objects.push({ key, bytes: 1, modifiedAtMs: this.#world.nowMs() });
    }
    return { objects, next: undefined };
  }

  /**
   * From the hour at which the fleet began: what came before is done. Entries are noted a while before they are due.
   */
  *#dueAfter(after: string): Generator<string> {
    const { duePerHour: count = 0 } = this.#options;
    const nowMs = this.#world.nowMs();
    if (count === 0) return;
    for (let atMs = Math.ceil(this.#startMs / hourMs) * hourMs; atMs <= nowMs + 2 * hourMs; atMs += hourMs) {
      if (dueKeysUntil(atMs) <= after) continue;
      const prefix = dueKey({ atMs, uuid: "", branchId: "" }).slice(0, -1);
      const buildKey = (index: number): string => `${prefix}${uuidAt(index, count, (atMs / hourMs) % 24)}/main`;
      // The others are as fast as this one.
      const isOver = nowMs > atMs + 2 * dueLookMs;
      if (isOver && (this.#doneByShard.get(atMs) ?? 0) >= this.#ownCount(count)) continue;
      for (let index = firstBehind(after, count, buildKey); index < count; index++) {
        if (isOver && !this.isOurs(Math.floor((index * shardsCount) / count))) continue;
        const key = buildKey(index);
        if (!this.#done.has(key)) yield key;
      }
    }
  }

  /** How many of so many uuids are in this node's shards. */
  #ownCount(count: number): number {
    let own = 0;
    for (let index = 0; index < count; index++) if (this.isOurs(Math.floor((index * shardsCount) / count))) own++;
    return own;
  }

  *#erasingAfter(after: string): Generator<string> {
    const { erasures: count = 0 } = this.#options;
    const buildKey = (index: number): string => `erasing/${uuidAt(index, count)}/${buildId(index)}`;
    for (let index = firstBehind(after, count, buildKey); index < count; index++)
      if (this.#askedAtMs(index) <= this.#world.nowMs()) yield buildKey(index);
  }

  /**
   * One after the other over a day: what is there at the beginning was asked for in the day before, and is asked for
   * again a day later.
   */
  #askedAtMs(index: number): number {
    const { erasures: count = 1 } = this.#options;
    const isLater = index % 2 === 0;
    return this.#startMs + (isLater ? 1 : -1) * ((index * 7_919) % count) * ((24 * hourMs) / count);
  }

  #coupon({ uuid, id }: { readonly uuid: string; readonly id: string }): Uint8Array {
    const index = parseInt(uuid.slice(-12), 16);
    const requestedAtMs = Math.round(this.#askedAtMs(index));
    if (!this.#found.has(id) && requestedAtMs > this.#startMs)
      this.foundAfterMs.push(this.#world.nowMs() - requestedAtMs);
    this.#found.add(id);
    const coupon = {
      ...sampleCoupon,
      uuid,
      id,
      requestedAtMs,
      graceUntilMs: requestedAtMs + 1_000 * hourMs,
      status: "pending" as const,
    };
    return encodeCoupon(coupon, new Uint8Array(16));
  }
}

/** An erasure's id, the same for the same one. */
function buildId(index: number): string {
  return `ers_01HF7YAT${String(index).padStart(18, "0")}`;
}

/** The first of so many ascending keys that sorts after the given one. */
function firstBehind(after: string, count: number, buildKey: (index: number) => string): number {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (buildKey(middle) <= after) low = middle + 1;
    else high = middle;
  }
  return low;
}
