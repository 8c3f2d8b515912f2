/**
 * The proof, at start, that a store decides conditional puts atomically. Nothing else decides who may write a branch,
 * so that a store which ignores conditions, or checks them and then acts, would silently lose data.
 *
 * Always true: only a breach of the port's promises is "misconfigured"; a writer that had no answer counts as neither
 * winner nor loser, and that fault is the result when none won. Leaves nothing behind as long as deletes work; what
 * stays lies under `probe/`, in a key that is never used again.
 */
import { StoreError } from "../base/faults/errors.ts";
import type { World } from "../base/world.ts";
import type { ObjectStore, ObjectVersion, PutCondition, PutOutcome } from "./port/object-store.ts";

/** The folder of the proof's objects. */
export const probePrefix = "probe/";

const rounds = 4;
const writersPerRace = 32;

/**
 * Races writers for objects of their own and looks at every promise of the port; throws StoreError("misconfigured") at
 * the first breach.
 */
export async function proveStore(store: ObjectStore, world: World): Promise<void> {
  for (let round = 0; round < rounds; round++) await new Proof(store, `${probePrefix}${world.ulid()}`).run();
}

class Proof {
  readonly #store: ObjectStore;
  readonly #key: string;
  #bodies = 0;

  constructor(store: ObjectStore, key: string) {
    this.#store = store;
    this.#key = key;
  }

  async run(): Promise<void> {
    try {
      const created = await this.#race("create one object", { kind: "absent" });
      const replaced = await this.#race("replace one version of an object", { kind: "version", version: created });
      await this.#loses("a put that demands a version which was replaced", { kind: "version", version: created });
      await this.#loses("a put that demands that there is no object", { kind: "absent" });
      const { objects } = await this.#store.list(this.#key, { limit: 2 });
      if (objects.length !== 1 || objects[0]!.key !== this.#key)
        throw breach("an object that was just put is not in a listing");
      await this.#store.delete(this.#key);
      if ((await this.#store.get(this.#key)) !== undefined)
        throw breach("an object that was deleted can still be read");
      await this.#loses("a put that demands a version of a deleted object", { kind: "version", version: replaced });
    } catch (error) {
      // The first fault is the one to tell; an object that cannot be removed is garbage of a few bytes.
      await this.#store.delete(this.#key).catch(() => {});
      throw error;
    }
  }

  /** Lets many writers put under one condition and answers the version that is there then. */
  async #race(what: string, condition: PutCondition): Promise<ObjectVersion> {
    const bodies = Array.from({ length: writersPerRace }, () => this.#body());
    const results = await Promise.allSettled(bodies.map((body) => this.#store.put(this.#key, body, condition)));
    const doubts = results.filter((result) => result.status === "rejected").map(({ reason }) => passing(reason));
    const winners = results.flatMap((result, writer) =>
      result.status === "fulfilled" && result.value.kind === "stored" ? [writer] : [],
    );
    const told = `${writersPerRace} writers raced to ${what}`;
    if (winners.length > 1) throw breach(`${told} and ${winners.length} were told that they had`);
    if (winners.length === 0) throw doubts[0] ?? breach(`${told} and none could`);
    const current = await this.#store.get(this.#key);
    if (current === undefined) throw breach(`${told}, and nothing can be read afterwards`);
    const winner = winners[0]!;
    if (!Buffer.from(bodies[winner]!).equals(current.bytes))
      throw breach(`${told}, and what can be read is not what the winner put`);
    if ((results[winner] as PromiseFulfilledResult<PutOutcome & { kind: "stored" }>).value.version !== current.version)
      throw breach("a put and a read tell different versions of one object");
    return current.version;
  }

  async #loses(what: string, condition: PutCondition): Promise<void> {
    if ((await this.#store.put(this.#key, this.#body(), condition)).kind === "stored")
      throw breach(`${what} was carried out`);
  }

  /** Bytes unlike any other, as a version may be made of the bytes alone. */
  #body(): Uint8Array {
    return Buffer.from(`${this.#key}/${this.#bodies++}`);
  }
}

/** Faults that say nothing about the store's promises are kept for later; every other one ends the proof. */
function passing(fault: unknown): StoreError {
  if (fault instanceof StoreError && (fault.kind === "unavailable" || fault.kind === "unknown_outcome")) return fault;
  throw fault;
}

function breach(what: string): StoreError {
  return new StoreError(
    "misconfigured",
    `the object store cannot be used, as its conditional puts are not atomic: ${what}`,
  );
}
