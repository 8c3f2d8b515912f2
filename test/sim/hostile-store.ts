/**
 * Object storage as it is on its worst days, shared by all nodes of a simulation.
 *
 * Always true: under every fault the objects themselves change only by compare-and-set, and an answer never lies about
 * what was applied, unless a planted bug says otherwise. Requests that were sent outlive their sender.
 */
import { hash } from "node:crypto";
import { StoreError } from "../../src/base/faults/errors.ts";
import type {
  ListPage,
  ObjectStore,
  ObjectVersion,
  PutCondition,
  PutOutcome,
  StoredObject,
  VersionPurge,
} from "../../src/store/port/object-store.ts";
import { Violation } from "./asks.ts";
import { outside, stream, type Scheduler } from "./scheduler.ts";
import type { SimWorld } from "./sim-world.ts";

/** How much of each fault; chances are per request, 0 to 1. */
export interface StoreDose {
  readonly latencyMsMax: number;
  /** Chance that a request takes seconds instead. */
  readonly slow: number;
  /** The request never arrives. */
  readonly requestLost: number;
  /** The request is applied, its answer never arrives. */
  readonly answerLost: number;
  /** The put is given up by its sender and applied up to half a minute later, if its condition then still holds. */
  readonly late: number;
  readonly refused: number;
  /** The body of a get arrives cut or with a flipped bit; the object stays whole. */
  readonly damagedGet: number;
  /** A list misses keys. */
  readonly staleList: number;
  /** An object of the pool rots where it lies: from then on errors are fine, wrong data is not. */
  readonly rot: number;
}

export const noFaults: StoreDose = {
  latencyMsMax: 5,
  slow: 0,
  requestLost: 0,
  answerLost: 0,
  late: 0,
  refused: 0,
  damagedGet: 0,
  staleList: 0,
  rot: 0,
};

/** Planted bugs: a suite that does not see them proves nothing. */
export interface StoreBugs {
  readonly ignoresConditions?: "of all" | "of manifests";
  /** Chance that a put is acknowledged and dropped. */
  readonly lies?: number;
}

/** Told of every change of an object, after it happened. */
export type StoreWatcher = (key: string, before: Uint8Array | undefined, after: Uint8Array | undefined) => void;

interface Stored extends StoredObject {
  readonly modifiedAtMs: number;
}

const poolObject = /^db\/[^/]+\/(?:seg|hist)\//;
const replaceable = /^db\/[^/]+\/(?:head\/|catalog$)/;
const olderMax = 20;
const noVersions: VersionPurge = { versioned: false, removed: 0, uploadsAborted: 0, locked: 0 };
const slowMsMax = 4_000;
const lateMsMax = 30_000;
const rotMsMax = 60_000;

type Fate = "fine" | "requestLost" | "answerLost" | "late" | "refused";

export class HostileStore {
  readonly #scheduler: Scheduler;
  readonly #random: () => number;
  readonly #objects = new Map<string, Stored>();
  /** What manifests and catalogs were before, oldest first. */
  readonly #older = new Map<string, Stored[]>();
  /** What was meddled with, as it was. */
  readonly #meddled = new Map<string, Stored>();
  readonly #bugs: StoreBugs;
  readonly #watch: StoreWatcher;
  #stormUntilMs = 0;
  dose: StoreDose;
  /** Keys of objects that have rotted. */
  readonly rotten = new Set<string>();
  /** Keys that a put of which its sender knew nothing any more has written, at any time since. */
  readonly cameLate = new Set<string>();
  /** Called when a request of this world was applied and its answer is still to come; may kill the world. */
  atApplied: (world: SimWorld) => void = () => {};
  /** When a request of a world for a database had no answer last, by both their names. */
  readonly #unansweredAtMs = new Map<string, number>();
  /** How often each fault happened. */
  readonly counts: Record<string, number> = {};

  constructor(scheduler: Scheduler, seed: number, dose: StoreDose, bugs: StoreBugs, watch: StoreWatcher) {
    this.#scheduler = scheduler;
    this.#random = stream(seed, "store");
    this.dose = dose;
    this.#bugs = bugs;
    this.#watch = watch;
  }

