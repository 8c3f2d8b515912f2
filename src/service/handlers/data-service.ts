/**
 * The stores of a database over the wires: transcript, SQL, key-value, documents, vectors, and waiting for object
 * storage.
 */
import type { DataService } from "../../../gen/palimpsest/v1/data_pb.ts";
import { facetsDefault, type FacetGroup } from "../../model/facets/facets.ts";
import { engineOptions, seen, type ServiceHandlers } from "../call/context.ts";
import { documentHandlers } from "./document-service.ts";
import { present } from "../call/data-messages.ts";
import { kvHandlers } from "./kv-service.ts";
import type { NodeParts } from "./node-parts.ts";
import { executeSql } from "./sql-service.ts";
import { databaseTarget } from "./targets.ts";
import { transcriptHandlers } from "./transcript-service.ts";
import { turnBatchHandlers } from "./turn-batch-service.ts";
import { vectorHandlers } from "./vector-service.ts";

function groupMessage({ kind, facets, nextCursor, isApproximate = false }: FacetGroup) {
  return {
    kind,
    facets: facets.map(({ name, count, isApproximate: approximate = false, types, indexes, ...told }) => ({
      name,
      approximate,
      types: [...(types ?? [])],
      indexes: [...(indexes ?? [])],
      ...told,
      ...present({ count: count === undefined ? undefined : BigInt(count) }),
    })),
    approximate: isApproximate,
    ...present({ nextCursor }),
  };
}

/** The handlers of the data service. */
export function dataHandlers(node: NodeParts): ServiceHandlers<typeof DataService> {
  return {
    ...transcriptHandlers(node),
    ...turnBatchHandlers(node),
    ...kvHandlers(node),
    ...documentHandlers(node),
    ...vectorHandlers(node),
    async listFacets(request, context) {
      const { kind, limit = facetsDefault, cursor } = request;
      const target = await databaseTarget(node, context, request.db);
      const input = { limit, ...present({ kind, cursor }) };
      const { value, txid } = seen(
        context,
        await node.engine.read(target, "facets.list", input, engineOptions(context)),
      );
      return { groups: value.groups.map(groupMessage), txid };
    },
    executeSql: (request, context) => executeSql(node, request, context),
    async sync(request, context) {
      const target = await databaseTarget(node, context, request.db);
      const { txid } = seen(context, await node.engine.sync(target, engineOptions(context)));
      return { txid };
    },
  };
}
