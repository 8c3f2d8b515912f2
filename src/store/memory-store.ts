/** An object store in memory, for tests and for `mem://`. Everything is lost with the process. */
import type { ListPage, ObjectStore, ObjectVersion, PutCondition, PutOutcome, StoredObject } from "./object-store.ts";

export class MemoryStore implements ObjectStore {
  #objects = new Map<string, StoredObject>();
  #puts = 0;

  async get(key: string): Promise<StoredObject | undefined> {
    const found = this.#objects.get(key);
    return found && { bytes: found.bytes.slice(), version: found.version };
  }

  async put(key: string, bytes: Uint8Array, condition: PutCondition): Promise<PutOutcome> {
    const current = this.#objects.get(key);
    const holds = condition.kind === "absent" ? current === undefined : current?.version === condition.version;
    if (!holds) return { kind: "conflict" };
    const version: ObjectVersion = String(++this.#puts);
    this.#objects.set(key, { bytes: bytes.slice(), version });
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
      objects: page.map((key) => ({ key, bytes: this.#objects.get(key)!.bytes.length })),
      next: keys.length > page.length ? page.at(-1) : undefined,
    };
  }
}
