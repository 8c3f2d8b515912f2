/**
 * Webhooks of a cluster whose nodes are killed while clients write through all of them: the receiver is told every
 * acknowledged write, in order and without a gap; what comes twice has the id that it had.
 */
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Cluster, clusterNeed, eventually, hasCluster, type ClusterNode } from "../support/cluster.ts";
import { checkDelivered, Receiver, until } from "../support/receiver.ts";
import { SteadyWriters } from "../support/steady-writers.ts";

const durable = { "content-type": "text/plain", "service-durability": "durable" };

describe.skipIf(!hasCluster)(`webhooks of a cluster${clusterNeed}`, { timeout: 300_000 }, () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await Cluster.start({
      variables: {
        SERVICE_REQUEST_TIMEOUT: "5",
        SERVICE_WEBHOOK_HOSTS: "127.0.0.1",
        SERVICE_WEBHOOK_RETRY_SECS: "1,1,1,1,1",
      },
    });
  }, 120_000);
  afterAll(() => cluster?.end());

  test("through failovers every durable write is posted, in order; a change at one node holds at all", async () => {
    const [first, second] = cluster.nodes as [ClusterNode, ClusterNode];
    const { uuid } = (await first.call("POST", "/v1/databases", { name: "one" })).json as { uuid: string };
    await eventually(20_000, async () => {
      expect((await first.call("PUT", "/v1/db/one/kv/n/first", "x", durable)).status).toBe(200);
    });
    const receiver = await Receiver.start();
    const made = await first.call("POST", "/v1/db/one/webhooks", { url: receiver.url });
    expect(made.status).toBe(201);
    const puts = cluster.nodes.map((node) => (key: string) => node.call("PUT", `/v1/db/one/kv/n/${key}`, key, durable));
    const writing = new SteadyWriters(puts, 30);
    const { acknowledged } = writing;
    const isTold = (): boolean => receiver.taken.some(({ json }) => json.txid >= writing.last);
    await until(() => receiver.taken.length > 20, 60_000);
    // The one that writes the database, and each other one, of which one delivers.
    const names = new Set<string>();
    for (let kill = 0; kill < 3; kill++) {
      const owner = await cluster.findOwner(uuid);
      const victim = kill === 0 ? owner : cluster.nodes.find(({ name }) => !names.has(name))!;
      names.add(victim.name);
      const before = receiver.taken.length;
      await victim.kill();
      // While it is down, the others go on: both with writing and with delivering.
      await until(() => receiver.taken.length > before + 20, 90_000);
      await victim.start();
      await until(() => acknowledged.size > 0 && receiver.taken.length > before + 40, 60_000);
    }
    await writing.stop();
    await until(isTold, 60_000);
    checkDelivered(receiver.taken, acknowledged);

    // A change is made at one node, and holds where it is delivered.
    const path = `/v1/db/one/webhooks/${made.json.id}`;
    for (const node of [first, second, cluster.nodes[2]!]) {
      expect((await node.call("PATCH", path, { paused: true })).status).toBe(200);
      await pause(3_000);
      const told = receiver.posts.length;
      expect((await node.call("PUT", `/v1/db/one/kv/n/while-paused-${node.name}`, "x", durable)).status).toBe(200);
      await pause(1_000);
      expect(receiver.posts.length).toBe(told);
      expect((await node.call("PATCH", path, { paused: false })).status).toBe(200);
      await until(() => receiver.posts.length > told, 40_000);
    }
  });

  test("what was written before a node died is posted though nobody asks for the database again", async () => {
    const [node] = cluster.nodes as [ClusterNode];
    const { uuid } = (await node.call("POST", "/v1/databases", { name: "quiet" })).json as { uuid: string };
    let isTaking = false;
    const receiver = await Receiver.start(() => (isTaking ? 200 : 503));
    await eventually(20_000, async () => {
      expect((await node.call("PUT", "/v1/db/quiet/kv/n/first", "x", durable)).status).toBe(200);
    });
    const { json } = await node.call("POST", "/v1/db/quiet/webhooks", { url: receiver.url, after: 0 });
    expect((await node.call("PATCH", `/v1/db/quiet/webhooks/${json.id}`, { paused: true })).status).toBe(200);
    await pause(2_000);
    expect((await node.call("PATCH", `/v1/db/quiet/webhooks/${json.id}`, { paused: false })).status).toBe(200);
    await until(() => receiver.posts.length > 0, 40_000);
    const owner = await cluster.findOwner(uuid);
    await owner.kill();
    isTaking = true;
    await until(() => receiver.taken.some(({ json: body }) => body.changes?.[0]?.key === "first"), 60_000);
    await owner.start();
  });
});
