/** Collections of documents over the wires. */
import { create } from "@bufbuild/protobuf";
import {
  DocGroupSchema,
  FindDocsResponseSchema,
  GetDocResponseSchema,
  type DataService,
} from "../../../gen/palimpsest/v1/data_pb.ts";
import { ServiceError } from "../../base/faults/errors.ts";
import { expectedHash, expectsNone, tagged } from "../call/conditions.ts";
import { engineOptions, seen, type ServiceHandlers } from "../call/context.ts";
import { present } from "../call/data-messages.ts";
import { jsonElements, jsonText, setJson } from "../call/exact-json.ts";
import type { NodeParts } from "./node-parts.ts";
import { databaseTarget } from "./targets.ts";

type DocumentHandlers = Pick<
  ServiceHandlers<typeof DataService>,
  | "insertDocs"
  | "findDocs"
  | "countDocs"
  | "groupDocs"
  | "updateDocs"
  | "deleteDocs"
  | "putDoc"
  | "getDoc"
  | "deleteDoc"
  | "createDocIndex"
  | "listDocIndexes"
  | "dropDocIndex"
  | "listDocCollections"
>;

function writers(node: NodeParts): Pick<DocumentHandlers, "insertDocs" | "updateDocs" | "deleteDocs"> {
  return {
    async insertDocs(request, context) {
      const docs = jsonElements(request, "docs");
      const collection = request.coll;
      const target = await databaseTarget(node, context, request.db);
      const bytes = docs.reduce((sum, doc) => sum + doc.length, 0);
      const { value, txid } = seen(
        context,
        await node.engine.write(
          target,
          "docs.insert",
          { collection, docs, ...present({ subject: request.subject }) },
          engineOptions(context, bytes),
        ),
      );
      return { ids: [...value.ids], txid };
    },
    async updateDocs(request, context) {
      const collection = request.coll;
      const input = {
        collection,
        filter: jsonText(request, "filter") ?? "{}",
        update: jsonText(request, "update") ?? "{}",
        multi: request.multi,
        ...(request.upsert && { upsert: true }),
      };
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(
        context,
        await node.engine.write(target, "docs.update", input, engineOptions(context, input.update.length)),
      );
      return { ...value, txid };
    },
    async deleteDocs(request, context) {
      const input = {
        collection: request.coll,
        filter: jsonText(request, "filter") ?? "{}",
        multi: request.multi,
      };
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(
        context,
        await node.engine.write(target, "docs.delete", input, engineOptions(context)),
      );
      return { ...value, txid };
    },
  };
}

/** Of single documents, by their `_id`. */
function byId(node: NodeParts): Pick<DocumentHandlers, "putDoc" | "getDoc" | "deleteDoc"> {
  return {
    async putDoc(request, context) {
      const { coll: collection, id } = request;
      const doc = jsonText(request, "doc") ?? "{}";
      const expected = { ...expectedHash(request.ifMatch, context), ...expectsNone(request.ifAbsent, context) };
      const target = await databaseTarget(node, context, request.db);
      const input = { collection, id, doc, ...expected, ...present({ subject: request.subject }) };
      const { value, txid } = seen(
        context,
        await node.engine.write(target, "docs.put", input, engineOptions(context, doc.length)),
      );
      tagged(context, value.hash);
      return { ...value, txid };
    },
    async getDoc({ db, coll: collection, id }, context) {
      const target = await databaseTarget(node, context, db);
      const { value, txid } = seen(
        context,
        await node.engine.read(target, "docs.get", { collection, id }, engineOptions(context)),
      );
      if (!value) throw new ServiceError("not_found", "no document of the collection has this _id");
      tagged(context, value.hash);
      const response = create(GetDocResponseSchema, { hash: value.hash, txid, ...present({ subject: value.subject }) });
      setJson(response, "doc", value.doc);
      return response;
    },
    async deleteDoc({ db, coll: collection, id, ifMatch }, context) {
      const target = await databaseTarget(node, context, db);
      const input = { collection, id, ...expectedHash(ifMatch, context) };
      const { value, txid } = seen(
        context,
        await node.engine.write(target, "docs.remove", input, engineOptions(context)),
      );
      return { ...value, txid };
    },
  };
}

function readers(node: NodeParts): Pick<DocumentHandlers, "findDocs" | "countDocs" | "groupDocs"> {
  return {
    async findDocs(request, context) {
      const collection = request.coll;
      const sort = request.sort.map(({ path, direction }) => ({ path, direction }));
      const input = {
        collection,
        sort,
        ...present({
          filter: jsonText(request, "filter"),
          limit: request.limit,
          skip: request.skip,
          projection: jsonText(request, "projection"),
        }),
      };
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(context, await node.engine.read(target, "docs.find", input, engineOptions(context)));
      const response = create(FindDocsResponseSchema, { txid });
      setJson(response, "docs", `[${value.docs.join(",")}]`);
      return response;
    },
    async countDocs(request, context) {
      const input = {
        collection: request.coll,
        ...present({ filter: jsonText(request, "filter"), limit: request.limit }),
      };
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(
        context,
        await node.engine.read(target, "docs.count", input, engineOptions(context)),
      );
      return { ...value, txid };
    },
    async groupDocs(request, context) {
      const input = {
        collection: request.coll,
        path: request.path,
        ...present({ filter: jsonText(request, "filter"), limit: request.limit }),
      };
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(
        context,
        await node.engine.read(target, "docs.group", input, engineOptions(context)),
      );
      const groups = value.groups.map(({ value: text, count }) => {
        const group = create(DocGroupSchema, { count });
        setJson(group, "value", text);
        return group;
      });
      return { groups, distinct: value.distinct, txid };
    },
  };
}

type CatalogCalls = "createDocIndex" | "listDocIndexes" | "dropDocIndex" | "listDocCollections";

/** Collections and their indexes. */
function catalog(node: NodeParts): Pick<DocumentHandlers, CatalogCalls> {
  return {
    async createDocIndex(request, context) {
      const input = { collection: request.coll, path: request.path };
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(
        context,
        await node.engine.write(target, "docs.index", input, engineOptions(context)),
      );
      return { ...value, txid };
    },
    async listDocIndexes(request, context) {
      const input = { collection: request.coll };
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(
        context,
        await node.engine.read(target, "docs.indexes", input, engineOptions(context)),
      );
      return { indexes: [...value.indexes], txid };
    },
    async dropDocIndex(request, context) {
      const input = { collection: request.coll, path: request.path };
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(
        context,
        await node.engine.write(target, "docs.unindex", input, engineOptions(context)),
      );
      return { ...value, txid };
    },
    async listDocCollections({ db, limit, after }, context) {
      const input = present({ limit, after });
      const target = await databaseTarget(node, context, db);
      const { value, txid } = seen(
        context,
        await node.engine.read(target, "docs.collections", input, engineOptions(context)),
      );
      return { collections: [...value.collections], txid };
    },
  };
}

/** The handlers of documents. */
export function documentHandlers(node: NodeParts): DocumentHandlers {
  return { ...writers(node), ...byId(node), ...readers(node), ...catalog(node) };
}
