/** Keys and values over the wires. */
import type { DataService } from "../../../gen/palimpsest/v1/data_pb.ts";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { hashOf } from "../../model/core/expected.ts";
import { expectedHash, expectsNone, tagged } from "../call/conditions.ts";
import { engineOptions, seen, type ServiceHandlers } from "../call/context.ts";
import { present } from "../call/data-messages.ts";
import type { NodeParts } from "./node-parts.ts";
import { databaseTarget } from "./targets.ts";

type KvHandlers = Pick<ServiceHandlers<typeof DataService>, "listKeys" | "getValue" | "putValue" | "deleteValue">;

/** The handlers of keys and values. */
export function kvHandlers(node: NodeParts): KvHandlers {
  return {
    async listKeys(request, context) {
      const target = await databaseTarget(node, context, request.db);
      const input = {
        ns: request.ns,
        limit: request.limit ?? limits.kvListDefault,
        ...present({ prefix: request.prefix, cursor: request.cursor }),
      };
      const { value, txid } = seen(context, await node.engine.read(target, "kv.list", input, engineOptions(context)));
      return { keys: [...value.keys], ...present({ nextCursor: value.nextCursor }), txid };
    },
    async getValue(request, context) {
      const consistency = (request.consistency as "primary" | "cached" | undefined) ?? context.consistency;
      if (context.consistency !== undefined && consistency !== context.consistency)
        throw invalid("consistency is given twice, with different values: as a query and as Service-Consistency");
      const input = { ns: request.ns, key: request.key };
      const target = await databaseTarget(node, context, request.db);
      const { value } = seen(
        context,
        await node.engine.read(target, "kv.get", input, { ...engineOptions(context), consistency }),
      );
      if (!value) throw new ServiceError("not_found", "no live value has this key");
      tagged(context, hashOf(value.value));
      return { contentType: "text/plain", data: value.value };
    },
    async putValue(request, context) {
      const value = request.value?.data ?? new Uint8Array(0);
      const expected = { ...expectedHash(request.ifMatch, context), ...expectsNone(request.ifAbsent, context) };
      const input = { ns: request.ns, key: request.key, value, ...expected, ...present({ ttlSecs: request.ttl }) };
      const target = await databaseTarget(node, context, request.db);
      const { txid } = seen(
        context,
        await node.engine.write(target, "kv.put", input, engineOptions(context, value.length)),
      );
      tagged(context, hashOf(value));
      return { txid };
    },
    async deleteValue(request, context) {
      const input = { ns: request.ns, key: request.key, ...expectedHash(request.ifMatch, context) };
      const target = await databaseTarget(node, context, request.db);
      const { txid } = seen(context, await node.engine.write(target, "kv.delete", input, engineOptions(context)));
      return { txid };
    },
  };
}
