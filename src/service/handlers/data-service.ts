/**
 * The stores of a database over the wires: transcript, SQL, key-value, documents, vectors, and waiting for object
 * storage.
 */
import type { DataService } from "../../../gen/palimpsest/v1/data_pb.ts";
import { engineOptions, seen, type ServiceHandlers } from "../call/context.ts";
import { documentHandlers } from "./document-service.ts";
import { kvHandlers } from "./kv-service.ts";
import type { NodeParts } from "./node-parts.ts";
import { executeSql } from "./sql-service.ts";
import { databaseTarget } from "./targets.ts";
import { transcriptHandlers } from "./transcript-service.ts";
import { turnBatchHandlers } from "./turn-batch-service.ts";
import { vectorHandlers } from "./vector-service.ts";

/** The handlers of the data service. */
export function dataHandlers(node: NodeParts): ServiceHandlers<typeof DataService> {
  return {
    ...transcriptHandlers(node),
    ...turnBatchHandlers(node),
    ...kvHandlers(node),
    ...documentHandlers(node),
    ...vectorHandlers(node),
    executeSql: (request, context) => executeSql(node, request, context),
    async sync(request, context) {
      const target = await databaseTarget(node, context, request.db);
      const { txid } = seen(context, await node.engine.sync(target, engineOptions(context)));
      return { txid };
    },
  };
}
