/**
 * A story of puts, replacements, deletes, listings and purges, told to a file store on a file system that fails; and
 * what must hold of each key after whatever it was answered.
 *
 * Of each key it keeps what may stand there: one thing after an answer, more after an unknown outcome. Every answer is
 * held against it, and so is what is found when the store is opened again.
 */
import { expect } from "vitest";
import { StoreError } from "../../src/base/faults/errors.ts";
import { realWorld, type World } from "../../src/base/world.ts";
import { FileStore } from "../../src/store/file/file-store.ts";
import type { PutCondition, StoredObject } from "../../src/store/port/object-store.ts";
import type { FaultyFiles } from "./faulty-files.ts";
import { seeded } from "./random.ts";

export const storyRoot = "/data/objects";
const [head, segment, other] = ["db/u/head/main", "db/u/seg/1", "names/d.json"];
const storyKeys = [head, segment, other];
const nothing = "nothing";

/** A world whose chance is a seed's and whose wall clock stands, but for what the test says. */
export function storyWorld(seed = 1, nowMs: () => number = () => 1_800_000_000_000): World {
  const random = seeded(seed);
  let ids = 0;
  return {
    ...realWorld(),
    nowMs,
    randomBytes: (count) => Uint8Array.from({ length: count }, () => Math.floor(random() * 256)),
    ulid: () => `${seed}-${String(++ids).padStart(8, "0")}`,
  };
}

/** Longer than a block of the disk, and whole only when all of it is there. */
function buildBody(name: string): Buffer {
  return Buffer.from(`${name.padEnd(20)}:`.repeat(60));
}

function parseName(bytes: Uint8Array | undefined): string {
  if (bytes === undefined) return nothing;
  const text = Buffer.from(bytes).toString();
  const name = text.slice(0, 20).trim();
  return text === buildBody(name).toString() ? name : `a part of ${name}`;
}

export class StoreStory {
  readonly #possible = new Map<string, Set<string>>(storyKeys.map((key) => [key, new Set([nothing])]));
  readonly #world: World;
  #store: FileStore | undefined;
  #names = 0;

  constructor(world: World = storyWorld()) {
    this.#world = world;
  }

  /** Tells the story. Faults of the disk are part of it; only a broken promise is thrown. */
  async tell(files: FaultyFiles): Promise<void> {
    await this.#meets(async () => void (this.#store = await FileStore.open(storyRoot, this.#world, files)));
    if (!this.#store) return;
    await this.#create(segment);
    await this.#create(head);
    // As many as it takes for the oldest to be removed.
    for (let round = 0; round < 18; round++) await this.#replace(head);
    await this.#create(other);
    await this.#delete(segment);
    await this.#create(segment);
    await this.#meets(() => this.#store!.purgeVersions("db/u/head/"));
    await this.#replace(head);
    await this.#delete(other);
    await this.#listed();
    await this.#create(other);
    await this.#replace(other);
  }

  /** The same point of the story, for a look of its own: each look narrows what is possible. */
  copy(): StoreStory {
    const copy = new StoreStory(this.#world);
    for (const [key, names] of this.#possible) copy.#possible.set(key, new Set(names));
    copy.#names = this.#names;
    return copy;
  }

  /** Looks at everything, as whoever opens the store on what is left. */
  async judge(files: FaultyFiles): Promise<void> {
    this.#store = await FileStore.open(storyRoot, this.#world, files);
    for (const key of storyKeys) await this.#seen(key);
    await this.#listed();
  }

  /** Goes on with every key, and deletes all of them in the end; what is left then is looked at by the caller. */
  async end(): Promise<void> {
    for (const key of storyKeys) {
      const current = await this.#store!.get(key);
      const outcome = await this.#put(
        key,
        current ? { kind: "version", version: current.version } : { kind: "absent" },
      );
      expect(outcome, `a put of ${key} after all that`).toBe("stored");
      await this.#seen(key);
    }
    for (const key of storyKeys) await this.#store!.delete(key);
    await this.#store!.purgeVersions("");
  }

  async #create(key: string): Promise<void> {
    await this.#put(key, { kind: "absent" });
    await this.#seen(key);
  }

  async #replace(key: string): Promise<void> {
    let current: StoredObject | undefined;
    await this.#meets(async () => void (current = await this.#store!.get(key)));
    if (current) await this.#put(key, { kind: "version", version: current.version });
  }

  async #delete(key: string): Promise<void> {
    if (await this.#meets(() => this.#store!.delete(key))) this.#possible.set(key, new Set([nothing]));
    else this.#possible.get(key)!.add(nothing);
    await this.#seen(key);
  }

  async #put(key: string, condition: PutCondition): Promise<string> {
    const name = `${key.slice(-6)} ${++this.#names}`;
    try {
      const outcome = await this.#store!.put(key, buildBody(name), condition);
      if (outcome.kind === "stored") this.#possible.set(key, new Set([name]));
      return outcome.kind;
    } catch (error) {
      const { kind } = storeError(error);
      if (kind === "unknown_outcome") {
        this.#possible.get(key)!.add(name);
        // As whoever settles a doubt: what is read back counts.
        await this.#seen(key);
      } else expect(kind).toBe("unavailable");
      return kind;
    }
  }

  /** Reads the key: what is answered must be possible, and is what stands there from now on. */
  async #seen(key: string): Promise<void> {
    await this.#meets(async () => {
      const name = parseName((await this.#store!.get(key))?.bytes);
      expect([...this.#possible.get(key)!], `what may be read of ${key}`).toContain(name);
      this.#possible.set(key, new Set([name]));
    });
  }

  async #listed(): Promise<void> {
    await this.#meets(async () => {
      const { objects } = await this.#store!.list("", { limit: 100 });
      for (const key of storyKeys) {
        const possible = this.#possible.get(key)!;
        const found = objects.find((object) => object.key === key);
        if (possible.size === 1) expect(found !== undefined, `whether ${key} is listed`).toBe(!possible.has(nothing));
        if (found) expect(found.bytes).toBe(buildBody("").length);
      }
    });
  }

  /** Whether the act came to its end; only a fault of the disk may keep it from that. */
  async #meets(act: () => Promise<unknown>): Promise<boolean> {
    try {
      await act();
      return true;
    } catch (error) {
      expect(["unavailable", "unknown_outcome"]).toContain(storeError(error).kind);
      return false;
    }
  }
}

function storeError(error: unknown): StoreError {
  if (!(error instanceof StoreError)) throw error;
  return error;
}
