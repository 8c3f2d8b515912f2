/**
 * Tools of MCP at a node that does not hold the profile's database: the call is carried to the one that does, and is
 * answered as it is there, by both revisions of the protocol: also what was remembered through another node a moment
 * before.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Cluster, clusterNeed, type ClusterNode, hasCluster } from "../support/cluster.ts";
import { inGate } from "../support/gate.ts";
import { connectMcp, revisions } from "../support/mcp-client.ts";

describe.skipIf(!hasCluster || !inGate)(`MCP in a cluster${clusterNeed}`, { timeout: 60_000 }, () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await Cluster.start({ nodes: 2, linked: false });
  }, 120_000);
  afterAll(() => cluster?.end());

  test.each(revisions)("by %s each node answers the same, and the database stays where it is", async (revision) => {
    const profile = `mcp-${revision}`;
    const connect = (node: ClusterNode) => connectMcp(`${node.address}/mcp/fleet/${profile}`, revision);
    const first = await connect(cluster.nodes[0]!);
    const stored = await first.ok("remember", { type: "fact", summary: "The lamp is lit at dusk", topic: "lamp" });
    expect(stored).toMatchObject({ status: "created", txid: 1 });
    const { json } = await cluster.nodes[0]!.call("GET", "/v1/databases");
    const { uuid } = json.databases.find(({ name }: { name: string }) => name === `fleet--${profile}`);
    const owner = await cluster.findOwner(uuid);
    const [other] = await cluster.findOthers(uuid);
    const [here, there] = [await connect(owner), await connect(other!)];
    const carried = async (): Promise<number> => {
      const metrics = await other!.call("GET", "/metrics");
      const lines = metrics.text.matchAll(
        /^palimpsest_forwarded_calls_total\{direction="out",outcome="answered"\} (\d+)$/gm,
      );
      return [...lines].reduce((sum, [, count]) => sum + Number(count), 0);
    };

    const before = await carried();
    const changed = await there.ok("remember", { type: "fact", summary: "The lamp is lit at dawn", topic: "lamp" });
    expect(changed).toMatchObject({ status: "created", superseded: [stored.id], txid: 2 });
    expect(
      await there.ok("remember", { type: "fact", summary: "The lamp is lit at dawn", topic: "lamp" }),
    ).toMatchObject({ status: "duplicate", id: changed.id });
    expect(await carried()).toBeGreaterThan(before);

    for (const [tool, given] of [
      ["recall", { query: "when is the lamp lit?" }],
      ["list_memories", {}],
      ["history", { topic: "lamp" }],
      ["context", { query: "lamp", max_tokens: 200 }],
      ["forget", { id: "mem_00000000000000000000000000" }],
      ["forget", { topic: "lamp" }],
      ["history", { id: "mem_00000000000000000000000000" }],
    ] as const) {
      const [near, far] = [await here.call(tool, given), await there.call(tool, given)];
      // Of a context the time at which it was asked for.
      for (const { body } of [near, far]) delete body?.now;
      expect(far, tool).toEqual(near);
      if (tool === "recall") expect(far.body.memories).toMatchObject([{ id: changed.id }]);
    }
    expect(await there.ok("forget", { id: stored.id })).toMatchObject({ forgotten: 1 });
    expect(await here.ok("history", { topic: "lamp" })).toMatchObject({ states: [{ id: changed.id }] });
    expect(await cluster.findOwner(uuid)).toBe(owner);
  });
});
