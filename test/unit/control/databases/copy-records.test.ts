/** Which nodes have copies of a database, what they say of them, and who is told to purge one. */
import { describe, expect, test } from "vitest";
import { StoreError, type StoreErrorKind } from "../../../../src/base/faults/errors.ts";
import { CopyRecords } from "../../../../src/control/databases/copy-records.ts";
import type { CopyPlace } from "../../../../src/format/keys/node-keys.ts";
import { copyKey } from "../../../../src/format/keys/node-keys.ts";
import { erasureMarkerKey } from "../../../../src/format/keys/object-keys.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";
import { setWorld } from "../../../support/set-world.ts";
import { copyRecordBytesMax } from "../../../../src/format/records/copy-record.ts";

const uuid = "00000000-0000-4000-8000-000000000001";
const other = "00000000-0000-4000-8000-000000000002";
const a = { node: "node_a", name: "alpha" };
const b = { node: "node_b", name: "beta" };

function kept(): { store: ScriptedStore; records: CopyRecords; clock: { now: number } } {
  const clock = setWorld(1_700_000_000_000);
  const store = new ScriptedStore(() => clock.now);
  return { store, records: new CopyRecords(store, clock.world), clock };
}

async function listOrders(records: CopyRecords, node: string): Promise<CopyPlace[]> {
  const found: CopyPlace[] = [];
  for await (const place of records.orders(node)) found.push(place);
  return found;
}

describe("copies", () => {
  test("are listed by database, each with its node's word once purged; a node speaks only of its own", async () => {
    const { records, clock } = kept();
    const [ofA, ofB] = [await records.register(uuid, a), await records.register(uuid, b)];
    await records.register(other, a);
    expect((await records.list(uuid)).map(({ copy, node, name, purged }) => ({ copy, node, name, purged }))).toEqual([
      { copy: ofA, ...a, purged: undefined },
      { copy: ofB, ...b, purged: undefined },
    ]);
    await records.purged(uuid, b.node, 4, undefined);
    expect(await records.list(uuid)).toEqual([
      expect.objectContaining({ copy: ofA, purged: undefined }),
      expect.objectContaining({ copy: ofB, purged: { atMs: clock.now, filesRemoved: 4 } }),
    ]);
    expect((await records.list(other)).map(({ purged }) => purged)).toEqual([undefined]);
  });

  test("a node that has made another copy meanwhile keeps that one, and what it has said stays as it was", async () => {
    const { records } = kept();
    const first = await records.register(uuid, a);
    await records.purged(uuid, a.node, 1, undefined);
    const second = await records.register(uuid, a);
    const third = await records.register(uuid, a);
    await records.purged(uuid, a.node, 9, third);
    expect((await records.list(uuid)).map(({ copy, purged }) => [copy, purged?.filesRemoved])).toEqual([
      [first, 1],
      [second, 9],
      [third, undefined],
    ]);
  });

  test("words on purged copies stay while an erasure is unfinished; of standing ones nothing goes", async () => {
    const { store, records } = kept();
    await records.register(uuid, a);
    await records.purged(uuid, a.node, 1, undefined);
    const standing = await records.register(uuid, b);
    const marker = erasureMarkerKey(uuid, "ers_01HF7YAT000000000000000001");
    await store.put(marker, Uint8Array.of(1), { kind: "absent" });
    await records.clear(uuid);
    expect(await records.list(uuid)).toHaveLength(2);
    expect(await records.end(uuid)).toBe("an erasure that is not completed");
    await store.delete(marker);
    await records.clear(uuid);
    expect((await records.list(uuid)).map(({ copy }) => copy)).toEqual([standing]);
    expect(await records.end(uuid)).toMatch(`a copy on node ${b.name} (${b.node})`);
    await records.purged(uuid, b.node, 1, undefined);
    expect(await records.end(uuid)).toBeUndefined();
    expect(store.keys("copies/")).toEqual([]);
  });

  test("an order is given once, to one node, until it is carried out", async () => {
    const { records } = kept();
    const copy = await records.register(uuid, a);
    for (let times = 0; times < 2; times++) await records.order({ uuid, node: a.node, copy });
    expect(await listOrders(records, a.node)).toEqual([{ uuid, node: a.node, copy }]);
    expect(await listOrders(records, b.node)).toEqual([]);
    await records.fulfilled({ uuid, node: a.node, copy });
    expect(await listOrders(records, a.node)).toEqual([]);
  });

  test("F89: a forgotten node has no standing copy and no order; its words and others' copies stay", async () => {
    const { records, clock } = kept();
    const said = await records.register(other, a);
    await records.purged(other, a.node, 2, undefined);
    const lost = await records.register(uuid, a);
    const ofB = await records.register(uuid, b);
    await records.order({ uuid, node: a.node, copy: lost });
    expect(await records.isForgotten(a.node)).toBe(false);
    expect(await records.forget(a.node)).toBe(1);
    expect(await records.forget(a.node)).toBe(0);
    expect(await records.isForgotten(a.node)).toBe(true);
    expect(await listOrders(records, a.node)).toEqual([]);
    expect((await records.list(uuid)).map(({ copy, forgottenAtMs }) => [copy, forgottenAtMs])).toEqual([
      [lost, clock.now],
      [ofB, undefined],
    ]);
    expect(
      (await records.list(other)).map(({ copy, purged, forgottenAtMs }) => [copy, purged?.filesRemoved, forgottenAtMs]),
    ).toEqual([[said, 2, undefined]]);
  });

  test("a record that cannot be read is a fault, never no copy", async () => {
    const { store, records } = kept();
    const copy = await records.register(uuid, a);
    store.spoil(copyKey({ uuid, node: a.node, copy }), (bytes) => bytes.slice(0, -2));
    await expect(records.list(uuid)).rejects.toThrow(StoreError);
    const { store: another, records: others } = kept();
    const moved = await others.register(uuid, a);
    const { bytes } = another.read(copyKey({ uuid, node: a.node, copy: moved }))!;
    await another.put(copyKey({ uuid: other, node: a.node, copy: moved }), bytes, { kind: "absent" });
    await expect(others.list(other)).rejects.toMatchObject({ kind: "corrupt" });
  });

  test.each<[string, StoreErrorKind, (bytes: Uint8Array) => Uint8Array]>([
    [
      "of a later version",
      "misconfigured",
      (bytes) => Buffer.from(Buffer.from(bytes).toString().replace('"v":1', '"v":2')),
    ],
    [
      "that is longer than one can be",
      "corrupt",
      (bytes) => Buffer.concat([bytes, Buffer.alloc(copyRecordBytesMax, " ")]),
    ],
  ])("a record %s is a fault too", async (_what, kind, change) => {
    const { store, records } = kept();
    const copy = await records.register(uuid, a);
    store.spoil(copyKey({ uuid, node: a.node, copy }), change);
    await expect(records.list(uuid)).rejects.toMatchObject({ kind });
  });
});
