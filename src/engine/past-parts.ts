/**
 * The parts of one engine thread that read earlier states, built from those that were built before.
 *
 * Must not know: calls, answers.
 */
import type { VectorPool } from "../model/index/vector-index.ts";
import type { BranchParts } from "./branches/branches.ts";
import type { EngineSurroundings } from "./engine-surroundings.ts";
import type { LeaseState } from "./api/lease-expiry.ts";
import type { Copies } from "./local/copies.ts";
import type { SeenManifests } from "./local/seen-manifests.ts";
import { readManifest } from "./opening/served-manifest.ts";
import { Diffs } from "./past/diffs.ts";
import { PastReads } from "./past/past-reads.ts";
import { PastStates } from "./past/past-states.ts";
import { acceptsRollback } from "./pool/database-opener.ts";
import type { Retentions } from "./pool/retentions.ts";

/** Where whoever starts the engine does not say. */
const pastBytesMaxDefault = 1024 * 1024 * 1024;

/** What a thread has of the past. */
export interface Past {
  readonly states: PastStates;
  readonly reads: PastReads;
  readonly diffs: Diffs;
}

/** What of the thread's other parts they need. */
interface OtherParts {
  readonly copies: Copies;
  readonly places: SeenManifests;
  readonly vectorPool: VectorPool;
  readonly retentions: Retentions;
  readonly leaseState: LeaseState;
}

/** The restored states, and the reads of them. */
export function openPast(
  { options, world, store, sql, slices }: EngineSurroundings,
  { source, pitrMs, isCertain }: BranchParts,
  { copies, places, vectorPool, retentions, leaseState }: OtherParts,
): Past {
  const states = new PastStates({
    world,
    copies,
    vectorPool,
    // Only processes could run it instead.
    slices: sql && slices,
    source,
    scratchDirectory: options.scratchDirectory,
    readManifest: async (uuid, branchId) => {
      const reading = { world, store, nodeId: options.nodeId, places, manifestLanded: () => {} };
      const accepts = { acceptsRollback: acceptsRollback(options, uuid) };
      return (await readManifest({ ...reading, ...accepts }, uuid, branchId)).manifest.now;
    },
    pitrMs,
    bytesMax: (options.pastBytesMax ?? pastBytesMaxDefault) / options.lanes,
  });
  const isHeld = (uuid: string): boolean => leaseState.getLeaseEpoch(uuid) !== undefined;
  const findRetention = (uuid: string): ReturnType<Retentions["of"]> => retentions.of(uuid);
  const reads = new PastReads({ world, states, source, pitrMs, findRetention, isHeld, isCertain });
  return { states, reads, diffs: new Diffs({ world, reads }) };
}
