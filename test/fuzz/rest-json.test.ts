/**
 * REST JSON against the runtime's own ProtoJSON: what is accepted means the same, what is written means the same, and
 * nothing a client can send is a fault of ours.
 *
 * The oracle is protobuf-es itself: `protoJson` turns the specification's JSON into ProtoJSON by the descriptors and
 * shares no line with the codecs.
 */
import * as http from "node:http";
import { once } from "node:events";
import {
  create,
  type DescField,
  type DescMessage,
  equals,
  fromJson,
  getOption,
  type JsonObject,
  type JsonValue,
  type Message,
  ScalarType,
} from "@bufbuild/protobuf";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { field_behavior, FieldBehavior } from "../../gen/google/api/field_behavior_pb.ts";
import { json as jsonOption } from "../../gen/palimpsest/v1/options_pb.ts";
import { ServiceError } from "../../src/base/faults/errors.ts";
import { limits } from "../../src/base/limits.ts";
import { realWorld } from "../../src/base/world.ts";
import { silentLog } from "../../src/base/log.ts";
import { createDoors } from "../../src/server/node/request-handler.ts";
import { createListener, type Listener } from "../../src/server/wire/listener.ts";
import { compileBody } from "../../src/server/wire/json-decoder.ts";
import { compileWriter } from "../../src/server/rest/rest-encoder.ts";
import { getJsonKind, parseExact, getRawNumber } from "../../src/service/call/exact-json.ts";
import { type Endpoint, endpoints, pathTemplate } from "../../src/service/call/methods.ts";
import { received } from "../support/echo-node.ts";

const text = fc.string({ unit: "binary", maxLength: 12 });
const number = fc.oneof(
  fc.integer(),
  fc.double({ noDefaultInfinity: true, noNaN: true }).map((value) => value + 0),
);
/** Any JSON as text would have it: no -0, no undefined. */
const anyJson = fc.jsonValue({ maxDepth: 3 }).map((value) => JSON.parse(JSON.stringify(value)) as JsonValue);
const anyObject = fc
  .dictionary(text, anyJson, { maxKeys: 3 })
  .map((value) => JSON.parse(JSON.stringify(value)) as JsonObject);

const isOptional = (field: DescField): boolean => !getOption(field, field_behavior).includes(FieldBehavior.REQUIRED);

function scalarJson(type: ScalarType): fc.Arbitrary<JsonValue> {
  switch (type) {
    case ScalarType.STRING:
      return text;
    case ScalarType.BOOL:
      return fc.boolean();
    case ScalarType.UINT32:
      return fc.nat();
    case ScalarType.INT32:
      return fc.integer();
    case ScalarType.INT64:
      return fc.maxSafeInteger();
    case ScalarType.FLOAT:
      return fc.float({ noDefaultInfinity: true, noNaN: true }).map((value) => value + 0);
    case ScalarType.BYTES:
      return fc.uint8Array({ maxLength: 8 }).map((bytes) => Buffer.from(bytes).toString("base64"));
    default:
      return number;
  }
}

/** What a client may write in a field. */
function fieldJson(field: DescField): fc.Arbitrary<JsonValue> {
  const { bareList, orderedObject } = getOption(field, jsonOption);
  switch (getJsonKind(field)) {
    case "value":
      return anyJson;
    case "object":
      return anyObject;
    case "objects":
      return fc.array(anyObject, { maxLength: 3 });
    case "arrays":
    case "values":
      return fc.array(fc.array(anyJson, { maxLength: 3 }), { maxLength: 3 });
    case undefined:
  }
  if (bareList) return fieldJson(field.message!.fields[0]!);
  if (orderedObject)
    return fc
      .dictionary(text, fc.constantFrom(1, -1), { maxKeys: 3 })
      .map((value) => JSON.parse(JSON.stringify(value)) as JsonObject);
  if (field.fieldKind === "list")
    return fc.array(field.listKind === "message" ? messageJson(field.message.fields) : scalarJson(field.scalar!), {
      maxLength: 3,
    });
  if (field.fieldKind === "map")
    return fc
      .dictionary(text, scalarJson(field.scalar!), { maxKeys: 3 })
      .map((value) => JSON.parse(JSON.stringify(value)) as JsonObject);
  return field.fieldKind === "message" ? messageJson(field.message.fields) : scalarJson(field.scalar!);
}

/** What a client may write for a list of fields: required ones always, the others or not. */
function messageJson(fields: readonly DescField[]): fc.Arbitrary<JsonObject> {
  const model = Object.fromEntries(fields.map((field) => [field.name, fieldJson(field)]));
  return fc.record(model, {
    requiredKeys: fields.filter((field) => !isOptional(field)).map(({ name }) => name),
  }) as fc.Arbitrary<JsonObject>;
}

