/**
 * Bad input on every route of the endpoint table: the right refusal that names what is wrong, and a node that goes on.
 */
import { type DescField, getOption, ScalarType } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { field_behavior, FieldBehavior } from "../../gen/google/api/field_behavior_pb.ts";
import { json } from "../../gen/palimpsest/v1/options_pb.ts";
import { BodyCap, type Endpoint, endpoints } from "../../src/service/call/methods.ts";
import { type Request, sampleRequests } from "../support/requests.ts";
import { type RestAnswer, useService } from "../support/service.ts";
import { checkEnvelope, restRequest } from "../support/wires.ts";

const MiB = 1024 * 1024;
const bodyCap = 2 * MiB;
const service = useService({ SERVICE_MAX_BODY_BYTES: String(bodyCap) });
const withJson = endpoints.filter(({ bodyField }) => bodyField === "*");
const jsonRoutes = test.each(withJson.map((endpoint) => [endpoint.name, endpoint] as const));
const routes = test.each(endpoints.map((endpoint) => [endpoint.name, endpoint] as const));

interface Ground {
  readonly endpoint: Endpoint;
  readonly db: string;
  readonly sample: Request;
  readonly path: string;
}

async function prepare(endpoint: Endpoint): Promise<Ground> {
  const db = await service().database();
  const sample = sampleRequests(db, service().profile()).get(endpoint.name)!;
  return { endpoint, db, sample, path: restRequest(endpoint, sample).path };
}

/** The sample's body with changes; a member that is undefined is left out. */
function bodyWith({ endpoint, sample }: Ground, changes: Request): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const { name } of endpoint.bodyFields) if (name in sample) body[name] = sample[name];
  return { ...body, ...changes };
}

function send(ground: Ground, body: unknown, headers?: Record<string, string>): Promise<RestAnswer> {
  return service().call(ground.endpoint.httpMethod, ground.path, body, headers);
}

function expectRefused(answer: RestAnswer, what: string, names = ""): void {
  expect(answer.status, `${what}: ${answer.text}`).toBe(400);
  checkEnvelope(answer.json, answer.status);
  expect(answer.json.code, what).toBe("invalid_request");
  expect(answer.json.error, what).toContain(names);
}

/** The node still answers, and still stores. */
async function expectAlive({ db }: Ground): Promise<void> {
  expect((await service().call("GET", "/health")).text).toBe("ok");
  const value = Math.random().toString();
  expect((await service().call("PUT", `/v1/db/${db}/kv/alive/k`, value, { "content-type": "text/plain" })).status).toBe(
    200,
  );
  expect((await service().call("GET", `/v1/db/${db}/kv/alive/k`)).text).toBe(value);
}

const integers: ReadonlySet<ScalarType | undefined> = new Set([ScalarType.UINT32, ScalarType.INT32, ScalarType.INT64]);

/** A whole number below all that the field takes: what holds in the world may have begun before 1970. */
function belowAll({ name }: DescField): string {
  return name === "valid_at" ? String(Number.MIN_SAFE_INTEGER) : "-1";
}

/** JSON texts that are no value of the field. */
function wrongTexts(field: DescField): readonly string[] {
  const options = getOption(field, json);
  if (options.bareList) return ["{}", '"x"', "5", "true", '{"values":[]}', "[{}]", "[[]]"];
  if (options.orderedObject) return ["[]", '"x"', "5", '{"a":"up"}', '{"a":1.5}'];
  if (field.fieldKind === "list") {
    const element = field.listKind === "scalar" && integers.has(field.scalar) ? ["[-1]", '["5"]', "[1.5]"] : ["[5]"];
    return ["{}", '"x"', "5", "true", "[null]", "[[]]", ...element];
  }
  if (field.fieldKind === "message") {
    if (field.message.typeName === "google.protobuf.Value") return [];
    return ["[]", '"x"', "5", "true"];
  }
  if (field.scalar === ScalarType.STRING)
    return [...(options.acceptNumber ? [] : ["5", "1e400"]), "true", "[]", "{}", '["x"]', '"\\ud800"'];
  if (field.scalar === ScalarType.BOOL) return ['"true"', "1", "0", "[]", "{}"];
  if (integers.has(field.scalar))
    return ['"5"', "1.5", belowAll(field), "1e30", "99999999999999999999", "1e400", "true", "[]", "{}"];
  if (field.scalar === ScalarType.DOUBLE) return ['"0.1"', '"x"', "1e400", "-1", "true", "[]", "{}"];
  throw new Error(`no wrong values are known for ${field.name}`);
}

