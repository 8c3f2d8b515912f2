/** A node on which something was erased, and the states that are left of it. */
import { ErasingNode } from "./erasing-node.ts";

/** The states from `txid` on. */
export function statesFrom(states: ReadonlyMap<number, string>, txid: number): Map<number, string> {
  return new Map([...states].filter(([at]) => at >= txid));
}

/** A node with a secret among other memories, which is erased; more is written before and after. */
export async function erased(
  options = {},
): Promise<{ node: ErasingNode; secret: string; coupon: Awaited<ReturnType<ErasingNode["erase"]>>; kept: string }> {
  const node = new ErasingNode(options);
  const kept = await node.remember("a memory that stays");
  await node.fill(2);
  const secret = await node.remember("the zyxwvutsecret of it");
  await node.fill(3);
  const coupon = await node.erase(secret);
  await node.fill(3);
  return { node, secret, coupon, kept };
}
