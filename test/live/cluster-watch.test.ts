/**
 * The change feed of a cluster whose nodes are killed while clients write through all of them: readers at every node
 * are told every transaction once and in order, or that what they saw was lost.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Cluster, clusterNeed, eventually, hasCluster } from "../support/cluster.ts";
import { SteadyWriters } from "../support/steady-writers.ts";
import { SteadyReader, watches, Watching, type WatchedEvent } from "../support/watchers.ts";

const durable = { "content-type": "text/plain", "service-durability": "durable" };

/** No gap, no repeat, in order; gives the transaction of each key. */
function checkTold(told: readonly WatchedEvent[]): ReadonlyMap<string, number> {
  const keys = new Map<string, number>();
  let position = 0;
  for (const { txid, afterTxid, changes } of told) {
    expect(afterTxid).toBe(position);
    expect(txid).toBeGreaterThan(position);
    position = txid;
    for (const { key } of changes) {
      expect(keys.has(key as string), `${String(key)} is told twice`).toBe(false);
      keys.set(key as string, txid);
    }
  }
  return keys;
}

describe.skipIf(!hasCluster)(`the change feed of a cluster${clusterNeed}`, { timeout: 240_000 }, () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await Cluster.start({ variables: { SERVICE_REQUEST_TIMEOUT: "5" } });
  }, 120_000);
  afterAll(() => cluster?.end());

  test("through failovers every durable write is told once, in order, at every node", async () => {
    const [first] = cluster.nodes;
    const { json } = await first!.call("POST", "/v1/databases", { name: "one" });
    const { uuid } = json as { uuid: string };
    await eventually(20_000, async () => {
      expect((await first!.call("PUT", "/v1/db/one/kv/n/first", "x", durable)).status).toBe(200);
    });
    const addresses = cluster.nodes.map(({ address }) => address);
    const readers = addresses.map(
      (_, at) => new SteadyReader([...addresses.slice(at), ...addresses.slice(0, at)], "one"),
    );
    const puts = cluster.nodes.map((node) => (key: string) => node.call("PUT", `/v1/db/one/kv/n/${key}`, key, durable));
    const writing = new SteadyWriters(puts, 30);
    const { acknowledged } = writing;
    for (let kill = 0; kill < 2; kill++) {
      const before = acknowledged.size;
      await eventually(60_000, async () => {
        expect(acknowledged.size).toBeGreaterThan(before + 30);
      });
      const owner = await cluster.findOwner(uuid);
      await owner.kill();
      await eventually(60_000, async () => {
        expect(await cluster.findOwner(uuid)).not.toBe(owner);
      });
      await owner.start();
    }
    const before = acknowledged.size;
    await eventually(60_000, async () => {
      expect(acknowledged.size).toBeGreaterThan(before + 10);
    });
    await writing.stop();
    await eventually(30_000, async () => {
      for (const { told } of readers) expect(told.at(-1)?.txid ?? 0).toBeGreaterThanOrEqual(writing.last);
    });
    await Promise.all(readers.map((reader) => reader.stop()));
    for (const { told, lost } of readers) {
      const keys = checkTold(told);
      for (const [key, txid] of acknowledged) expect([key, keys.get(key)]).toEqual([key, txid]);
      // What a reader saw before it was told of a loss is what is there now, up to what was lost.
      const now = new Map(told.map((event) => [event.txid, event]));
      for (const seen of lost) {
        checkTold(seen);
        const shared = seen.filter(({ txid }) => now.has(txid));
        expect(shared).toEqual(shared.map(({ txid }) => now.get(txid)));
        expect(shared).toEqual(seen.slice(0, shared.length));
      }
    }
    // The same from every node, by every wire.
    for (const address of addresses)
      for (const watch of Object.values(watches)) {
        const watching = new Watching(watch, address, { db: "one", after: 0 });
        await watching.until(({ transactions }) => (transactions.at(-1)?.txid ?? 0) >= writing.last);
        watching.stop();
        const { told } = readers[0]!;
        const most = Math.min(told.length, watching.transactions.length);
        expect(watching.transactions.slice(0, most)).toEqual(told.slice(0, most));
      }
  });
});