  /** The store as one process reaches it. */
  of(world: SimWorld): ObjectStore {
    return {
      // An answer of "same" has no body that could be damaged.
      get: ((key: string, heldVersion?: ObjectVersion) =>
        this.#request(world, "get", key, () =>
          heldVersion !== undefined && this.peek(key)?.version === heldVersion ? "same" : this.#damaged(this.read(key)),
        )) as ObjectStore["get"],
      put: (key, bytes, condition) => {
        // A copy: the caller may use its buffer again at once. (A Buffer's own slice would share it.)
        const body = new Uint8Array(bytes);
        return this.#request(world, "put", key, () => this.#put(key, body, condition));
      },
      delete: (key) => this.#request(world, "delete", key, () => this.#delete(key)),
      list: (prefix, options) => this.#request(world, "list", prefix, () => this.#list(prefix, options)),
      purgeVersions: (prefix) => this.#request(world, "purge", prefix, () => noVersions),
    };
  }

  /** Whether a request of that world for the database had no answer since then. */
  leftUnanswered(worldName: string, uuid: string, sinceMs: number): boolean {
    return (this.#unansweredAtMs.get(`${worldName} ${uuid}`) ?? -Infinity) >= sinceMs;
  }

  /** The store without any fault, for whoever checks. */
  get calm(): ObjectStore {
    return {
      get: async (key) => this.read(key),
      put: async (key, bytes, condition) => this.#put(key, new Uint8Array(bytes), condition),
      delete: async (key) => this.#delete(key),
      list: async (prefix, options) => this.#page(prefix, options, () => true),
      purgeVersions: async () => noVersions,
    };
  }

  /** The object as it lies there, not to be changed. */
  peek(key: string): Stored | undefined {
    return this.#objects.get(key);
  }

  /** A copy of the object as it lies there. */
  read(key: string): Stored | undefined {
    const found = this.#objects.get(key);
    return found && { ...found, bytes: new Uint8Array(found.bytes) };
  }

  /**
   * The object is gone, rotten, or as it was some changes ago, whoever did that; nobody is told. Says whether it could
   * be.
   */
  meddle(key: string, how: "deleted" | "rotten" | "rolled back", changes = 1): boolean {
    const found = this.#objects.get(key);
    const older = this.#older.get(key)?.at(-changes);
    if (!found || (how === "rolled back" && !older)) return false;
    this.#meddled.set(key, found);
    this.#scheduler.note("-", `${key} is ${how}`);
    if (how === "deleted") this.#objects.delete(key);
    else if (how === "rolled back") this.#objects.set(key, older!);
    else {
      const bytes = new Uint8Array(found.bytes);
      bytes[Math.floor(this.#random() * bytes.length)]! ^= 1;
      this.#objects.set(key, { ...found, bytes, version: `${found.version}-rotten` });
    }
    return true;
  }

  /** Everything that was meddled with stands there again as it was. */
  putBack(): void {
    for (const [key, was] of this.#meddled) {
      this.#scheduler.note("-", `${key} is put back`);
      this.#objects.set(key, was);
    }
    this.#meddled.clear();
  }

  keys(): IterableIterator<string> {
    return this.#objects.keys();
  }

  /** Refuses everything for a while. */
  storm(forMs: number): void {
    this.#stormUntilMs = Math.max(this.#stormUntilMs, this.#scheduler.nowMs + forMs);
  }

  /** No more faults from here on, and whatever was to come late has come or never will. */
  calmDown(): void {
    this.dose = noFaults;
    this.#stormUntilMs = 0;
  }

  #request<Answer>(world: SimWorld, verb: string, key: string, apply: () => Answer): Promise<Answer> {
    if (world.fate === "dead") return new Promise(() => {});
    const fate = this.#drawFate(verb);
    const uuid = key.split("/")[1];
    if (fate !== "fine" && uuid !== undefined) this.#unansweredAtMs.set(`${world.name} ${uuid}`, this.#scheduler.nowMs);
    const label = `${verb} ${key} ${fate}`;
    this.counts[`${verb} ${fate}`] = (this.counts[`${verb} ${fate}`] ?? 0) + 1;
    this.#scheduler.note(world.name, `asks ${label}`);
    const thereMs = this.#latencyMs();
    return new Promise((resolve, reject) => {
      const answer = (afterMs: number, act: () => void): void =>
        void this.#scheduler.at(afterMs, world, `answer ${label}`, act);
      const doubt = (): StoreError =>
        new StoreError(verb === "put" ? "unknown_outcome" : "unavailable", `simulated: ${fate}`);
      if (fate === "refused") return answer(thereMs, () => reject(new StoreError("unavailable", "simulated: 503")));
      if (fate === "requestLost") return answer(thereMs + this.#latencyMs() * 10, () => reject(doubt()));
      const lateMs = fate === "late" ? this.#random() * lateMsMax : 0;
      if (fate === "late") answer(thereMs + this.#latencyMs(), () => reject(doubt()));
      this.#scheduler.at(thereMs + lateMs, outside, `apply ${label} of ${world.name}`, () => {
        const result = apply();
        if (verb === "put") this.#scheduler.note("-", (result as PutOutcome).kind);
        if (fate === "late" && (result as PutOutcome).kind === "stored") this.cameLate.add(key);
        this.atApplied(world);
        if (fate === "answerLost") answer(this.#latencyMs() * 10, () => reject(doubt()));
        else if (fate === "fine") answer(this.#latencyMs(), () => resolve(result));
      });
    });
  }

  #drawFate(verb: string): Fate {
    if (this.#scheduler.nowMs < this.#stormUntilMs) return this.#random() < 0.8 ? "refused" : "requestLost";
    const { requestLost, answerLost, late, refused } = this.dose;
    let draw = this.#random();
    const faults: [Fate, number][] = [
      ["requestLost", requestLost],
      ["answerLost", answerLost],
      ["refused", refused],
      ["late", verb === "put" ? late : 0],
    ];
    for (const [fate, chance] of faults) {
      if (draw < chance) return fate;
      draw -= chance;
    }
    return "fine";
  }

  #latencyMs(): number {
    const { latencyMsMax, slow } = this.dose;
    return this.#random() * (this.#random() < slow ? slowMsMax : latencyMsMax);
  }

  #put(key: string, bytes: Uint8Array, condition: PutCondition): PutOutcome {
    const before = this.#objects.get(key);
    const holds = condition.kind === "absent" ? before === undefined : before?.version === condition.version;
    const { ignoresConditions } = this.#bugs;
    if (
      !holds &&
      (ignoresConditions === undefined || (ignoresConditions === "of manifests" && !key.includes("/head/")))
    )
      return { kind: "conflict" };
    // As on S3: the version is a hash of the content.
    const version = hash("md5", bytes);
    if (this.#random() < (this.#bugs.lies ?? 0)) return { kind: "stored", version };
    // Whoever stands on what somebody has put in its place makes a second history.
    if (this.#meddled.has(key)) throw new Violation(`${key} was changed while it was not what it had been`);
    if (before && replaceable.test(key))
      this.#older.set(key, [...(this.#older.get(key) ?? []).slice(-olderMax), before]);
    this.#objects.set(key, { bytes, version, modifiedAtMs: this.#nowMs() });
    this.#watch(key, before?.bytes, bytes);
    if (poolObject.test(key) && this.#random() < this.dose.rot)
      this.#scheduler.at(this.#random() * rotMsMax, outside, `rot ${key}`, () => this.#rot(key));
    return { kind: "stored", version };
  }

  #delete(key: string): void {
    const before = this.#objects.get(key);
    this.#objects.delete(key);
    if (before) this.#watch(key, before.bytes, undefined);
  }

  #list(prefix: string, options: { after?: string | undefined; limit: number }): ListPage {
    const { staleList } = this.dose;
    return this.#page(prefix, options, () => this.#random() >= staleList);
  }

  #page(prefix: string, options: { after?: string | undefined; limit: number }, seen: () => boolean): ListPage {
    const keys = [...this.#objects.keys()]
      .filter((key) => key.startsWith(prefix) && (options.after === undefined || key > options.after))
      .toSorted();
    const page = keys.slice(0, options.limit);
    const objects = page.filter(seen).map((key) => {
      const { bytes, modifiedAtMs } = this.#objects.get(key)!;
      return { key, bytes: bytes.length, modifiedAtMs };
    });
    return { objects, next: keys.length > page.length ? page.at(-1) : undefined };
  }

  #damaged(found: Stored | undefined): Stored | undefined {
    if (!found || found.bytes.length === 0 || this.#random() >= this.dose.damagedGet) return found;
    this.counts["get damaged"] = (this.counts["get damaged"] ?? 0) + 1;
    this.#scheduler.note("-", "damaged on its way");
    if (this.#random() < 0.5)
      return { ...found, bytes: found.bytes.subarray(0, Math.floor(this.#random() * found.bytes.length)) };
    found.bytes[Math.floor(this.#random() * found.bytes.length)]! ^= 1 << Math.floor(this.#random() * 8);
    return found;
  }

  #rot(key: string): void {
    const found = this.#objects.get(key);
    if (!found || found.bytes.length === 0 || this.dose.rot === 0) return;
    this.rotten.add(key);
    const bytes = new Uint8Array(found.bytes);
    bytes[Math.floor(this.#random() * bytes.length)]! ^= 1;
    this.#objects.set(key, { ...found, bytes });
  }

  /** The store's own clock, which is right. */
  #nowMs(): number {
    return Math.floor(Date.UTC(2030, 0, 1) + this.#scheduler.nowMs);
  }
}
