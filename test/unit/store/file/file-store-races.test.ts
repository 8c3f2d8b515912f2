/**
 * Several processes on one file store, their steps in every order that chance gives, with some that sleep between two
 * of them: whatever they are told could have been told by one store that does one thing after another.
 */
import { describe, expect, test } from "vitest";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { FileStore } from "../../../../src/store/file/file-store.ts";
import type { FileSystem } from "../../../../src/store/file/file-system.ts";
import type { PutCondition } from "../../../../src/store/port/object-store.ts";
import { FaultyFiles, inTurns } from "../../../support/faulty-files.ts";
import { seeded } from "../../../support/random.ts";
import { isLinearizable, type KeyCall } from "../../../support/register-history.ts";
import { storyRoot, storyWorld } from "../../../support/store-story.ts";

const key = "db/u/k";

/** Gives one client after another its turn, as chance has it; now and then one of them sleeps for long. */
class KeyedMutex {
  readonly #random: () => number;
  /** A client may wait for several steps at once. */
  readonly #waiting: { readonly client: string; readonly resolve: () => void }[] = [];
  readonly #deaths = new Map<string, () => void>();
  #asleep: string | undefined;
  #left = 0;

  constructor(random: () => number) {
    this.#random = random;
  }

  of(client: string): () => Promise<void> {
    return () => new Promise((resolve) => void this.#waiting.push({ client, resolve }));
  }

  /** Resolves when the client is killed: it never has a turn again. */
  awaitDeath(client: string): Promise<void> {
    return new Promise((resolve) => void this.#deaths.set(client, resolve));
  }

  /** Kills one of the clients that wait, between two of its steps. */
  kill(): void {
    const client = this.#waiting[Math.floor(this.#random() * this.#waiting.length)]?.client;
    if (client === undefined) return;
    for (let index = this.#waiting.length - 1; index >= 0; index--)
      if (this.#waiting[index]!.client === client) this.#waiting.splice(index, 1);
    this.#deaths.get(client)!();
  }

  async run(clients: Promise<unknown>, mortality: number): Promise<void> {
    let isOver = false;
    void clients.then(
      () => (isOver = true),
      () => (isOver = true),
    );
    while (!isOver) {
      await new Promise((resolve) => setImmediate(resolve));
      if (this.#left-- <= 0) {
        this.#asleep =
          this.#random() < 0.5 ? this.#waiting[Math.floor(this.#random() * this.#waiting.length)]?.client : undefined;
        this.#left = Math.floor(this.#random() ** 2 * 400);
      }
      const awake = this.#waiting.filter(({ client }) => client !== this.#asleep);
      if (awake.length === 0) {
        this.#left = 0;
        continue;
      }
      if (this.#random() < mortality) {
        this.kill();
        continue;
      }
      const next = awake[Math.floor(this.#random() * awake.length)]!;
      this.#waiting.splice(this.#waiting.indexOf(next), 1);
      next.resolve();
    }
    await clients;
  }
}

interface Race {
  readonly calls: readonly KeyCall[];
  readonly files: FaultyFiles;
}

/** Lets clients do so many things each; `weights` says how likely each thing is. */
async function race(
  seed: number,
  clients: number,
  acts: number,
  weights: { readonly put: number; readonly delete: number; readonly purge: number; readonly mortality?: number },
): Promise<Race> {
  const random = seeded(seed);
  let changes = 0;
  const nowMs = (): number => 1_800_000_000_000 + Math.floor(changes++ / 3);
  const files = new FaultyFiles({ nowMs });
  const turns = new KeyedMutex(random);
  const calls: KeyCall[] = [];
  /** What each client is at that may have an effect. */
  const underWay = new Map<string, KeyCall>();
  const valueByClient = new Map<string, string>();
  let clock = 0;
  let values = 0;
  const learn = (version: string, value: string): void => {
    expect(valueByClient.get(version) ?? value, "a version is of one value").toBe(value);
    valueByClient.set(version, value);
  };
  const client = async (index: number): Promise<void> => {
    const name = `c${index}`;
    const store = await FileStore.open(storyRoot, storyWorld(seed * 10 + index, nowMs), inTurns(files, turns.of(name)));
    let held: string | undefined;
    const begin = (start: number, act: KeyCall["act"]): void =>
      void underWay.set(name, { client: name, start, end: Infinity, act });
    const note = (start: number, act: KeyCall["act"], isOpen = false): void => {
      underWay.delete(name);
      calls.push({ client: name, start, end: isOpen ? Infinity : ++clock, act });
    };
    const look = async (): Promise<void> => {
      const start = ++clock;
      const found = await store.get(key);
      if (found) learn(found.version, found.bytes.toString());
      held = found?.version;
      note(start, { kind: "get", found: found?.bytes.toString() });
    };
    const put = async (): Promise<void> => {
      const [value, over, start] = [`v${++values}`, held === undefined ? undefined : valueByClient.get(held), ++clock];
      const condition: PutCondition = held === undefined ? { kind: "absent" } : { kind: "version", version: held };
      begin(start, { kind: "put", value, over, outcome: "unknown" });
      try {
        const outcome = await store.put(key, Buffer.from(value), condition);
        if (outcome.kind === "stored") learn(outcome.version, value);
        if (outcome.kind === "stored") held = outcome.version;
        note(start, { kind: "put", value, over, outcome: outcome.kind });
        if (outcome.kind === "conflict") await look();
      } catch (error) {
        underWay.delete(name);
        if (describeKind(error) === "unknown_outcome")
          note(start, { kind: "put", value, over, outcome: "unknown" }, true);
        await look();
      }
    };
    for (let act = 0; act < acts; act++) {
      const draw = random();
      if (draw < weights.put) await put();
      else if (draw < weights.put + weights.delete) {
        const start = ++clock;
        begin(start, { kind: "delete", outcome: "unknown" });
        await store.delete(key).then(
          () => note(start, { kind: "delete", outcome: "done" }),
          (error: unknown) => (describeKind(error), note(start, { kind: "delete", outcome: "unknown" }, true)),
        );
      } else if (draw < weights.put + weights.delete + weights.purge) await store.purgeVersions("");
      else if (draw > 0.95) await store.list("", { limit: 10 });
      else await look();
    }
  };
  const lives = Array.from({ length: clients }, (_, index) =>
    Promise.race([client(index), turns.awaitDeath(`c${index}`)]),
  );
  await turns.run(Promise.all(lives), weights.mortality ?? 0);
  calls.push(...underWay.values());
  const store = await FileStore.open(storyRoot, storyWorld(seed), files);
  const start = ++clock;
  calls.push({
    client: "last",
    start,
    end: ++clock,
    act: { kind: "get", found: (await store.get(key))?.bytes.toString() },
  });
  await store.delete(key);
  // What the dead have left.
  if (weights.mortality) await store.purgeVersions("");
  return { calls: calls.toSorted((a, b) => a.start - b.start), files };
}

function describeKind(error: unknown): string {
  if (!(error instanceof StoreError)) throw error;
  expect(["unknown_outcome", "unavailable"]).toContain(error.kind);
  return error.kind;
}

describe("processes that race for one key", { timeout: 60_000 }, () => {
  test.each([
    ["put, delete and purge", 3, 7, { put: 0.5, delete: 0.25, purge: 0.05 }, 1_500],
    ["put so often that old versions go", 3, 40, { put: 0.9, delete: 0.01, purge: 0 }, 60],
    ["put and purge", 3, 12, { put: 0.6, delete: 0.05, purge: 0.25 }, 300],
    ["delete what others put anew", 4, 8, { put: 0.5, delete: 0.3, purge: 0.1 }, 400],
    ["die at any step", 5, 8, { put: 0.5, delete: 0.25, purge: 0.1, mortality: 0.004 }, 600],
  ])(
    "%s: all that they are told can be explained, and nothing is left at the end",
    async (_, clients, acts, weights, seeds) => {
      const found: number[] = [];
      let stored = 0;
      for (let seed = 1; seed <= seeds; seed++) {
        const { calls, files } = await race(seed, clients, acts, weights);
        stored += calls.filter(({ act }) => act.kind === "put" && act.outcome === "stored").length;
        if (!isLinearizable(calls)) found.push(seed);
        expect(files.paths().files, `seed ${seed}`).toEqual([]);
      }
      expect(found).toEqual([]);
      expect(stored).toBeGreaterThan(seeds);
    },
  );
});

test("a put that sleeps where it found a deleted object does not take the place of a later one", async () => {
  const files = new FaultyFiles({ nowMs: () => 1_800_000_000_000 });
  const absent = { kind: "absent" } as const;
  const open = (seed: number, over: Partial<FileSystem> = {}, nowMs?: number): Promise<FileStore> =>
    FileStore.open(storyRoot, storyWorld(seed, nowMs === undefined ? undefined : () => nowMs), {
      ...bound(files),
      ...over,
    });
  await (await open(1)).put(key, Buffer.from("first"), absent);
  const [removing, removed, linking, linked] = [gate(), gate(), gate(), gate()];
  // Dies when it has removed the tombstone.
  let isDying = false;
  const deleter = await open(2, {
    unlink: async (path) => {
      if (path.includes("k~")) {
        removing.open();
        await removed.passed;
        isDying = true;
      }
      return files.unlink(path);
    },
    readdir: (path) =>
      isDying && path.endsWith(".tmp")
        ? Promise.reject(Object.assign(new Error("killed"), { code: "EIO" }))
        : files.readdir(path),
  });
  const deleting = deleter.delete(key).catch((error: unknown) => expect(error).toMatchObject({ kind: "unavailable" }));
  await removing.passed;
  const sleeper = await open(3, {
    link: async (file, name) => {
      linking.open();
      await linked.passed;
      return files.link(file, name);
    },
  });
  const slept = sleeper.put(key, Buffer.from("slept"), absent);
  await linking.passed;
  removed.open();
  await deleting;
  // Its clock is behind, so that its number is a lower one.
  const next = await open(4, {}, 1_000_000_000_000);
  expect(await next.put(key, Buffer.from("next"), absent)).toMatchObject({ kind: "stored" });
  linked.open();
  expect(await slept).toEqual({ kind: "conflict" });
  expect((await next.get(key))!.bytes.toString()).toBe("next");
});

test("a put that others supersede and purge before it has looked for itself is in doubt, and stood there", async () => {
  const files = new FaultyFiles({ nowMs: () => 1_800_000_000_000 });
  const open = (seed: number, over: Partial<FileSystem> = {}): Promise<FileStore> =>
    FileStore.open(storyRoot, storyWorld(seed), { ...bound(files), ...over });
  const others = await open(1);
  const first = await others.put(key, Buffer.from("first"), { kind: "absent" });
  const [looking, looked] = [gate(), gate()];
  let hasLinked = false;
  const slow = await open(2, {
    link: async (file, name) => {
      await files.link(file, name);
      hasLinked = true;
    },
    readdir: async (path) => {
      if (hasLinked && path.includes("k~")) {
        looking.open();
        await looked.passed;
      }
      return files.readdir(path);
    },
  });
  const putting = slow
    .put(key, Buffer.from("slow"), { kind: "version", version: first.kind === "stored" ? first.version : "" })
    .catch(describeKind);
  await looking.passed;
  const stood = (await others.get(key))!;
  expect(stood.bytes.toString()).toBe("slow");
  expect(await others.put(key, Buffer.from("next"), { kind: "version", version: stood.version })).toMatchObject({
    kind: "stored",
  });
  expect((await others.purgeVersions("")).removed).toBe(2);
  looked.open();
  expect(await putting).toBe("unknown_outcome");
  expect((await others.get(key))!.bytes.toString()).toBe("next");
});

function gate(): { readonly passed: Promise<void>; readonly open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { passed: promise, open: resolve };
}

/** The same file system, whose steps may be replaced one by one. */
function bound(files: FaultyFiles): FileSystem {
  return inTurns(files, async () => {});
}

describe("the search for an explanation", () => {
  const call = (start: number, end: number, act: KeyCall["act"]): KeyCall => ({ client: "c", start, end, act });
  const put = (
    value: string,
    over: string | undefined,
    outcome: "stored" | "conflict" | "unknown" = "stored",
  ): KeyCall["act"] => ({ kind: "put", value, over, outcome });

  test("finds none for two winners, a write that came back, and one that was lost", () => {
    expect(isLinearizable([call(1, 4, put("a", undefined)), call(2, 3, put("b", undefined))])).toBe(false);
    expect(
      isLinearizable([
        call(1, 2, put("a", undefined)),
        call(3, 4, { kind: "delete", outcome: "done" }),
        call(5, 6, { kind: "get", found: "a" }),
      ]),
    ).toBe(false);
    expect(isLinearizable([call(1, 2, put("a", undefined)), call(3, 4, { kind: "get", found: undefined })])).toBe(
      false,
    );
  });

  test("finds one where calls overlap or their outcome is unknown", () => {
    expect(isLinearizable([call(1, 4, put("a", undefined)), call(2, 3, { kind: "get", found: undefined })])).toBe(true);
    expect(
      isLinearizable([
        call(1, Infinity, put("a", undefined, "unknown")),
        call(2, 3, { kind: "get", found: undefined }),
        call(4, 5, { kind: "get", found: "a" }),
      ]),
    ).toBe(true);
    expect(
      isLinearizable([
        call(1, Infinity, put("a", undefined, "unknown")),
        call(2, 3, { kind: "get", found: undefined }),
      ]),
    ).toBe(true);
  });
});
