/**
 * Reviews of proposals over the wires, and what has to be reviewed.
 *
 * Always true: a rejection is no less than a forget: where policy makes that a tracked erasure, so is this. Must not
 * know: how a proposal is taken in.
 */
import type { MemoryService } from "../../../gen/palimpsest/v1/memory_pb.ts";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import type { EffectivePolicy } from "../../control/databases/policies.ts";
import type { MemoryInput } from "../../model/memory/memory-ingest.ts";
import { checkReview } from "../../model/review.ts";
import { engineOptions, seen, type Context, type ServiceHandlers } from "../call/context.ts";
import { eraseTracked } from "../handlers/erasure-service.ts";
import { readProfilePolicy, refuseUnknownForget } from "../handlers/governance.ts";
import { requireProfileTarget, type ProfileAddress } from "../handlers/targets.ts";
import type { NodeParts } from "../handlers/node-parts.ts";

/** Whether a `status` asks for a review; `place` is where it stands. */
export function parseProposed(place: string, status: string | undefined): true | undefined {
  if (status !== undefined && status !== "active" && status !== "proposed")
    throw invalid(`${place} must be active or proposed`);
  return status === "proposed" ? true : undefined;
}

/** The memories, those of sources that the policy does not trust as proposals. */
export function withDemanded(
  memories: readonly MemoryInput[],
  { trustedSources }: EffectivePolicy,
): readonly MemoryInput[] {
  if (trustedSources === undefined) return memories;
  return memories.map((memory) =>
    memory.source !== undefined && trustedSources.includes(memory.source) ? memory : { ...memory, proposed: true },
  );
}

/** Rejects one proposal by a tracked erasure, as the policy wants it of a forget. */
async function rejectTracked(
  node: NodeParts,
  context: Context,
  address: ProfileAddress,
  ids: readonly string[],
  policy: EffectivePolicy,
) {
  const [id] = ids;
  if (id === undefined || ids.length > 1)
    throw new ServiceError(
      "conflict",
      "erasure.purge_on_forget makes every rejection a tracked erasure, which many at once cannot be: reject the " +
        "proposals one by one",
    );
  const target = await requireProfileTarget(node, context, address);
  const { value, txid } = seen(context, await node.engine.read(target, "memory.get", { id }, engineOptions(context)));
  if (value?.status !== "proposed") return { results: [{ id, status: "unknown" }], txid };
  const erased = await eraseTracked(node, context, { ...address, id }, policy);
  return { results: [{ id, status: "rejected" }], ...erased };
}

export function reviewHandlers(node: NodeParts): Pick<ServiceHandlers<typeof MemoryService>, "reviewMemory"> {
  return {
    async reviewMemory(request, context) {
      const { ids, verdict } = request;
      checkReview({ ids, verdict });
      if (verdict === "reject") {
        const policy = await readProfilePolicy(node, request);
        refuseUnknownForget(policy);
        if (policy.purgeOnForget) return rejectTracked(node, context, request, ids, policy);
      }
      const target = await requireProfileTarget(node, context, request);
      const { value, txid } = seen(
        context,
        await node.engine.write(target, "memory.review", { ids, verdict }, engineOptions(context)),
      );
      return { results: value.results, txid };
    },
  };
}