/** The specification's JSON of a message as ProtoJSON. */
function protoJson(type: DescMessage, json: JsonObject): JsonObject {
  return Object.fromEntries(
    type.fields.flatMap((field) => {
      const value = Object.hasOwn(json, field.name) ? json[field.name] : undefined;
      const isAbsent = value === undefined || (value === null && getJsonKind(field) !== "value");
      return isAbsent ? [] : [[field.name, toProtoJson(field, value)] as const];
    }),
  );
}

function toProtoJson(field: DescField, value: JsonValue): JsonValue {
  const { bareList, orderedObject, acceptNumber } = getOption(field, jsonOption);
  const exact = getRawNumber(value);
  if (exact !== undefined) return field.scalar === ScalarType.INT64 ? exact : Number(exact);
  if (getJsonKind(field) !== undefined) return value;
  if (bareList) return { values: toProtoJson(field.message!.fields[0]!, value) };
  if (orderedObject)
    return Object.entries(value as JsonObject).map(([path, direction]) => ({ path, direction: direction! }));
  if (acceptNumber) return String(value);
  if (Array.isArray(value))
    return value.map((item) => (field.message ? protoJson(field.message, item as JsonObject) : item));
  if (field.fieldKind === "map")
    return Object.fromEntries(Object.entries(value as JsonObject).map(([key, item]) => [key, String(item)]));
  return field.message
    ? protoJson(field.message, value as JsonObject)
    : field.scalar === ScalarType.INT64
      ? String(value)
      : value;
}

const withBody = endpoints.filter((endpoint) => endpoint.bodyField === "*");

