/** The stores of a database over the wires: transcript, SQL, key-value, documents, vectors. */
import { create } from "@bufbuild/protobuf";
import { FindDocsResponseSchema, type DataService } from "../../gen/palimpsest/v1/data_pb.ts";
import { invalid, ServiceError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import { checkCollectionName, checkKvKey, checkSessionId, checkText, parseDatabaseSpec, profileOfDatabaseName } from "../format/names.ts";
import { engineOptions, seen, type ServiceHandlers } from "./context.ts";
import { present, requiredVector, turnMessage } from "./data-messages.ts";
import { jsonElements, jsonText, setJson } from "./exact-json.ts";
import { executeSql } from "./sql-service.ts";
import { databaseTarget } from "./targets.ts";
import { vectorHandlers } from "./vector-service.ts";
import type { NodeParts } from "./node-parts.ts";

type DataHandlers = ServiceHandlers<typeof DataService>;

function transcriptHandlers(node: NodeParts): Pick<DataHandlers, "appendTurn" | "listTurns" | "searchTurns"> {
  return {
    async appendTurn(request, context) {
      const content = jsonText(request, "content") ?? "null";
      const embedding = request.embedding && requiredVector("embedding", request.embedding);
      checkText("role", request.role, limits.roleBytesMax);
      const input = { sessionId: checkSessionId(request.session), role: request.role, content, ...present({ embedding }) };
      const target = await databaseTarget(node, context, request.db);
      // Only a namespace has a policy that lets text out.
      const owner = profileOfDatabaseName(parseDatabaseSpec(request.db).name);
      const prepared = owner && !embedding ? await node.embedding?.turn(context, { ...owner, target }, input) : undefined;
      const { value, txid } = seen(context, await node.engine.write(target, "turn.append", prepared?.input ?? input, engineOptions(context, content.length)));
      prepared?.written();
      return { seq: BigInt(value.seq), txid, ...present({ embedding: value.embedding === "stored" ? undefined : value.embedding }) };
    },
    async listTurns(request, context) {
      const sessionId = checkSessionId(request.session);
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(context, await node.engine.read(target, "turn.last", { sessionId, last: request.last ?? limits.turnsDefault }, engineOptions(context)));
      return { turns: value.turns.map(turnMessage), txid };
    },
    async searchTurns(request, context) {
      const sessionId = checkSessionId(request.session);
      const vector = requiredVector("vector", request.vector);
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(context, await node.engine.read(target, "turn.search", { sessionId, vector, k: request.k ?? limits.turnSearchDefault }, engineOptions(context)));
      return { turns: value.turns.map(turnMessage), txid };
    },
  };
}

function kvHandlers(node: NodeParts): Pick<DataHandlers, "listKeys" | "getValue" | "putValue" | "deleteValue"> {
  const checked = (request: { readonly ns: string; readonly key: string }): { ns: string; key: string } => ({
    ns: checkCollectionName("ns", request.ns),
    key: checkKvKey(request.key),
  });
  return {
    async listKeys(request, context) {
      const ns = checkCollectionName("ns", request.ns);
      const target = await databaseTarget(node, context, request.db);
      const input = { ns, limit: request.limit ?? limits.kvListDefault, ...present({ prefix: request.prefix, cursor: request.cursor }) };
      const { value, txid } = seen(context, await node.engine.read(target, "kv.list", input, engineOptions(context)));
      return { keys: [...value.keys], ...present({ nextCursor: value.nextCursor }), txid };
    },
    async getValue(request, context) {
      const { consistency = context.consistency } = request;
      if (consistency !== undefined && consistency !== "primary" && consistency !== "cached") throw invalid("consistency must be primary or cached");
      if (context.consistency !== undefined && consistency !== context.consistency) throw invalid("consistency is given twice, with different values: as a query and as Service-Consistency");
      const input = checked(request);
      const target = await databaseTarget(node, context, request.db);
      const { value } = seen(context, await node.engine.read(target, "kv.get", input, { ...engineOptions(context), consistency }));
      if (!value) throw new ServiceError("not_found", "no live value has this key");
      return { contentType: "text/plain", data: value.value };
    },
    async putValue(request, context) {
      const value = request.value?.data ?? new Uint8Array(0);
      const input = { ...checked(request), value, ...present({ ttlSecs: request.ttl }) };
      const target = await databaseTarget(node, context, request.db);
      const { txid } = seen(context, await node.engine.write(target, "kv.put", input, engineOptions(context, value.length)));
      return { txid };
    },
    async deleteValue(request, context) {
      const input = checked(request);
      const target = await databaseTarget(node, context, request.db);
      const { txid } = seen(context, await node.engine.write(target, "kv.delete", input, engineOptions(context)));
      return { txid };
    },
  };
}

function documentHandlers(node: NodeParts): Pick<DataHandlers, "insertDocs" | "findDocs" | "updateDocs" | "deleteDocs" | "createDocIndex"> {
  return {
    async insertDocs(request, context) {
      const docs = jsonElements(request, "docs");
      if (docs.length === 0 || docs.length > limits.docsInsertMax) throw invalid(`docs must hold 1 to ${limits.docsInsertMax} documents`);
      const collection = checkCollectionName("collection", request.coll);
      const target = await databaseTarget(node, context, request.db);
      const bytes = docs.reduce((sum, doc) => sum + doc.length, 0);
      const { value, txid } = seen(context, await node.engine.write(target, "docs.insert", { collection, docs }, engineOptions(context, bytes)));
      return { ids: [...value.ids], txid };
    },
    async findDocs(request, context) {
      const collection = checkCollectionName("collection", request.coll);
      const sort = request.sort.map(({ path, direction }) => ({ path, direction }));
      const input = { collection, sort, ...present({ filter: jsonText(request, "filter"), limit: request.limit, skip: request.skip }) };
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(context, await node.engine.read(target, "docs.find", input, engineOptions(context)));
      const response = create(FindDocsResponseSchema, { txid });
      setJson(response, "docs", `[${value.docs.join(",")}]`);
      return response;
    },
    async updateDocs(request, context) {
      const collection = checkCollectionName("collection", request.coll);
      const input = { collection, filter: jsonText(request, "filter") ?? "{}", update: jsonText(request, "update") ?? "{}", multi: request.multi };
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(context, await node.engine.write(target, "docs.update", input, engineOptions(context, input.update.length)));
      return { ...value, txid };
    },
    async deleteDocs(request, context) {
      const input = { collection: checkCollectionName("collection", request.coll), filter: jsonText(request, "filter") ?? "{}", multi: request.multi };
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(context, await node.engine.write(target, "docs.delete", input, engineOptions(context)));
      return { ...value, txid };
    },
    async createDocIndex(request, context) {
      const input = { collection: checkCollectionName("collection", request.coll), path: request.path };
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(context, await node.engine.write(target, "docs.index", input, engineOptions(context)));
      return { ...value, txid };
    },
  };
}

export function dataHandlers(node: NodeParts): DataHandlers {
  return {
    ...transcriptHandlers(node),
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
