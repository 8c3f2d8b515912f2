/**
 * States of the past that other nodes have restored and kept, when what they hold is erased: an erasure is complete
 * once no node has any of it, and no node brings it back (docs/past.md).
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Cluster, clusterNeed, eventually, hasCluster, type ClusterNode } from "../support/cluster.ts";

const durable = { "service-durability": "durable" };
const secret = "zyxwvut-secret-of-then";
const memory = "/v1/memory/acme/alice";
const db = "/v1/db/acme--alice";

/** The files of the node's disk that hold the secret. */
function filesWithSecret(node: ClusterNode): string[] {
  return readdirSync(node.directory, { recursive: true, encoding: "utf8" }).filter((name) => {
    const path = join(node.directory, name);
    return statSync(path, { throwIfNoEntry: false })?.isFile() === true && readFileSync(path).includes(secret);
  });
}

describe.skipIf(!hasCluster)(`states of the past in a cluster${clusterNeed}`, { timeout: 180_000 }, () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await Cluster.start({ variables: { SERVICE_GC_GRACE_SECS: "1" } });
  }, 120_000);
  afterAll(() => cluster?.end());

  test("a node that has restored one gives it up when it is erased, and answers it no more", async () => {
    const [writer, reader] = [cluster.nodes[0]!, cluster.nodes[1]!];
    const policy = await writer.call("PUT", "/v1/namespaces/acme/policy", { policy: { erasure: { grace_secs: 0 } } });
    expect(policy.status, policy.text).toBe(200);
    const fact = { type: "fact", topic_key: "door", summary: secret, content: null };
    const { status, json } = await writer.call("POST", `${memory}/memories`, { memories: [fact] }, durable);
    expect(status).toBe(201);
    const [before, id] = [json["txid"] as number, (json["results"] as { id: string }[])[0]!.id];
    await writer.call("PUT", `${db}/kv/n/later`, "x", durable);

    const past = { "service-at": String(before) };
    const read = (): ReturnType<ClusterNode["call"]> => reader.call("GET", `${memory}/memories/${id}`, undefined, past);
    await eventually(20_000, async () => {
      expect((await read()).json).toMatchObject({ summary: secret });
      expect(filesWithSecret(reader)).toContainEqual(expect.stringContaining("past"));
    });

    const erasure = await writer.call("POST", `${memory}/erasures`, { memory_id: id });
    expect(erasure.json).toMatchObject({ memory_ids: [id] });
    const coupon = await eventually(120_000, async () => {
      const { json: now } = await writer.call("GET", `${memory}/erasures/${erasure.json["id"] as string}`);
      expect(now, JSON.stringify(now)).toMatchObject({ status: "completed" });
      return now;
    });
    expect(coupon).toMatchObject({ receipt: { payload: { evidence: { traces: { hits: 0 } } } } });
    for (const node of cluster.nodes) expect(filesWithSecret(node), node.name).toEqual([]);
    expect((await read()).status).toBe(404);
    const newest = await reader.call("GET", `${memory}/memories/${id}`);
    expect(newest.status).toBe(404);
    for (const node of cluster.nodes) expect(filesWithSecret(node), node.name).toEqual([]);
  });
});
