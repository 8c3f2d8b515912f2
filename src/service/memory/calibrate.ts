/**
 * Calibrate over the wires: the floor of the node's embedder, by the memories that a profile holds.
 *
 * Always true: nothing is stored but a number, and only where the vectors are the node's own embedder's, which is asked
 * again when it is stored.
 */
import type { MemoryService } from "../../../gen/palimpsest/v1/memory_pb.ts";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import type { World } from "../../base/world.ts";
import { calibrationPairsMin, type Calibration } from "../../model/calibration.ts";
import { engineOptions, seen, type ServiceHandlers } from "../call/context.ts";
import { present } from "../call/data-messages.ts";
import { requireProfileTarget } from "../handlers/targets.ts";
import type { NodeParts } from "../handlers/node-parts.ts";

/** The share of unrelated pairs that may pass, and the most that a call may ask for. */
const unrelatedShareDefault = 0.02;
const unrelatedShareMax = 0.5;

function pickSeed(world: World): number {
  const [a, b, c, d] = world.randomBytes(4) as unknown as readonly [number, number, number, number];
  return a + b * 2 ** 8 + c * 2 ** 16 + d * 2 ** 24;
}

/** Why nothing was measured, for the person who asked. */
function refusal(calibration: Extract<Calibration, { readonly refused: string }>, ours: string): ServiceError {
  switch (calibration.refused) {
    case "no_vectors":
      return new ServiceError("conflict", "no memory of the profile has a vector yet");
    case "foreign": {
      const whose = calibration.embeddedBy === undefined ? "brought by callers" : `of ${calibration.embeddedBy}`;
      return new ServiceError("conflict", `the memories' vectors are ${whose}, not of ${ours}: reembed first`);
    }
    case "too_few":
      return new ServiceError(
        "conflict",
        `the profile has ${calibration.pairs} pairs of memories with vectors that share no topic and no session; at ` +
          `least ${calibrationPairsMin} are needed`,
      );
    case "no_difference":
      return new ServiceError(
        "conflict",
        "more unrelated pairs than unrelated_share allows have the same vector: no floor tells memories apart",
      );
  }
}

export function calibrateHandlers(node: NodeParts): Pick<ServiceHandlers<typeof MemoryService>, "calibrate"> {
  return {
    async calibrate(request, context) {
      const { embedding } = node;
      const { unrelatedShare = unrelatedShareDefault, seed = pickSeed(node.world), dryRun } = request;
      if (!(unrelatedShare > 0 && unrelatedShare <= unrelatedShareMax))
        throw invalid(`unrelated_share must be above 0 and at most ${unrelatedShareMax}`);
      if (!embedding)
        throw new ServiceError(
          "unconfigured",
          "calibrate needs SERVICE_EMBED_API_KEY, or SERVICE_EMBED_PROVIDER=local, which this node does not have",
        );
      const target = await requireProfileTarget(node, context, request);
      const options = engineOptions(context);
      const embeddedBy = embedding.maker.name;
      const asked = { embeddedBy, unrelatedShare, seed };
      const measured = seen(context, await node.engine.read(target, "embedding.measure", asked, options));
      const { value: found } = measured;
      if (found.refused !== undefined) throw refusal(found, embeddedBy);
      let { txid } = measured;
      if (!dryRun) {
        const taken = seen(
          context,
          await node.engine.write(target, "embedding.floor", { embeddedBy, floor: found.floor }, options),
        );
        if (!taken.value.taken)
          throw new ServiceError("conflict", "the memories' vectors became another model's meanwhile; nothing was set");
        txid = taken.txid;
      }
      const { memories, floorBefore, floor, unrelated, related } = found;
      return {
        embedder: embeddedBy,
        memories,
        floorBefore,
        floor,
        seed,
        unrelated: present(unrelated),
        related: present(related),
        txid,
      };
    },
  };
}
