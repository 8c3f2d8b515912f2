/**
 * An erasure on one open branch: the rows go by one durable write, then their bytes go from this node's disk.
 *
 * Always true of an answer: object storage has the state without the target, and neither the branch's file here nor its
 * log holds anything of it. A repeated request with the same coupon carries on an erasure that dies in between: the
 * journal in the database says what was erased, and the scrub is done anew.
 */
import type { CatalogBranch } from "../../format/history/catalog.ts";
import type { WriteInput, WriteOutput } from "../../model/commands.ts";
import { listAncestors } from "./history-truncation.ts";
import type { Database } from "../database/database.ts";
import type { Answer, BranchAct, BranchResults } from "../api/protocol.ts";

/**
 * Erases the target of the act. The answer's transaction id is the erasure's; a repeated request gets a later one, from
 * whose state the target is as surely gone.
 */
export async function eraseTarget(
  database: Database,
  act: Extract<BranchAct, { act: "erase" }>,
  branches: readonly CatalogBranch[],
  deadlineMs: number,
): Promise<Answer<BranchResults["erase"]>> {
  const { couponId, erase: target, traceKey } = act;
  const input: WriteInput<"memory.erase"> = { couponId, target, traceKey };
  const { value, txid } = await new Promise<Omit<Answer, "durableTxid">>((done, failed) => {
    database.write({
      work: { kind: "write", command: "memory.erase", input },
      bytes: 0,
      deadlineMs,
      durable: true,
      completion: { done, failed },
    });
  });
  const erased = value as WriteOutput<"memory.erase">;
  if (erased.found) await database.scrub(deadlineMs);
  const { branchId } = database.opened;
  return {
    value: { ...erased, branchId, ancestors: listAncestors(branches, branchId) },
    txid,
    durableTxid: database.durableTxid,
  };
}
