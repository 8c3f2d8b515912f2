/** Metadata and a pin are erased with their memory: from the file, from history, and so that the proof sees it. */
import { expect, test } from "vitest";
import { ErasingNode } from "../../../support/erasing-node.ts";

test("an erased memory's metadata and pin are gone when the erasure completes, others keep theirs", async () => {
  const node = new ErasingNode();
  const secret = await node.remember("a memory", "main", { metadata: '{"of":"zyxwvutsecret"}', pinned: true });
  const kept = await node.remember("another", "main", { metadata: '{"of":"abcdefgkept"}', pinned: true });
  await node.fill(2);
  expect((await node.residue("zyxwvutsecret")).length).toBeGreaterThan(0);
  const coupon = await node.erase(secret);
  await node.fill(2);
  const { clean, evidence } = await node.complete(coupon);
  expect(clean).toEqual([coupon.id]);
  expect(evidence!.traces).toEqual({ looked_for: coupon.traces.windowsTotal, hits: 0 });
  expect(await node.residue("zyxwvutsecret")).toEqual([]);
  const { value } = await node.time.of(
    node.node.client.read(node.node.at("main"), "memory.get", { id: kept }, node.node.soon()),
  );
  expect(value).toMatchObject({ metadata: '{"of":"abcdefgkept"}', pinned: true });
});
