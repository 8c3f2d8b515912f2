/**
 * The one way in for memories, made by a client or by a model.
 *
 * Always true: nothing is written that `checkMemories` refuses, no task outlives what policy allows, and what comes
 * from a source that policy does not trust is a proposal.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { IngestItemSchema } from "../../../gen/palimpsest/v1/memory_pb.ts";
import { turn } from "../../base/world.ts";
import { checkMemory, checkMemoryCount, type MemoryInput } from "../../model/memory/memory-ingest.ts";
import type { Target } from "../../engine/api/protocol.ts";
import { engineOptions, seen, type Context } from "../call/context.ts";
import { present } from "../call/data-messages.ts";
import { readProfilePolicy } from "../handlers/governance.ts";
import { inputBytes } from "./memory-messages.ts";
import { withDemanded } from "./review.ts";
import { ensureProfileTarget, wasDeletedElsewhere, type ProfileAddress } from "../handlers/targets.ts";
import type { NodeParts } from "../handlers/node-parts.ts";

/** This much of the memories of one ingest is checked at a time. */
const checkedAtOnceBytes = 64 * 1024;

/** The outcome for each memory, in their order, and the state they are in. */
export interface Ingested {
  readonly results: MessageInitShape<typeof IngestItemSchema>[];
  readonly txid: bigint;
}

/** Ingests all or none; the profile is created when it does not exist. */
export async function ingestInto(
  node: NodeParts,
  context: Context,
  address: ProfileAddress,
  memories: readonly MemoryInput[],
): Promise<Ingested> {
  await checkAll(node, memories);
  const target = await ensureProfileTarget(node, context, address);
  try {
    return await ingestAt(node, context, address, target, memories);
  } catch (error) {
    if (!(await wasDeletedElsewhere(node, address, target, error))) throw error;
    return ingestAt(node, context, address, await ensureProfileTarget(node, context, address), memories);
  }
}

/** What `checkMemories` does, but that a large batch is looked at in pieces: each content is parsed for it. */
async function checkAll({ world }: NodeParts, memories: readonly MemoryInput[]): Promise<void> {
  checkMemoryCount(memories.length);
  let bytes = 0;
  for (let at = 0; at < memories.length; at++) {
    bytes += inputBytes([memories[at]!]);
    if (bytes > checkedAtOnceBytes) {
      await turn(world);
      bytes = 0;
    }
    checkMemory(`memories[${at}]`, memories[at]!);
  }
}

async function ingestAt(
  node: NodeParts,
  context: Context,
  address: ProfileAddress,
  target: Target,
  memories: readonly MemoryInput[],
): Promise<Ingested> {
  const policy = await readProfilePolicy(node, address);
  const { taskTtlMaxSecs } = policy;
  const place = { namespace: address.ns, profile: address.profile, target };
  const prepared = await node.embedding?.memories(context, place, memories);
  const input = {
    memories: withDemanded(prepared?.input ?? memories, policy),
    ...present({ taskTtlMaxSecs }),
  };
  const { value, txid } = seen(
    context,
    await node.engine.write(target, "memory.ingest", input, engineOptions(context, inputBytes(input.memories))),
  );
  prepared?.written();
  return {
    results: value.results.map(({ embedding, expiresAt, ...item }) => ({
      ...item,
      ...present({
        embedding: embedding === "stored" ? undefined : embedding,
        expiresAt: expiresAt === undefined ? undefined : BigInt(expiresAt),
      }),
    })),
    txid,
  };
}
