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
function buildStore(...fates: Fate[]): ScriptedStore {
  const store = new ScriptedStore();
  store.decideFate = (verb) => (verb === "put" ? (fates.shift() ?? "fine") : "fine");
  return store;
}

const describeKind = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "done",
    (error: unknown) => (error instanceof StoreError ? error.kind : error),
  );

describe("a settled put", () => {
  test("lands, or is lost to what stands there", async () => {
    const store = buildStore();
    const first = await putUntilKnown(store, key, a, absent);
    expect(first).toEqual({ kind: "landed", version: store.read(key)!.version });
    expect(await putUntilKnown(store, key, b, absent)).toMatchObject({ kind: "lost", current: { bytes: a } });
    expect(await putUntilKnown(store, key, b, { kind: "version", version: "none" })).toMatchObject({ kind: "lost" });
  });

  test("F30: whose answer was lost has landed when its own bytes stand there", async () => {
    expect(await putUntilKnown(buildStore("answerLost"), key, a, absent)).toMatchObject({ kind: "landed" });
  });

  test("F30: that was not applied stays in doubt while its condition holds, and lands when tried again", async () => {
    const store = buildStore("requestLost");
    expect(await describeKind(putUntilKnown(store, key, a, absent))).toBe("unknown_outcome");
    expect(await putUntilKnown(store, key, a, absent)).toMatchObject({ kind: "landed" });
  });

  test("F30: that was not applied is lost once somebody else's object stands there", async () => {
    const store = buildStore("requestLost");
    await store.calm.put(key, b, absent);
    expect(await putUntilKnown(store, key, a, absent)).toMatchObject({ kind: "lost", current: { bytes: b } });
  });

  test("F31: that is applied late meets its own retry: only one of them changes the object", async () => {
    const late = Promise.withResolvers<void>();
    const store = buildStore({ late: late.promise });
    let changes = 0;
    store.watch = () => changes++;
    expect(await describeKind(putUntilKnown(store, key, a, absent))).toBe("unknown_outcome");
    expect(await putUntilKnown(store, key, a, absent)).toMatchObject({ kind: "landed" });
    late.resolve();
    await late.promise;
    await Promise.resolve();
    expect(changes).toBe(1);
    expect(Buffer.compare(store.read(key)!.bytes, a)).toBe(0);
  });

  test("F31: that was applied before its retry is recognised in the conflict", async () => {
    const late = Promise.withResolvers<void>();
    const store = buildStore({ late: late.promise });
    expect(await describeKind(putUntilKnown(store, key, a, absent))).toBe("unknown_outcome");
    late.resolve();
    await new Promise((resolve) => setImmediate(resolve));
    expect(await putUntilKnown(store, key, a, absent)).toMatchObject({ kind: "landed" });
  });

  test("F32: a refusal is the store's own error, not a lost race", async () => {
    expect(await describeKind(putUntilKnown(buildStore("refused"), key, a, absent))).toBe("unavailable");
  });

  test("F30: whose doubt cannot be settled, as nothing can be read, stays in doubt", async () => {
    const store = buildStore("answerLost");
    store.decideFate = (verb) => (verb === "put" ? "answerLost" : "refused");
    expect(await describeKind(putUntilKnown(store, key, a, absent))).toBe("unknown_outcome");
  });

  test("F31: whose conflict may be with itself, and cannot be looked at, is in doubt", async () => {
    const store = buildStore("fine");
    await putUntilKnown(store, key, a, absent);
    store.decideFate = (verb) => (verb === "put" ? "fine" : "refused");
    expect(await describeKind(putUntilKnown(store, key, a, absent))).toBe("unknown_outcome");
  });

  test("F30: that may have landed is in doubt, although the tries after it surely did nothing", async () => {
    const late = Promise.withResolvers<void>();
    const store = buildStore("fine");
    let puts = 0;
    store.decideFate = (verb) => (verb === "put" ? (puts++ === 0 ? { late: late.promise } : "refused") : "fine");
    expect(await describeKind(surePut(store, key, a, absent))).toBe("unknown_outcome");
    late.resolve();
    await new Promise((resolve) => setImmediate(resolve));
    expect(Buffer.compare(store.read(key)!.bytes, a)).toBe(0);
  });
});

describe("an immutable object", () => {
  test("F29: stands there once, however often it was put and whichever answers were lost", async () => {
    for (const fate of ["fine", "answerLost", "requestLost", "refused"] as const) {
      const store = buildStore(fate);
      let changes = 0;
      store.watch = () => changes++;
      if ((await describeKind(putImmutable(store, key, a))) !== "done") await putImmutable(store, key, a);
      await putImmutable(store, key, a);
      expect(changes, fate).toBe(1);
    }
  });

  test("that holds other bytes is corrupt", async () => {
    const store = buildStore();
    await putImmutable(store, key, a);
    expect(await describeKind(putImmutable(store, key, b))).toBe("corrupt");
  });

  test("a conflict with nothing behind it is no success", async () => {
    const store: ObjectStore = {
      get: async (): Promise<StoredObject | undefined> => undefined,
      put: async () => ({ kind: "conflict" }),
      delete: async () => {},
      list: async () => ({ objects: [], next: undefined }),
      purgeVersions: async () => ({ versioned: false, removed: 0, uploadsAborted: 0, locked: 0 }),
    };
    expect(await describeKind(putImmutable(store, key, a))).not.toBe("done");
  });
});
