/** Collections of vectors over the wires. */
import { create, type Message } from "@bufbuild/protobuf";
import {
  GetVectorResponseSchema,
  VectorHitSchema,
  VectorItemSchema,
  type DataService,
  type VectorInput as VectorInputMessage,
} from "../../../gen/palimpsest/v1/data_pb.ts";
import { ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { VectorInput, VectorItem } from "../../model/vectors/vector-collections.ts";
import { engineOptions, seen, type ServiceHandlers } from "../call/context.ts";
import { present, requiredVector } from "../call/data-messages.ts";
import { jsonText, setJson } from "../call/exact-json.ts";
import { databaseTarget } from "./targets.ts";
import type { NodeParts } from "./node-parts.ts";

type VectorHandlers = Pick<
  ServiceHandlers<typeof DataService>,
  "upsertVector" | "upsertVectors" | "searchVectors" | "listVectors" | "getVector" | "deleteVector" | "deleteVectors"
>;

/** The message with the metadata, if there is some. */
function withMetadata<Kind extends Message>(message: Kind, metadata: string | undefined): Kind {
  if (metadata !== undefined) setJson(message, "metadata", metadata);
  return message;
}

/** The numbers and the subject as fields of a message, if there are some. */
function shownFields({ embedding, subject }: VectorItem): { embedding?: { values: number[] }; subject?: string } {
  return present({ embedding: embedding && { values: [...embedding] }, subject });
}

function parseInput(
  place: string,
  message: Pick<VectorInputMessage, "id" | "embedding" | "subject"> & Message,
): VectorInput {
  return {
    id: message.id,
    embedding: requiredVector(`${place}embedding`, message.embedding),
    ...present({ metadata: jsonText(message, "metadata"), subject: message.subject }),
  };
}

function sumVectorBytes(vectors: readonly VectorInput[]): number {
  return vectors.reduce((sum, { embedding, metadata }) => sum + embedding.byteLength + (metadata?.length ?? 0), 0);
}

function writers(node: NodeParts): Pick<VectorHandlers, "upsertVector" | "upsertVectors"> {
  return {
    async upsertVector(request, context) {
      const collection = request.coll;
      const vector = parseInput("", request);
      const target = await databaseTarget(node, context, request.db);
      const { txid } = seen(
        context,
        await node.engine.write(
          target,
          "vector.upsert",
          { collection, ...vector, ...present({ metric: request.metric }) },
          engineOptions(context, sumVectorBytes([vector])),
        ),
      );
      return { txid };
    },
    async upsertVectors(request, context) {
      const collection = request.coll;
      const vectors = request.vectors.map((vector, at) => parseInput(`vectors[${at}].`, vector));
      const target = await databaseTarget(node, context, request.db);
      const { txid } = seen(
        context,
        await node.engine.write(
          target,
          "vector.upsert_many",
          { collection, vectors, ...present({ metric: request.metric }) },
          engineOptions(context, sumVectorBytes(vectors)),
        ),
      );
      return { upserted: vectors.length, txid };
    },
  };
}

function removers(node: NodeParts): Pick<VectorHandlers, "deleteVector" | "deleteVectors"> {
  return {
    async deleteVector(request, context) {
      const collection = request.coll;
      const target = await databaseTarget(node, context, request.db);
      const { txid } = seen(
        context,
        await node.engine.write(target, "vector.delete", { collection, id: request.id }, engineOptions(context)),
      );
      return { txid };
    },
    async deleteVectors(request, context) {
      const collection = request.coll;
      const input = {
        collection,
        ids: request.ids,
        ...present({ filter: jsonText(request, "filter"), cursor: request.cursor }),
      };
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(
        context,
        await node.engine.write(target, "vector.delete_many", input, engineOptions(context)),
      );
      return { ...value, txid };
    },
  };
}

function searchers(node: NodeParts): Pick<VectorHandlers, "searchVectors"> {
  return {
    async searchVectors(request, context) {
      const collection = request.coll;
      const { id, metric, includeMetadata } = request;
      const input = {
        collection,
        k: request.k ?? limits.vectorSearchDefault,
        includeVectors: request.includeVectors,
        ...present({
          vector: request.vector && requiredVector("vector", request.vector),
          id,
          filter: jsonText(request, "filter"),
          metric,
          includeMetadata,
        }),
      };
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(
        context,
        await node.engine.read(target, "vector.search", input, engineOptions(context)),
      );
      return {
        hits: value.hits.map((hit) =>
          withMetadata(
            create(VectorHitSchema, { id: hit.id, distance: hit.distance, ...shownFields(hit) }),
            hit.metadata,
          ),
        ),
        ...present({ metric: value.metric }),
        txid,
      };
    },
  };
}

function readers(node: NodeParts): Pick<VectorHandlers, "listVectors" | "getVector"> {
  return {
    async listVectors(request, context) {
      const input = {
        collection: request.coll,
        includeVectors: request.includeVectors,
        ...present({ limit: request.limit, cursor: request.cursor, filter: request.filter }),
      };
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(
        context,
        await node.engine.read(target, "vector.list", input, engineOptions(context)),
      );
      const vectors = value.vectors.map((item) =>
        withMetadata(create(VectorItemSchema, { id: item.id, ...shownFields(item) }), item.metadata),
      );
      return { vectors, txid, ...present({ nextCursor: value.nextCursor }) };
    },
    async getVector(request, context) {
      const collection = request.coll;
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(
        context,
        await node.engine.read(target, "vector.get", { collection, id: request.id }, engineOptions(context)),
      );
      if (!value) throw new ServiceError("not_found", "no vector has this id");
      return withMetadata(
        create(GetVectorResponseSchema, { id: value.id, ...shownFields(value), txid }),
        value.metadata,
      );
    },
  };
}

/** The handlers of vectors. */
export function vectorHandlers(node: NodeParts): VectorHandlers {
  return { ...writers(node), ...removers(node), ...searchers(node), ...readers(node) };
}
