/** Exports and imports over the wires. */
import type { TransferService } from "../../../gen/palimpsest/v1/transfer_pb.ts";
import { encodeUtf8 } from "../../base/bytes.ts";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { parseDatabaseSpec } from "../../format/core/names.ts";
import { engineOptions, seen, type ServiceHandlers } from "../call/context.ts";
import { present } from "../call/data-messages.ts";
import type { NodeParts } from "../handlers/node-parts.ts";
import { databaseTarget, ensureTarget } from "../handlers/targets.ts";
import { exportType } from "./envelope.ts";
import { firstPart, nextPart } from "./export-parts.ts";
import { runImport } from "./import-call.ts";
import { checkBeginning } from "./import-lines.ts";

/** The handlers of exports and imports. */
export function transferHandlers(node: NodeParts): ServiceHandlers<typeof TransferService> {
  return {
    async export({ db, cursor }, context) {
      if (cursor !== undefined && context.at !== undefined)
        throw invalid("the state is asked for with the first part only: leave it out beside a cursor");
      const target = await databaseTarget(node, context, db);
      const text =
        cursor === undefined ? await firstPart(node, context, target) : await nextPart(node, context, target, cursor);
      return { contentType: exportType, data: encodeUtf8(text) };
    },
    async import({ db, records, mode, dryRun = false, cursor, checkpoint }, context) {
      const { name } = parseDatabaseSpec(db);
      checkType(records?.contentType ?? "");
      const bytes = records?.data ?? new Uint8Array(0);
      const mayMake = !dryRun && cursor === undefined && !(await node.databases.find(name));
      // A profile that is not there is made, but for nothing that is no export.
      if (mayMake) checkBeginning(bytes);
      const target = await (mayMake ? ensureTarget : databaseTarget)(node, context, db);
      const answer = await runImport(node, context, target, { bytes, mode, dryRun, cursor, checkpoint });
      context.mutates = !dryRun;
      // Nothing was written: the answer speaks of the state that was looked at.
      if (context.txid === undefined)
        seen(context, await node.engine.read(target, "memory.held", { memoryIds: [] }, engineOptions(context)));
      const counts = Object.entries(answer.outcomes).map(([kind, ofKind]) => ({
        kind,
        ...present({
          created: ofKind.created,
          replaced: ofKind.replaced,
          unchanged: ofKind.unchanged,
          conflicts: ofKind.conflict,
          duplicates: ofKind.duplicate,
          expired: ofKind.expired,
          erased: ofKind.erased,
        }),
      }));
      return {
        complete: answer.isWhole,
        ...present({ cursor: answer.cursor, checkpoint: answer.checkpoint }),
        nextLine: BigInt(answer.nextLine),
        counts,
        left: answer.left.map((one) => ({ ...one, line: BigInt(one.line) })),
        errors: answer.errors.map((one) => ({ ...one, line: BigInt(one.line) })),
        txid: BigInt(context.txid ?? 0),
      };
    },
  };
}

/** Refuses what a form, or a client that was told nothing else, sends: it may have lost its line breaks. */
function checkType(type: string): void {
  if (!/^(?:application\/x-www-form-urlencoded|multipart\/|application\/json\b)/i.test(type)) return;
  const message = `content-type must be ${exportType}; with curl, send the file by --data-binary`;
  throw new ServiceError("invalid_request", message, { httpStatus: 415 });
}
