/** Reads of earlier states on several nodes: what a copy answers by itself, and what only the writer can. */
import { expect, test } from "vitest";
import { mainBranch } from "../../../../src/format/core/names.ts";
import { uuidOf } from "../../../support/inline-engine.ts";
import { type PlacedNode, PlacedNodes } from "../../../support/placed-nodes.ts";

const uuid = uuidOf(1);
const target = { uuid, branch: mainBranch };

async function getAt(
  cluster: PlacedNodes,
  node: PlacedNode,
  at: string,
  more: { consistency?: "primary" | "cached" } = {},
): Promise<string> {
  const reading = node.placement.read(
    target,
    "kv.get",
    { ns: "default", key: "k" },
    { ...cluster.deadline(), at, ...more },
  );
  return reading.then(
    ({ value, txid }) => `${value ? Buffer.from(value.value).toString() : "nothing"} of ${txid}`,
    (error: { code?: string }) => String(error.code),
  );
}

test("any node answers what object storage has, and the writer what only it can know", async () => {
  const {
    cluster,
    nodes: [writer, other],
  } = await PlacedNodes.start("a", "b");
  for (const value of ["one", "two"]) await cluster.put(writer, uuid, "k", value, { durable: true });
  // Its copy is there from now on.
  await cluster.get(other, uuid, "k");
  const before = other.peers.forwarded.length;
  expect(await getAt(cluster, other, "1")).toBe("one of 1");
  expect(await getAt(cluster, other, "1", { consistency: "cached" })).toBe("one of 1");
  expect(other.peers.forwarded).toHaveLength(before);
  expect(await getAt(cluster, other, "1", { consistency: "primary" })).toBe("one of 1");
  expect(other.peers.forwarded).toHaveLength(before + 1);
  expect(other.peers.forwarded.at(-1)!.call).toMatchObject({ kind: "read", at: "1" });
  // What was acknowledged a moment ago is shipped for whoever asks, wherever.
  await cluster.put(writer, uuid, "k", "three");
  expect(await getAt(cluster, other, "3")).toBe("three of 3");
  await writer.placement.branch(target, { act: "checkpoint", name: "named" }, cluster.deadline());
  expect(await getAt(cluster, other, "named")).toBe("three of 3");
  expect(await getAt(cluster, other, new Date(cluster.world.wallMs() + 1_000).toISOString())).toBe("three of 3");
  expect(await getAt(cluster, other, "unnamed")).toBe("not_found");
  expect(await getAt(cluster, other, "99")).toBe("not_found");
});

test("without the writer a copy answers what it has, and says so of the rest", async () => {
  const {
    cluster,
    nodes: [writer, other],
  } = await PlacedNodes.start("a", "b");
  for (const value of ["one", "two"]) await cluster.put(writer, uuid, "k", value, { durable: true });
  await cluster.get(other, uuid, "k");
  cluster.unlink(writer);
  expect(await getAt(cluster, other, "1")).toBe("one of 1");
  expect(await getAt(cluster, other, "7", { consistency: "cached" })).toBe("not_found");
  const late = other.placement.read(
    target,
    "kv.get",
    { ns: "default", key: "k" },
    { ...cluster.deadline(500), at: "7" },
  );
  await expect(late).rejects.toMatchObject({ code: "unavailable" });
});
