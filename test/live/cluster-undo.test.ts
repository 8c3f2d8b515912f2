/**
 * The undo of a transaction in a cluster: asked of any node, carried out where the database is written, once for a key,
 * wholly or not at all when that node dies in the middle of it.
 */
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Cluster, type ClusterNode, clusterNeed, eventually, hasCluster } from "../support/cluster.ts";

const keys = ["a", "b", "c", "d", "e"];

describe.skipIf(!hasCluster)(`an undo in a cluster${clusterNeed}`, { timeout: 300_000 }, () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await Cluster.start();
  }, 120_000);
  afterAll(() => cluster?.end());

  const items = (text: string): object => ({ items: keys.map((key) => ({ key, text })) });

  async function put(node: ClusterNode, db: string, text: string): Promise<number> {
    return eventually(60_000, async () => {
      const {
        status,
        json,
        text: told,
      } = await node.call("POST", `/v1/db/${db}/kv_batch/n/put`, items(text), {
        "service-durability": "durable",
      });
      expect(status, told).toBe(200);
      return json.txid as number;
    });
  }

  const undo = (node: ClusterNode, db: string, txid: number, key: string): ReturnType<ClusterNode["call"]> =>
    node.call("POST", `/v1/db/${db}/undo`, { txid }, { "idempotency-key": key, "service-durability": "durable" });

  async function read(node: ClusterNode, db: string): Promise<readonly string[]> {
    const { json } = await node.call("GET", `/v1/db/${db}/kv/n?include=values`, undefined, {
      "service-consistency": "primary",
    });
    return (json.entries as { text: string }[]).map(({ text }) => text);
  }

  test("is the same whichever node is asked, and repeated at another one is not carried out twice", async () => {
    const { json } = await cluster.nodes[0]!.call("POST", "/v1/databases", { name: "asked" });
    await put(cluster.nodes[0]!, "asked", "old");
    const uuid = json.uuid as string;
    const others = await cluster.findOthers(uuid);
    for (const [round, asked] of [await cluster.findOwner(uuid), ...others].entries()) {
      const txid = await put(cluster.nodes[round]!, "asked", `new ${round}`);
      const first = await undo(asked, "asked", txid, `u${round}`);
      expect(first.status, first.text).toBe(200);
      expect(await read(asked, "asked")).toEqual(keys.map(() => "old"));
      for (const node of cluster.nodes) expect((await undo(node, "asked", txid, `u${round}`)).json).toEqual(first.json);
      // Without the key it is another undo, of what is as it was.
      const again = await undo(others[0]!, "asked", txid, `again ${round}`);
      expect([again.status, again.json.code]).toEqual([409, "conflict"]);
    }
  });

  test("whose node is killed in the middle is done wholly, once, or not at all", async () => {
    const { json } = await cluster.nodes[0]!.call("POST", "/v1/databases", { name: "killed" });
    await put(cluster.nodes[0]!, "killed", "old");
    for (const afterMs of [0, 15, 60]) {
      const owner = await cluster.findOwner(json.uuid as string);
      const [asked] = await cluster.findOthers(json.uuid as string);
      const txid = await put(asked!, "killed", `new ${afterMs}`);
      const first = undo(asked!, "killed", txid, `k${afterMs}`);
      await pause(afterMs);
      await owner.kill();
      await first;
      const seen = await eventually(60_000, () => read(asked!, "killed"));
      expect(new Set(seen).size, seen.join()).toBe(1);
      const settled = await eventually(60_000, async () => {
        const answer = await undo(asked!, "killed", txid, `k${afterMs}`);
        expect(answer.status, answer.text).toBe(200);
        return answer;
      });
      expect(await read(asked!, "killed")).toEqual(keys.map(() => "old"));
      await owner.start();
      await cluster.whole();
      expect((await undo(owner, "killed", txid, `k${afterMs}`)).json).toEqual(settled.json);
    }
  });
});