describe("decoding", () => {
  test.each(withBody.map((endpoint) => [endpoint.name, endpoint] as const))(
    "%s: every valid body means what ProtoJSON says it means",
    (_name, endpoint) => {
      const decoder = compileBody(endpoint.bodyFields);
      const input = endpoint.method.input;
      fc.assert(
        fc.property(messageJson(endpoint.bodyFields), (json) => {
          const given = JSON.stringify(json);
          let message: Message = create(input);
          if (!decoder.decode(message, JSON.parse(given))) {
            message = create(input);
            decoder.decode(message, parseExact(given));
          }
          expect(equals(input, message, fromJson(input, protoJson(input, json)))).toBe(true);
        }),
        { numRuns: 60 },
      );
    },
  );

  test.each(withBody.map((endpoint) => [endpoint.name, endpoint] as const))(
    "%s: a value of the wrong type is refused by its place, or was right there",
    (_name, endpoint) => {
      const decoder = compileBody(endpoint.bodyFields);
      const wrong = fc.constantFrom<unknown>(
        null,
        true,
        -1,
        1.5,
        1e39,
        1e308,
        "text",
        "\ud800",
        [],
        [[]],
        {},
        [null],
        { x: {} },
        parseExact("9".repeat(400)),
        parseExact("9007199254740993"),
      );
      fc.assert(
        fc.property(messageJson(endpoint.bodyFields), wrong, fc.nat(), (json, value, seed) => {
          const body = JSON.parse(JSON.stringify(json)) as unknown;
          const places = placesIn(body);
          const place = places[seed % places.length];
          if (place) place.holder[place.key] = value;
          try {
            decoder.decode(create(endpoint.method.input), body);
          } catch (error) {
            expect(error).toBeInstanceOf(ServiceError);
            expect((error as ServiceError).code).toBe("invalid_request");
            expect((error as ServiceError).message).toMatch(/^([\w.[\]…-]|"[^"]*")+ (must|is) |^the body must/);
          }
        }),
        { numRuns: 120 },
      );
    },
  );
});

interface Spot {
  readonly holder: Record<string | number, unknown>;
  readonly key: string | number;
}

function placesIn(json: unknown): Spot[] {
  if (typeof json !== "object" || json === null) return [];
  const holder = json as Record<string | number, unknown>;
  return Object.keys(json)
    .filter((key) => key !== "__proto__")
    .flatMap((key) => [{ holder, key }, ...placesIn(holder[key])]);
}

describe("encoding", () => {
  const outputs = [...new Map(endpoints.map(({ method }) => [method.output.typeName, method.output])).values()];
  test.each(
    outputs.filter(({ typeName }) => typeName !== "google.api.HttpBody").map((type) => [type.typeName, type] as const),
  )("%s: what is written means what the message holds", (_name, type) => {
    const write = compileWriter(type);
    fc.assert(
      fc.property(messageJson(type.fields), (json) => {
        const message = fromJson(type, protoJson(type, json));
        const written = parseExact(write(message)) as JsonObject;
        expect(equals(type, fromJson(type, protoJson(type, written)), message)).toBe(true);
        for (const field of type.fields) {
          const isAlways =
            getOption(field, jsonOption).nullWhenAbsent ||
            (!field.proto.proto3Optional && field.fieldKind !== "message");
          if (isAlways) expect(Object.hasOwn(written, field.name)).toBe(true);
        }
      }),
      { numRuns: 60 },
    );
  });
});

describe("through a socket", () => {
  const faults: unknown[] = [];
  let listener: Listener;
  let port = 0;
  const agent = new http.Agent({ keepAlive: true });
  beforeAll(async () => {
    const world = realWorld();
    const log = { ...silentLog, error: (_message: string, error: unknown) => void faults.push(error) };
    const doors = createDoors({
      dispatch: async (call) => {
        await received(call);
        return { message: create(call.endpoint.method.output), headers: [] };
      },
      isReady: () => ({ ready: true, checks: {} }),
      world,
      log,
      dataBodyBytesMax: 2 * 1024 * 1024,
      databaseHostSuffix: "localhost",
    });
    listener = createListener({ host: "127.0.0.1", port: 0, onRequest: doors, world, log });
    ({ port } = await listener.listen());
  });
  afterAll(async () => {
    agent.destroy();
    await listener.close();
  });

  interface Reply {
    readonly status: number;
    readonly text: string;
  }

  async function send(
    method: string,
    path: string,
    type: string | undefined,
    body: Uint8Array | string | undefined,
  ): Promise<Reply> {
    // By itself Node's client frames no body of a GET or DELETE, and its bytes would be the next request.
    const length = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
    const request = http.request({
      host: "127.0.0.1",
      port,
      agent,
      method,
      path,
      headers: { ...length, ...(type === undefined ? {} : { "content-type": type }) },
    });
    request.end(body);
    const [response] = (await once(request, "response")) as [http.IncomingMessage];
    let received = "";
    for await (const chunk of response.setEncoding("utf8")) received += chunk;
    return { status: response.statusCode!, text: received };
  }

  const buildPath = (endpoint: Endpoint): string => pathTemplate(endpoint.segments).replaceAll(/\{\w+\}/g, "x");

  function checkEnvelope(reply: Reply, statuses: readonly number[]): void {
    expect(statuses).toContain(reply.status);
    if (reply.status < 400) return;
    const envelope = JSON.parse(reply.text) as object;
    expect(Object.keys(envelope)).toEqual(["error", "code"]);
  }

  test.each(endpoints.map((endpoint) => [endpoint.name, endpoint] as const))(
    "%s answers bad bodies with the envelope and never with 500",
    async (_name, endpoint) => {
      const path = buildPath(endpoint);
      const { status } = endpoint.rule;
      const isJson = endpoint.bodyField === "*";
      const depth = limits.jsonDepthMax * 1000;
      const bodies: (string | Uint8Array)[] = [
        "{",
        "[]",
        "null",
        "1",
        '""',
        "{}",
        `{"a":${"9".repeat(10_000)}}`,
        `${"[".repeat(depth)}${"]".repeat(depth)}`,
        `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`,
        new Uint8Array([0xff, 0xfe]),
        '{"\\u0000":1}',
        `{"${"k".repeat(5000)}":1}`,
      ];
      for (const body of bodies)
        checkEnvelope(
          await send(endpoint.httpMethod, path, "application/json", body),
          isJson ? [status, 400] : [status],
        );
      checkEnvelope(await send(endpoint.httpMethod, path, "text/html", "x"), isJson ? [415] : [status]);
      const large = await send(endpoint.httpMethod, path, "application/json", Buffer.alloc(2 * 1024 * 1024 + 1, 32));
      checkEnvelope(large, endpoint.bodyField === undefined ? [status] : [413]);
      checkEnvelope(await send(endpoint.httpMethod, `${path}?nothing=1`, undefined, undefined), [400]);
      checkEnvelope(await send(endpoint.httpMethod, `${path}/%`, undefined, undefined), [400, 404]);
      expect(faults).toEqual([]);
    },
  );

  test("random methods, paths and bodies", async () => {
    const method = fc.constantFrom("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS");
    const segment = fc.oneof(
      fc.constantFrom("v1", "db", "memory", "kv", "docs", "sql", "x", "..", "%", "%00", "%ff", ""),
      text.map(encodeURIComponent),
    );
    const path = fc.array(segment, { maxLength: 7 }).map((segments) => `/${segments.join("/")}`);
    await fc.assert(
      fc.asyncProperty(
        method,
        path,
        fc.option(fc.uint8Array({ maxLength: 40 })),
        fc.option(fc.constantFrom("application/json", "text/plain")),
        async (verb, target, body, type) => {
          const reply = await send(verb, target, type ?? undefined, body ?? undefined);
          expect(reply.status).toBeLessThan(500);
          if (reply.status >= 400) checkEnvelope(reply, [400, 404, 405, 413, 415]);
        },
      ),
      { numRuns: 300 },
    );
    expect(faults).toEqual([]);
  });
});
