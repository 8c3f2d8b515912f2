/**
 * Counts what is asked of an object store: how often, with what outcome, how many bytes, for how long.
 *
 * Always true: it changes nothing of what passes; objects are told apart by their kind, never by their key, so that the
 * counts identify no tenant and are as few as kinds are. Must not know: what any adapter does, who reads the counts.
 */
import { StoreError } from "../base/faults/errors.ts";
import { longBoundsMs, Histogram, type HistogramCounts } from "../base/collections/histogram.ts";
import type { World } from "../base/world.ts";
import { databasePrefix } from "../format/keys/object-keys.ts";
import type {
  ListPage,
  ObjectStore,
  ObjectVersion,
  PutCondition,
  PutOutcome,
  StoredObject,
  VersionPurge,
} from "./port/object-store.ts";

/** What can be asked of a store. */
const storeOperations = ["get", "put", "delete", "list", "purge"] as const;
export type StoreOperation = (typeof storeOperations)[number];

/** What an object of a database is; `other` is everything that belongs to no database. */
const objectKinds = ["head", "seg", "hist", "catalog", "other"] as const;
export type ObjectKind = (typeof objectKinds)[number];

/** Requests that ended alike. */
export interface StoreRequests {
  readonly operation: StoreOperation;
  readonly object: ObjectKind;
  /** `ok`, `absent` or `same` of a get, `conflict` of a put, the kind of a StoreError, or `fault`. */
  readonly outcome: string;
  readonly count: number;
}

/** What was asked of a store since the beginning. */
export interface StoreMeasures {
  readonly requests: readonly StoreRequests[];
  readonly durations: Readonly<Record<StoreOperation, HistogramCounts>>;
  readonly bytesPut: number;
  readonly bytesGot: number;
}

const afterUuid = databasePrefix("00000000-0000-4000-8000-000000000000").length;
const kinds: ReadonlySet<string> = new Set(objectKinds);

/** What lies under a key. Whole prefixes of databases count as `other`. */
export function parseObjectKind(key: string): ObjectKind {
  if (!key.startsWith("db/")) return "other";
  const [folder = ""] = key.slice(afterUuid).split("/", 1);
  return kinds.has(folder) ? (folder as ObjectKind) : "other";
}

export class MeasuredStore implements ObjectStore {
  readonly #store: ObjectStore;
  readonly #world: Pick<World, "monotonicMs">;
  readonly #counts = new Map<string, StoreRequests & { count: number }>();
  readonly #durations: Readonly<Record<StoreOperation, Histogram>>;
  #bytesPut = 0;
  #bytesGot = 0;

  constructor(store: ObjectStore, world: Pick<World, "monotonicMs">) {
    this.#store = store;
    this.#world = world;
    const tally = (): Histogram => new Histogram(longBoundsMs);
    this.#durations = { get: tally(), put: tally(), delete: tally(), list: tally(), purge: tally() };
  }

  /** What was asked so far. */
  get measures(): StoreMeasures {
    const { get, put, delete: removal, list, purge } = this.#durations;
    return {
      requests: [...this.#counts.values()].map((requests) => ({ ...requests })),
      durations: { get: get.counts, put: put.counts, delete: removal.counts, list: list.counts, purge: purge.counts },
      bytesPut: this.#bytesPut,
      bytesGot: this.#bytesGot,
    };
  }

  get(key: string): Promise<StoredObject | undefined>;
  get(key: string, heldVersion: ObjectVersion | undefined): Promise<StoredObject | "same" | undefined>;
  async get(key: string, heldVersion?: ObjectVersion): Promise<StoredObject | "same" | undefined> {
    const found = await this.#measured(
      "get",
      key,
      () => this.#store.get(key, heldVersion),
      (object) => (object === undefined ? "absent" : object === "same" ? "same" : "ok"),
    );
    if (found !== undefined && found !== "same") this.#bytesGot += found.bytes.length;
    return found;
  }

  async put(key: string, bytes: Uint8Array, condition: PutCondition): Promise<PutOutcome> {
    const outcome = await this.#measured(
      "put",
      key,
      () => this.#store.put(key, bytes, condition),
      ({ kind }) => (kind === "stored" ? "ok" : kind),
    );
    if (outcome.kind === "stored") this.#bytesPut += bytes.length;
    return outcome;
  }

  delete(key: string): Promise<void> {
    return this.#measured("delete", key, () => this.#store.delete(key));
  }

  list(prefix: string, options: { readonly after?: string | undefined; readonly limit: number }): Promise<ListPage> {
    return this.#measured("list", prefix, () => this.#store.list(prefix, options));
  }

  purgeVersions(prefix: string): Promise<VersionPurge> {
    return this.#measured("purge", prefix, () => this.#store.purgeVersions(prefix));
  }

  async #measured<Value>(
    operation: StoreOperation,
    key: string,
    act: () => Promise<Value>,
    describeOutcome: (value: Value) => string = () => "ok",
  ): Promise<Value> {
    const startedMs = this.#world.monotonicMs();
    let outcome = "fault";
    try {
      const value = await act();
      outcome = describeOutcome(value);
      return value;
    } catch (error) {
      if (error instanceof StoreError) outcome = error.kind;
      throw error;
    } finally {
      this.#durations[operation].note(this.#world.monotonicMs() - startedMs);
      this.#count(operation, parseObjectKind(key), outcome);
    }
  }

  #count(operation: StoreOperation, object: ObjectKind, outcome: string): void {
    const key = `${operation} ${object} ${outcome}`;
    const known = this.#counts.get(key);
    if (known) known.count++;
    else this.#counts.set(key, { operation, object, outcome, count: 1 });
  }
}
