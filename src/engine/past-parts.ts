/**
 * The parts of one engine thread that read earlier states, built from those that were built before.
 *
 * Must not know: calls, answers.
 */
import type { VectorPool } from "../model/index/vector-index.ts";
import type { BranchParts } from "./branches/branches.ts";
import type { EngineSurroundings } from "./engine-surroundings.ts";
import type { Copies } from "./local/copies.ts";
import type { SeenManifests } from "./local/seen-manifests.ts";
import { readManifest } from "./opening/served-manifest.ts";
import { PastReads } from "./past/past-reads.ts";
import { PastStates } from "./past/past-states.ts";
import { acceptsRollback } from "./pool/database-opener.ts";
import type { Retentions } from "./pool/retentions.ts";

/** Where whoever starts the engine does not say. */
const pastBytesMaxDefault = 1024 * 1024 * 1024;

/** What they are built from. */
export interface PastSurroundings {
  readonly given: EngineSurroundings;
  readonly parts: BranchParts;
  readonly copies: Copies;
  readonly places: SeenManifests;
  readonly vectorPool: VectorPool;
  readonly retentions: Retentions;
  /** Whether this node writes the database. */
  readonly isHeld: (uuid: string) => boolean;
}

/** The restored states, and the reads of them. */
export function openPast({ given, parts, copies, places, vectorPool, retentions, isHeld }: PastSurroundings): {
  readonly states: PastStates;
  readonly reads: PastReads;
} {
  const { options, world, store, sql, slices } = given;
  const { source, pitrMs, isCertain } = parts;
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
  const findRetention = (uuid: string): ReturnType<Retentions["of"]> => retentions.of(uuid);
  return { states, reads: new PastReads({ world, states, source, pitrMs, findRetention, isHeld, isCertain }) };
}
