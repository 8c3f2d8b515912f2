/**
 * Reembed over the wires: a profile's vectors made anew by the node's embedder, step by step.
 *
 * Always true: where it has come to is in the database and in the cursor, so that it can be interrupted anywhere and
 * begun again; policy is asked before anything is dropped or sent.
 */
import type { MemoryService } from "../../../gen/palimpsest/v1/memory_pb.ts";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import type { EmbeddedKind } from "../../model/memory/memory-vectors.ts";
import { engineOptions, seen, type ServiceHandlers } from "../call/context.ts";
import { readProfilePolicy, refuseDeniedEgress } from "../handlers/governance.ts";
import { requireProfileTarget } from "../handlers/targets.ts";
import type { NodeParts } from "../handlers/node-parts.ts";

/** Vectors of another model that are removed in one step. */
export const embedRetiredRowsMax = 500;

/** Where a step begins: a kind, and the row that the step before ended at. */
interface Position {
  readonly kind: EmbeddedKind;
  readonly after: number;
}

const kinds: readonly EmbeddedKind[] = ["memory", "turn"];
const cursorPattern = /^(memory|turn)-(\d{1,15})$/;

function decodeCursor(cursor: string | undefined): Position {
  if (cursor === undefined) return { kind: "memory", after: 0 };
  const [, kind, after] = cursorPattern.exec(cursor) ?? [];
  if (kind === undefined) throw invalid("cursor must be the next_cursor of the step before");
  return { kind: kind as EmbeddedKind, after: Number(after) };
}

function encodeCursor({ kind, after }: Position): string {
  return `${kind}-${after}`;
}

/** The position after a step of a kind; undefined when all is done. */
function following(kind: EmbeddedKind, next: number | undefined): Position | undefined {
  if (next !== undefined) return { kind, after: next };
  const later = kinds[kinds.indexOf(kind) + 1];
  return later && { kind: later, after: 0 };
}

export function reembedHandlers(node: NodeParts): Pick<ServiceHandlers<typeof MemoryService>, "reembed"> {
  return {
    async reembed(request, context) {
      const { embedding } = node;
      if (embedding?.sendsTexts !== false)
        refuseDeniedEgress(await readProfilePolicy(node, request), "embed", embedding?.selfHosted);
      if (!embedding)
        throw new ServiceError(
          "unconfigured",
          "reembed needs SERVICE_EMBED_API_KEY, or SERVICE_EMBED_PROVIDER=local, which this node does not have",
        );
      const { kind, after } = decodeCursor(request.cursor);
      const target = await requireProfileTarget(node, context, request);
      const options = engineOptions(context);
      if (after === 0) {
        const input = { kind, embeddedBy: embedding.maker.name, rowsMax: embedRetiredRowsMax };
        const { value, txid } = seen(context, await node.engine.write(target, "embedding.retire", input, options));
        if (value.more) return { embedded: 0, left: 0, nextCursor: encodeCursor({ kind, after }), txid };
      }
      const place = { namespace: request.ns, profile: request.profile, target };
      const step = await embedding.step({ place, identity: context.identity, kind, after, options });
      const { txid } = seen(context, { value: undefined, txid: step.txid, durableTxid: step.durableTxid });
      if (step.failure !== undefined)
        throw new ServiceError("unavailable", "the embedder gave no vectors; ask for the same step again later", {
          retryAfterSecs: 1,
        });
      const next = following(kind, step.next);
      return { embedded: step.filled, left: step.left, ...(next ? { nextCursor: encodeCursor(next) } : {}), txid };
    },
  };
}