/** The request's body as text, with one member replaced by a raw text. */
function bodyText(ground: Ground, member: string, text: string): string {
  const others = Object.entries(bodyWith(ground, {})).filter(([name]) => name !== member);
  const members = others.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  return `{${[...members, `${JSON.stringify(member)}:${text}`].join(",")}}`;
}

function isRequired(field: DescField): boolean {
  return getOption(field, field_behavior).includes(FieldBehavior.REQUIRED);
}

jsonRoutes(
  "%s: a field of a wrong type or out of range is named, and so is one that is missing or unknown",
  async (_, endpoint) => {
    const ground = await prepare(endpoint);
    for (const field of endpoint.bodyFields) {
      for (const text of wrongTexts(field))
        expectRefused(await send(ground, bodyText(ground, field.name, text)), `${field.name}: ${text}`, field.name);
      if (!isRequired(field)) continue;
      expectRefused(
        await send(ground, bodyWith(ground, { [field.name]: undefined })),
        `without ${field.name}`,
        field.name,
      );
      if (field.message?.typeName !== "google.protobuf.Value")
        expectRefused(await send(ground, bodyText(ground, field.name, "null")), `${field.name} null`, field.name);
    }
    for (const name of ["bogus", "__proto__", "constructor", "DB", ""])
      expectRefused(await send(ground, bodyText(ground, name, "1")), `unknown ${name}`, name);
    await expectAlive(ground);
  },
);

const deep = 100_000;
const brokenTexts: readonly (readonly [string, string])[] = [
  ["not JSON", "hello"],
  ["cut short", '{"a":'],
  ["NaN", '{"a":NaN}'],
  ["Infinity", '{"a":-Infinity}'],
  ["single quotes", "{'a':1}"],
  ["a comma too many", '{"a":1,}'],
  ["two values", "{}{}"],
  ["a list", "[]"],
  ["a string", '"x"'],
  ["null", "null"],
  ["a number", "5"],
  ["a control character in a string", '{"a":"\u0001"}'],
  ["deep lists", `${"[".repeat(deep)}${"]".repeat(deep)}`],
  ["deep objects", `${'{"a":'.repeat(deep)}1${"}".repeat(deep)}`],
  ["deep and cut short", "[".repeat(deep)],
];

jsonRoutes("%s: a body that is no JSON object, or no UTF-8, is refused", async (_, endpoint) => {
  const ground = await prepare(endpoint);
  for (const [what, text] of brokenTexts) expectRefused(await send(ground, text), what);
  for (const bytes of [
    [0xff, 0xfe],
    [0x7b, 0x22, 0xc3, 0x22, 0x7d],
    [0xc0, 0x80],
    [0xed, 0xa0, 0x80],
  ]) {
    expectRefused(await send(ground, Uint8Array.from(bytes)), `bytes ${bytes.join()}`);
  }
  if (endpoint.bodyFields.some(isRequired)) expectRefused(await send(ground, ""), "an empty body");
  await expectAlive(ground);
});

function nested(depth: number): string {
  return `${"[".repeat(depth)}${"]".repeat(depth)}`;
}

jsonRoutes("%s: values of any JSON may be 64 levels deep, not more", async (_, endpoint) => {
  const ground = await prepare(endpoint);
  for (const field of endpoint.bodyFields) {
    if (field.message?.typeName.startsWith("google.protobuf.") !== true) continue;
    for (const depth of [70, deep]) {
      const inside = field.message.typeName === "google.protobuf.Value" ? nested(depth) : `{"a":${nested(depth)}}`;
      expectRefused(
        await send(ground, bodyText(ground, field.name, field.fieldKind === "list" ? `[${inside}]` : inside)),
        `${field.name} ${depth} deep`,
        field.name,
      );
    }
  }
  await expectAlive(ground);
});

jsonRoutes("%s: a wrong content type is 415, a body over the cap 413", async (_, endpoint) => {
  const ground = await prepare(endpoint);
  const good = JSON.stringify(bodyWith(ground, {}));
  for (const type of [
    "text/plain",
    "application/x-www-form-urlencoded",
    "application/xml",
    "application/json; charset=latin1",
  ]) {
    const { status, json: refused } = await send(ground, good, { "content-type": type });
    expect([status, refused.code], type).toEqual([415, "invalid_request"]);
  }
  expect((await send(ground, good, { "content-encoding": "gzip" })).status).toBe(415);
  const cap = endpoint.rule.body === BodyCap.DATA ? bodyCap : MiB;
  const { status, json: refused } = await send(ground, good + " ".repeat(cap));
  expect([status, refused.code]).toEqual([413, "payload_too_large"]);
  checkEnvelope(refused, status);
  await expectAlive(ground);
});

