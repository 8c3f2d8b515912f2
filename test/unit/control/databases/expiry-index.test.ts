/** What is due, in the order of its hours. */
import { expect, test } from "vitest";
import { readDueName, listDue, putDue, removeDue } from "../../../../src/control/databases/expiry-index.ts";
import { dueKey, parseDueKey } from "../../../../src/format/keys/expiry-keys.ts";
import { MemoryStore } from "../../../../src/store/memory-store.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";

const uuid = "00000000-0000-4000-8000-000000000001";
const branchId = "main";
const hourMs = 3_600_000;
const startMs = Date.UTC(2031, 11, 31, 23);

test("an entry is due at the end of the hour in which something expires, also over the end of a year", () => {
  expect(dueKey({ uuid, branchId, atMs: startMs })).toBe(`due/2031123123/${uuid}/main`);
  for (const atMs of [startMs + 1, startMs + hourMs - 1, startMs + hourMs]) {
    expect(dueKey({ uuid, branchId, atMs })).toBe(`due/2032010100/${uuid}/main`);
    expect(parseDueKey(dueKey({ uuid, branchId, atMs }))).toEqual({ uuid, branchId, atMs: startMs + hourMs });
  }
  for (const key of [
    "due/2032/x/main",
    `due/2032139900/${uuid}/main`,
    `due/2032010100/${uuid}/..`,
    `other/2032010100/${uuid}/main`,
  ])
    expect(parseDueKey(key)).toBeUndefined();
});

test("lists what is due and nothing that is not, page by page, oldest first; the first name stays", async () => {
  const store = new MemoryStore();
  for (let hour = 3; hour >= 0; hour--)
    await putDue(store, { uuid, branchId, atMs: startMs + hour * hourMs }, "acme--alice");
  await putDue(store, { uuid, branchId, atMs: startMs }, "other");
  await store.put("due/junk", Uint8Array.of(1), { kind: "absent" });
  const { entries, next } = await listDue(store, startMs + hourMs, undefined);
  expect(entries.map(({ atMs }) => atMs)).toEqual([startMs, startMs + hourMs]);
  expect(next).toBeUndefined();
  expect(await readDueName(store, entries[0]!)).toBe("acme--alice");
  await removeDue(store, entries[0]!);
  expect((await listDue(store, startMs + hourMs, undefined)).entries).toHaveLength(1);
  expect((await listDue(store, startMs - 1, undefined)).entries).toEqual([]);
  expect((await listDue(store, startMs + 9 * hourMs, undefined)).entries).toHaveLength(3);
});

test("a name that is none, or was not known, is no name", async () => {
  const store = new MemoryStore();
  await putDue(store, { uuid, branchId, atMs: startMs }, undefined);
  expect(await readDueName(store, { uuid, branchId, atMs: startMs })).toBeUndefined();
  await store.put(dueKey({ uuid, branchId, atMs: startMs + hourMs }), Buffer.from("../x"), { kind: "absent" });
  expect(await readDueName(store, { uuid, branchId, atMs: startMs + hourMs })).toBeUndefined();
});

test("an entry whose answer was lost is there", async () => {
  const store = new ScriptedStore(() => startMs);
  let lost = 0;
  store.decideFate = () => (lost++ === 0 ? "answerLost" : "fine");
  await putDue(store, { uuid, branchId, atMs: startMs }, "acme--alice");
  expect(store.keys("due/")).toHaveLength(1);
});
