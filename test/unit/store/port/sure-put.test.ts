/** A conditional put whose outcome is known in the end, whatever becomes of its answers. */
import { describe, expect, test } from "vitest";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { putImmutable, putUntilKnown, surePut } from "../../../../src/store/port/sure-put.ts";
import type { ObjectStore, StoredObject } from "../../../../src/store/port/object-store.ts";
import { ScriptedStore, type Fate } from "../../../support/scripted-store.ts";

const key = "db/x/head/main";
const a = Buffer.from("a");
const b = Buffer.from("b");
const absent = { kind: "absent" } as const;

/** A store whose first puts have these fates. */
function storeOf(...fates: Fate[]): ScriptedStore {
  const store = new ScriptedStore();
  store.fateOf = (verb) => (verb === "put" ? (fates.shift() ?? "fine") : "fine");
  return store;
}

const kindOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "done",
    (error: unknown) => (error instanceof StoreError ? error.kind : error),
  );

describe("a settled put", () => {
  test("lands, or is lost to what stands there", async () => {
    const store = storeOf();
    const first = await putUntilKnown(store, key, a, absent);
    expect(first).toEqual({ kind: "landed", version: store.read(key)!.version });
    expect(await putUntilKnown(store, key, b, absent)).toMatchObject({ kind: "lost", current: { bytes: a } });
    expect(await putUntilKnown(store, key, b, { kind: "version", version: "none" })).toMatchObject({ kind: "lost" });
  });

  test("F30: whose answer was lost has landed when its own bytes stand there", async () => {
    expect(await putUntilKnown(storeOf("answerLost"), key, a, absent)).toMatchObject({ kind: "landed" });
  });

  test(
    "F30: that was not applied stays in doubt while its condition holds, and lands when it is offered " + "again",
    async () => {
      const store = storeOf("requestLost");
      expect(await kindOf(putUntilKnown(store, key, a, absent))).toBe("unknown_outcome");
      expect(await putUntilKnown(store, key, a, absent)).toMatchObject({ kind: "landed" });
    },
  );

  test("F30: that was not applied is lost once somebody else's object stands there", async () => {
    const store = storeOf("requestLost");
    await store.calm.put(key, b, absent);
    expect(await putUntilKnown(store, key, a, absent)).toMatchObject({ kind: "lost", current: { bytes: b } });
  });

  test("F31: that is applied late meets its own retry: only one of them changes the object", async () => {
    const late = Promise.withResolvers<void>();
    const store = storeOf({ late: late.promise });
    let changes = 0;
    store.watch = () => changes++;
    expect(await kindOf(putUntilKnown(store, key, a, absent))).toBe("unknown_outcome");
    expect(await putUntilKnown(store, key, a, absent)).toMatchObject({ kind: "landed" });
    late.resolve();
    await late.promise;
    await Promise.resolve();
    expect(changes).toBe(1);
    expect(Buffer.compare(store.read(key)!.bytes, a)).toBe(0);
  });

  test("F31: that was applied before its retry is recognised in the conflict", async () => {
    const late = Promise.withResolvers<void>();
    const store = storeOf({ late: late.promise });
    expect(await kindOf(putUntilKnown(store, key, a, absent))).toBe("unknown_outcome");
    late.resolve();
    await new Promise((resolve) => setImmediate(resolve));
    expect(await putUntilKnown(store, key, a, absent)).toMatchObject({ kind: "landed" });
  });

  test("F32: a refusal is the store's own error, not a lost race", async () => {
    expect(await kindOf(putUntilKnown(storeOf("refused"), key, a, absent))).toBe("unavailable");
  });

  test("F30: whose doubt cannot be settled, as nothing can be read, stays in doubt", async () => {
    const store = storeOf("answerLost");
    store.fateOf = (verb) => (verb === "put" ? "answerLost" : "refused");
    expect(await kindOf(putUntilKnown(store, key, a, absent))).toBe("unknown_outcome");
  });

  test("F31: whose conflict may be with itself, and cannot be looked at, is in doubt", async () => {
    const store = storeOf("fine");
    await putUntilKnown(store, key, a, absent);
    store.fateOf = (verb) => (verb === "put" ? "fine" : "refused");
    expect(await kindOf(putUntilKnown(store, key, a, absent))).toBe("unknown_outcome");
  });

  test("F30: that may have landed is in doubt, although the tries after it surely did nothing", async () => {
    const late = Promise.withResolvers<void>();
    const store = storeOf("fine");
    let puts = 0;
    store.fateOf = (verb) => (verb === "put" ? (puts++ === 0 ? { late: late.promise } : "refused") : "fine");
    expect(await kindOf(surePut(store, key, a, absent))).toBe("unknown_outcome");
    late.resolve();
    await new Promise((resolve) => setImmediate(resolve));
    expect(Buffer.compare(store.read(key)!.bytes, a)).toBe(0);
  });
});

describe("an immutable object", () => {
  test("F29: stands there once, however often it was put and whichever answers were lost", async () => {
    for (const fate of ["fine", "answerLost", "requestLost", "refused"] as const) {
      const store = storeOf(fate);
      let changes = 0;
      store.watch = () => changes++;
      if ((await kindOf(putImmutable(store, key, a))) !== "done") await putImmutable(store, key, a);
      await putImmutable(store, key, a);
      expect(changes, fate).toBe(1);
    }
  });

  test("that holds other bytes is corrupt", async () => {
    const store = storeOf();
    await putImmutable(store, key, a);
    expect(await kindOf(putImmutable(store, key, b))).toBe("corrupt");
  });

  test("a conflict with nothing behind it is no success", async () => {
    const store: ObjectStore = {
      get: async (): Promise<StoredObject | undefined> => undefined,
      put: async () => ({ kind: "conflict" }),
      delete: async () => {},
      list: async () => ({ objects: [], next: undefined }),
      purgeVersions: async () => ({ versioned: false, removed: 0, uploadsAborted: 0, locked: 0 }),
    };
    expect(await kindOf(putImmutable(store, key, a))).not.toBe("done");
  });
});
