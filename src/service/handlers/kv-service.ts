/** Keys and values over the wires. */
import { create } from "@bufbuild/protobuf";
import {
  ValueEntrySchema,
  type DataService,
  type ValueEntry,
  type ValueInput,
} from "../../../gen/palimpsest/v1/data_pb.ts";
import { decodeUtf8, encodeUtf8, isWellFormed } from "../../base/bytes.ts";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { hashOf } from "../../model/core/expected.ts";
import type { KvEntry } from "../../model/kv/kv-entries.ts";
import { expectedHash, expectsNone, tagged } from "../call/conditions.ts";
import { engineOptions, seen, type ServiceHandlers } from "../call/context.ts";
import { present } from "../call/data-messages.ts";
import type { NodeParts } from "./node-parts.ts";
import { databaseTarget } from "./targets.ts";

type KvHandlers = Pick<
  ServiceHandlers<typeof DataService>,
  "listKeys" | "getValue" | "putValue" | "deleteValue" | "getValues" | "putValues" | "deleteValues"
>;

function entryMessage({ key, size, expiresAt, value, subject }: KvEntry): ValueEntry {
  const text = value && decodeUtf8(value);
  return create(ValueEntrySchema, {
    key,
    size: BigInt(size),
    ...present({
      expiresAt: expiresAt === undefined ? undefined : BigInt(expiresAt),
      text,
      bytes: text === undefined ? value : undefined,
      hash: value && hashOf(value),
      subject,
    }),
  });
}

/** The bytes to be stored. */
function readValue({ text, bytes }: ValueInput, at: number): Uint8Array {
  if ((text === undefined) === (bytes === undefined)) throw invalid(`items[${at}] must have either text or bytes`);
  if (text !== undefined && !isWellFormed(text)) throw invalid(`items[${at}].text must be valid UTF-8 text`);
  return bytes ?? encodeUtf8(text!);
}

function singles(node: NodeParts): Pick<KvHandlers, "getValue" | "putValue" | "deleteValue"> {
  return {
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
      context.expiresAt = value.expiresAt;
      context.subject = value.subject;
      return { contentType: "text/plain", data: value.value };
    },
    async putValue(request, context) {
      const value = request.value?.data ?? new Uint8Array(0);
      const expected = { ...expectedHash(request.ifMatch, context), ...expectsNone(request.ifAbsent, context) };
      const { ns, key, ttl, subject } = request;
      const input = { ns, key, value, ...expected, ...present({ ttlSecs: ttl, subject }) };
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

function batches(node: NodeParts): Pick<KvHandlers, "getValues" | "putValues" | "deleteValues"> {
  return {
    async getValues(request, context) {
      const input = { ns: request.ns, keys: request.keys };
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(
        context,
        await node.engine.read(target, "kv.get_many", input, engineOptions(context)),
      );
      return { entries: value.entries.map(entryMessage), remaining: [...value.remaining], txid };
    },
    async putValues(request, context) {
      const { ns } = request;
      const items = request.items.map((item, at) => ({
        key: item.key,
        value: readValue(item, at),
        ...present({
          ttlSecs: item.ttl,
          ifMatch: item.ifMatch,
          ifAbsent: item.ifAbsent || undefined,
          subject: item.subject,
        }),
      }));
      const bytes = items.reduce((sum, { value }) => sum + value.length, 0);
      const target = await databaseTarget(node, context, request.db);
      const { txid } = seen(
        context,
        await node.engine.write(target, "kv.put_many", { ns, items }, engineOptions(context, bytes)),
      );
      return { hashes: items.map(({ value }) => hashOf(value)), txid };
    },
    async deleteValues(request, context) {
      const { ns } = request;
      const items = request.items.map(({ key, ifMatch }) => ({ key, ...present({ ifMatch }) }));
      const target = await databaseTarget(node, context, request.db);
      const { value, txid } = seen(
        context,
        await node.engine.write(target, "kv.delete_many", { ns, items }, engineOptions(context)),
      );
      return { deleted: value.deleted, txid };
    },
  };
}

/** The handlers of keys and values. */
export function kvHandlers(node: NodeParts): KvHandlers {
  return {
    ...singles(node),
    ...batches(node),
    async listKeys(request, context) {
      const { ns } = request;
      const target = await databaseTarget(node, context, request.db);
      const { prefix, start, end, order, cursor, include } = request;
      const input = {
        ns,
        limit: request.limit ?? limits.kvListDefault,
        ...present({ prefix, start, end, order, cursor, include }),
      };
      const { value, txid } = seen(context, await node.engine.read(target, "kv.list", input, engineOptions(context)));
      const entries = value.entries && { values: value.entries.map(entryMessage) };
      return { keys: [...value.keys], ...present({ entries, nextCursor: value.nextCursor }), txid };
    },
  };
}