routes(
  "%s: a query parameter that is unknown, given twice or of a wrong type is named, and a path that is no UTF-8 refused",
  async (_, endpoint) => {
    const ground = await prepare(endpoint);
    const { body, path } = restRequest(endpoint, ground.sample);
    const [bare] = path.split("?");
    const call = (query: string): Promise<RestAnswer> => service().call(endpoint.httpMethod, `${bare}?${query}`, body);
    expectRefused(await call("bogus=1"), "bogus", "bogus");
    expectRefused(await call("%ff=1"), "a name that is no UTF-8");
    for (const field of endpoint.queryFields) {
      expectRefused(await call(`${field.name}=a&${field.name}=b`), `${field.name} twice`, field.name);
      expectRefused(await call(`${field.name}=%ff`), `${field.name} no UTF-8`, "query");
      if (field.scalar === ScalarType.STRING) continue;
      for (const text of ["x", "1.5", "", "1e3", "99999999999999999999", "-1e400", "NaN", "0x10", "[]"]) {
        expectRefused(await call(`${field.name}=${text}`), `${field.name}=${text}`, field.name);
      }
    }
    for (const segment of endpoint.segments) {
      if (segment.kind === "literal") continue;
      const broken = restRequest(endpoint, { ...ground.sample, [segment.field.name]: "BROKEN" }).path;
      for (const text of ["%ff", "%", "%e0%a4%a"])
        expectRefused(
          await service().call(endpoint.httpMethod, broken.replace("BROKEN", text), body),
          `${segment.field.name} ${text}`,
        );
    }
    await expectAlive(ground);
  },
);

/** What names may not be, by the path field. */
const badNames: Readonly<Record<string, readonly string[]>> = {
  db: ["Upper", "a b", "a--b--c", "x".repeat(65), "a@b c", "-a", "a@.b", "ü"],
  ns: ["a b", "x".repeat(65), "a/b", "ü"],
  profile: ["Upper", "a--b", "a-", "x".repeat(65)],
  coll: ["a b", "a/b", "x".repeat(65), "a.b", "ü"],
  key: ["k".repeat(513)],
  session: ["s".repeat(129)],
  sid: ["s".repeat(129)],
  branch: ["a b", ".hidden", "a/b", "x".repeat(65), "ü"],
  name: ["a b", ".hidden", "a/b", "x".repeat(65), "ü"],
};

routes("%s: a name in the path that cannot be one is refused", async (_, endpoint) => {
  const ground = await prepare(endpoint);
  for (const segment of endpoint.segments) {
    for (const name of (segment.kind === "field" ? badNames[segment.field.name] : undefined) ?? []) {
      const field = segment.kind === "field" ? segment.field.name : "";
      const { body, path } = restRequest(endpoint, { ...ground.sample, [field]: name });
      const answer = await service().call(endpoint.httpMethod, path, body);
      // What this build does not serve may say so before it looks at names.
      if (answer.status === 503) continue;
      expectRefused(answer, `${field} ${name}`);
    }
  }
  await expectAlive(ground);
});

test("a Connect, gRPC-Web or gRPC call with garbage for a message is refused, and the node goes on", async () => {
  const ground = await prepare(endpoints[0]!);
  const garbage = Uint8Array.from([0xff, 0xff, 0xff, 0x0f, 1]);
  for (const { method } of endpoints) {
    const call = async (type: string, body: string | Uint8Array): Promise<Response> => {
      const headers = { "content-type": type, "connect-protocol-version": "1" };
      const response = await fetch(`${service().address}/${method.parent.typeName}/${method.name}`, {
        method: "POST",
        headers,
        body: body as NonNullable<RequestInit["body"]>,
      });
      await response.arrayBuffer();
      return response;
    };
    expect((await call("application/json", "{")).status, method.name).toBe(400);
    // Bytes that are no message are INTERNAL to every gRPC library, as whoever sends them is broken itself.
    expect((await call("application/proto", garbage)).status, method.name).toBeGreaterThanOrEqual(400);
    expect((await call("application/grpc-web+proto", garbage)).headers.get("grpc-status"), method.name).not.toBe("0");
  }
  await expectAlive(ground);
});
