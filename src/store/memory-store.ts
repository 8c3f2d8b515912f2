/** An object store in memory, for tests and for `mem://`. Everything is lost with the process. */
import { realWorld, type World } from "../base/world.ts";
import type {
  ListPage,
  ObjectStore,
  ObjectVersion,
  PutCondition,
  PutOutcome,
  StoredObject,
  VersionPurge,
} from "./port/object-store.ts";

interface HeldObject extends StoredObject {
  readonly modifiedAtMs: number;
}

export class MemoryStore implements ObjectStore {
  readonly #objects = new Map<string, HeldObject>();
  readonly #world: Pick<World, "nowMs">;
  #puts = 0;

  constructor(world: Pick<World, "nowMs"> = realWorld()) {
    this.#world = world;
  }

  get(key: string): Promise<StoredObject | undefined>;
  get(key: string, heldVersion: ObjectVersion | undefined): Promise<StoredObject | "same" | undefined>;
  async get(key: string, heldVersion?: ObjectVersion): Promise<StoredObject | "same" | undefined> {
    const found = this.#objects.get(key);
    if (found && found.version === heldVersion) return "same";
    return found && { bytes: found.bytes.slice(), version: found.version };
  }

  async put(key: string, bytes: Uint8Array, condition: PutCondition): Promise<PutOutcome> {
    const current = this.#objects.get(key);
    const holds = condition.kind === "absent" ? current === undefined : current?.version === condition.version;
    if (!holds) return { kind: "conflict" };
    const version: ObjectVersion = String(++this.#puts);
    // Not slice: that of a Buffer shares its memory.
    this.#objects.set(key, { bytes: new Uint8Array(bytes), version, modifiedAtMs: this.#world.nowMs() });
    return { kind: "stored", version };
  }

  async delete(key: string): Promise<void> {
    this.#objects.delete(key);
  }

  async list(prefix: string, options: { after?: string | undefined; limit: number }): Promise<ListPage> {
    const keys = [...this.#objects.keys()]
      .filter((key) => key.startsWith(prefix) && (options.after === undefined || key > options.after))
      .sort();
    const page = keys.slice(0, options.limit);
    return {
      objects: page.map((key) => {
        const { bytes, modifiedAtMs } = this.#objects.get(key)!;
        return { key, bytes: bytes.length, modifiedAtMs };
      }),
      next: keys.length > page.length ? page.at(-1) : undefined,
    };
  }

  async purgeVersions(): Promise<VersionPurge> {
    return { versioned: false, removed: 0, uploadsAborted: 0, locked: 0 };
  }
}
