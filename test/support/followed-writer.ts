/** A writer and a copy of what it writes, on a node each. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { LeasedNode, sharedTime } from "./leased-node.ts";
import { ReplicaNode } from "./replica-node.ts";
import { noise, type VirtualTime } from "./timed-engine.ts";

export const longMs = 10_000_000;
export const durable = { durable: true };

export async function pair(
  options: { gcGraceMs?: number } = {},
): Promise<{ time: VirtualTime; writer: LeasedNode; replica: ReplicaNode }> {
  const time = sharedTime();
  const [writer, replica] = [new LeasedNode(time, "writer", options), new ReplicaNode(time)];
  await writer.hold(1, longMs);
  await writer.put("first", "main", durable);
  return { time, writer, replica };
}

/** Writes so much that nothing of it fits into a manifest, shipped one by one. */
export async function shipMany(node: LeasedNode, count: number, bytes = 60_000, prefix = "bulk"): Promise<void> {
  for (let one = 0; one < count; one++) {
    await node.time.of(node.putting(`${prefix} ${String(one).padStart(3, "0")}`, "main", {}, noise(bytes, one + 1)));
    await node.sync();
  }
}

export const pin = { id: 1_000_000, work: { kind: "pin" }, budgetMs: longMs, minTxid: 0, durable: false } as const;
export const unpin = { ...pin, id: 1_000_001, work: { kind: "unpin", token: pin.id, seenTxid: 1 } } as const;

export const setAside = (node: ReplicaNode | LeasedNode): readonly string[] => {
  const folder = join(node.directory, "quarantine", node.uuid);
  return existsSync(folder) ? readdirSync(folder) : [];
};
