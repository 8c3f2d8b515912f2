/** A cluster with authentication: the key between its nodes, forwarded identities, and tokens of what was deleted. */
import { connect as connectHttp2 } from "node:http2";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Cluster, clusterNeed, eventually, hasCluster, type ClusterNode } from "../support/cluster.ts";
import { bearer, platformKey } from "../support/credentials.ts";
import { grpcWire, restWire, wireNames, type Wire } from "../support/wires.ts";
import { expectOk, ingest, summariesAt, readUuid } from "../support/cluster-calls.ts";

const primary = { "service-consistency": "primary" };

/** Asks for the nodes' own service, and gives the status. */
function knockAtNodeService(node: ClusterNode, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const session = connectHttp2(node.address);
    session.once("error", reject);
    const stream = session.request({
      ":method": "POST",
      ":path": "/palimpsest.node.v1.NodeService/Exchange",
      "content-type": "application/grpc",
      te: "trailers",
      ...headers,
    });
    stream.once("error", reject).once("response", (response) => {
      resolve(Number(response[":status"]));
      session.destroy();
    });
  });
}

describe.skipIf(!hasCluster)(`a cluster with authentication${clusterNeed}`, () => {
  let cluster: Cluster;
  let a: ClusterNode, b: ClusterNode;
  const platform = bearer(platformKey);
  const clusterKey = "cluster-key-of-the-tests";

  beforeAll(async () => {
    cluster = await Cluster.start({
      nodes: 2,
      variables: {
        SERVICE_AUTH: "on",
        SERVICE_PLATFORM_KEY: platformKey,
        SERVICE_AUDIT_FLUSH_MS: "100",
        SERVICE_POLICY_CACHE_SECS: "0",
      },
    });
    [a, b] = cluster.nodes as [ClusterNode, ClusterNode];
  }, 120_000);
  afterAll(() => cluster?.end());

  async function mint(wire: Wire, ns: string, scope: string): Promise<Record<string, string>> {
    return bearer(expectOk(await wire.call("ControlService.MintNamespaceToken", { ns, scope }, platform)).body.token);
  }

  test("auth-16: the nodes' service asks for the cluster key, which opens nothing else", async () => {
    for (const credential of [{}, { "service-internal": "not-the-key-of-the-cluster" }, platform])
      expect(await knockAtNodeService(a, credential)).toBe(401);
    for (const credential of [{ "service-internal": clusterKey }, bearer(clusterKey)]) {
      const { status } = await a.call("POST", "/v1/memory/acme/alice/recall", { query: "anything" }, credential);
      expect(status).toBe(401);
      expect((await a.call("GET", "/v1/databases", undefined, credential)).status).toBe(401);
    }
  });

  test.each(wireNames)("auth-16: over %s, a forwarded call is served under the client's identity", async (wireName) => {
    const ns = `auth-${wireName}`;
    const [atA, atB] = [a, b].map((node) =>
      wireName === "rest" ? restWire(node.address) : grpcWire(node.address),
    ) as [Wire, Wire];
    expectOk(
      await atA.call(
        "ControlService.PutNamespacePolicy",
        { ns, policy: { audit: { enabled: true, include_reads: true } } },
        platform,
      ),
    );
    const [reader, writer, stranger] = [
      await mint(atA, ns, "read"),
      await mint(atB, ns, "write"),
      await mint(atA, "elsewhere", "admin"),
    ];
    const first = expectOk(await ingest(atA, ns, "alice", { summary: "at the owner" }, writer));
    const uuid = await readUuid(atB, `${ns}--alice`, platform);
    expect(await cluster.findOwner(uuid!)).toBe(a);

    expect(await ingest(atB, ns, "alice", { summary: "by a reader" }, reader)).toMatchObject({ code: "forbidden" });
    expect(await ingest(atB, ns, "alice", { summary: "by a stranger" }, stranger)).toMatchObject({ code: "forbidden" });
    expect(await ingest(atB, ns, "alice", { summary: "by nobody" })).toMatchObject({ code: "unauthorized" });
    const second = expectOk(await ingest(atB, ns, "alice", { summary: "forwarded" }, writer));
    expect(second.txid).toBe(first.txid! + 1);
    expect(await summariesAt(atB, ns, "alice", "forwarded", { ...reader, ...primary })).toEqual(["forwarded"]);

    await eventually(10_000, async () => {
      const { body } = expectOk(await atA.call("ControlService.ReadAudit", { ns, limit: 1_000 }, platform));
      const ofAction = (action: string, outcome: string): Record<string, any>[] =>
        body.events.filter(
          (event: Record<string, any>) =>
            event["node"] === b.id && event["action"] === action && event["outcome"] === outcome,
        );
      expect(ofAction("memory.ingest", "ok"), "one event, of the node that met the client").toMatchObject([
        {
          txid: second.txid,
          actor: { kind: "token", scope: "write", claim_ns: ns, token_hash: expect.stringMatching(/^[0-9a-f]{16}$/) },
        },
      ]);
      expect(ofAction("memory.ingest", "denied").map(({ actor }) => actor.scope)).toEqual(
        expect.arrayContaining(["read", "admin"]),
      );
      expect(ofAction("memory.recall", "ok")).toMatchObject([{ actor: { kind: "token", scope: "read" } }]);
    });
    for (const wire of [atA, atB]) wire.close();
  });

  test("dist-09: what was deleted stays deleted for old tokens when every node has started anew", async () => {
    const ns = "tombs";
    const old = await mint(restWire(a.address), ns, "write");
    expectOk(await ingest(restWire(a.address), ns, "alice", { summary: "before" }, old));
    expectOk(await restWire(b.address).call("ControlService.DeleteDatabase", { db: `${ns}--alice` }, platform));
    for (const node of [a, b]) {
      await node.stop();
      node.wipe();
    }
    for (const node of [a, b]) await node.start();
    for (const node of [a, b]) {
      expect(await ingest(restWire(node.address), ns, "alice", { summary: "after" }, old)).toMatchObject({
        code: "forbidden",
      });
    }
    // A token is judged by the second in which it was minted, with two of skew.
    await pause(4_000);
    const fresh = await mint(restWire(b.address), ns, "write");
    expectOk(await ingest(restWire(a.address), ns, "alice", { summary: "with a new token" }, fresh));
    expect(
      await summariesAt(restWire(b.address), ns, "alice", "before new token", { ...old, ...primary }),
      "the old one still reads",
    ).toEqual(["with a new token"]);
  });
});
