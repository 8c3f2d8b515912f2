/**
 * The answer of a run over a database's erasures: which are clean and by what evidence, and what the others wait for.
 */
import type { ErasureBlockers } from "../../format/erasure/erasure-coupon.ts";
import type { ErasureEvidence } from "../../format/erasure/erasure-receipt.ts";
import type { Expunged } from "../api/protocol.ts";
import type { CopyVerdict } from "./awaited-copies.ts";
import type { CutPlan } from "./cut-plan.ts";
import type { StoreEvidence } from "./erasure-verifier.ts";

/** The evidence together with what was removed around it: versions that the store had kept, and local files. */
export function withSurroundings(
  evidence: StoreEvidence,
  store: { versioned: boolean; removed: number; uploadsAborted: number },
  local: ErasureEvidence["local"][number],
): ErasureEvidence {
  return {
    ...evidence,
    store: { versioned: store.versioned, versions_removed: store.removed, uploads_aborted: store.uploadsAborted },
    local: [local],
  };
}

/** The answer from the plan and the steps that were taken; `holdUp` is what stopped the run. */
export function answer(
  plan: Pick<CutPlan, "blocked" | "ready" | "waiting"> & Partial<Pick<CutPlan, "reasons">>,
  holdUp: string | undefined,
  evidence: ErasureEvidence | undefined,
  verdict?: CopyVerdict,
): Expunged {
  const clean = evidence ? (verdict?.free ?? plan.ready).map(({ id }) => id) : [];
  const blocked: Record<string, ErasureBlockers> = plan.blocked;
  // What copies hold up is the same for all, and over when it is: so it comes first.
  const waitingFor = verdict?.waitingFor ?? holdUp;
  const mayChangeSoon = waitingFor !== undefined;
  const reasons = Object.keys(plan.reasons ?? {}).length === 0 ? undefined : plan.reasons;
  return {
    blocked,
    ...(reasons && { reasons }),
    clean,
    evidence,
    mayChangeSoon,
    copies: verdict?.found,
    waitingFor: waitingFor ?? (plan.waiting.length > 0 ? "another erasure's grace" : undefined),
  };
}
