/**
 * What is refused is refused in the same order and with the same stable code on every wire: 401, 403, 413, 400; and
 * says in the form of its wire what is wrong and what is allowed.
 */
import { gzipSync } from "node:zlib";
import { toBinary } from "@bufbuild/protobuf";
import { NullValue } from "@bufbuild/protobuf/wkt";
import { ConnectError } from "@connectrpc/connect";
import { findTrailerError } from "@connectrpc/connect/protocol-grpc";
import { errorFromJsonBytes } from "@connectrpc/connect/protocol-connect";
import { Code } from "@connectrpc/connect";
import { create } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { IngestRequestSchema } from "../../gen/palimpsest/v1/memory_pb.ts";
import { bearer } from "../support/credentials.ts";
import { useGuarded } from "../support/guarded-service.ts";
import { envelope, openSession, sendHttp2, sendRaw, type RawAnswer } from "../support/weighed-node.ts";

const MiB = 1 << 20;
const node = useGuarded({ SERVICE_MAX_BODY_BYTES: String(2 * MiB) });

/** A refusal, whatever its form. */
interface Refusal {
  readonly status: number;
  readonly code: Code | undefined;
  readonly reason: string | undefined;
  readonly message: string;
}

function rpcRefusal(answer: RawAnswer): Refusal {
  const type = String(answer.headers["content-type"]);
  let error: ConnectError | undefined;
  if (type.startsWith("application/grpc-web") && answer.headers["grpc-status"] === undefined) {
    const lines = answer.body
      .subarray(answer.body.lastIndexOf(0x80) + 5)
      .toString()
      .trim()
      .split("\r\n");
    error = findTrailerError(new Headers(lines.map((line) => line.split(/: ?(.*)/s, 2) as [string, string])));
  } else if (type.startsWith("application/grpc")) {
    error = findTrailerError(
      new Headers(
        Object.entries({ ...answer.headers, ...answer.trailers }).filter(([name]) => name.startsWith("grpc-")) as [
          string,
          string,
        ][],
      ),
    );
  } else if (answer.status !== 200)
    error = errorFromJsonBytes(answer.body, undefined, new ConnectError("no envelope", Code.Unknown));
  return {
    status: answer.status,
    code: error?.code,
    reason: error?.findDetails(ErrorInfoSchema)[0]?.reason,
    message: error?.rawMessage ?? "",
  };
}

function restRefusal(answer: RawAnswer): Refusal {
  const json = JSON.parse(answer.body.toString() || "{}") as { error?: string; code?: string };
  return { status: answer.status, code: undefined, reason: json.code, message: json.error ?? "" };
}

const ingest = "/palimpsest.v1.MemoryService/Ingest";
const at = { ns: "acme", profile: "bob" };
const proto = (value: object): Uint8Array => toBinary(IngestRequestSchema, create(IngestRequestSchema, value as never));
/** A body of each form: whole and good, whole and malformed, too large. */
interface Wire {
  send(credential: string | undefined, kind: "malformed" | "large" | "good"): Promise<Refusal>;
}

const bodies = {
  json: {
    malformed: Buffer.from('{"ns":"acme","profile":"bob","memories":5}'),
    large: Buffer.from(
      JSON.stringify({ ...at, memories: [{ type: "fact", summary: "s", content: "x".repeat(3 * MiB) }] }),
    ),
    good: Buffer.from(JSON.stringify({ ...at, memories: [{ type: "fact", summary: "s", content: 1 }] })),
  },
  proto: {
    malformed: Buffer.concat([proto(at), Buffer.from([0x22, 0x7f])]),
    large: Buffer.concat([proto(at), Buffer.alloc(3 * MiB)]),
    good: Buffer.from(
      proto({
        ...at,
        memories: [
          { type: "fact", summary: "s", content: { kind: { case: "nullValue", value: NullValue.NULL_VALUE } } },
        ],
      }),
    ),
  },
};

const wires: Readonly<Record<string, Wire>> = {
  REST: {
    send: async (credential, kind) =>
      restRefusal(
        await sendRaw(
          node().service.port,
          "/v1/memory/acme/bob/memories",
          { "content-type": "application/json", ...bearer(credential) },
          kind === "good" ? Buffer.from('{"memories":[{"type":"fact","summary":"s","content":1}]}') : bodies.json[kind],
        ),
      ),
  },
  "Connect JSON": {
    send: async (credential, kind) =>
      rpcRefusal(
        await sendRaw(
          node().service.port,
          ingest,
          { "content-type": "application/json", ...bearer(credential) },
          bodies.json[kind],
        ),
      ),
  },
  "Connect protobuf, gzip": {
    send: async (credential, kind) =>
      rpcRefusal(
        await sendRaw(
          node().service.port,
          ingest,
          { "content-type": "application/proto", "content-encoding": "gzip", ...bearer(credential) },
          gzipSync(bodies.proto[kind]),
        ),
      ),
  },
  gRPC: {
    send: async (credential, kind) =>
      rpcRefusal(
        await sendHttp2(
          openSession(node().service.address),
          ingest,
          { "content-type": "application/grpc", ...bearer(credential) },
          envelope(bodies.proto[kind]),
        ),
      ),
  },
  "gRPC JSON": {
    send: async (credential, kind) =>
      rpcRefusal(
        await sendHttp2(
          openSession(node().service.address),
          ingest,
          { "content-type": "application/grpc+json", ...bearer(credential) },
          envelope(bodies.json[kind]),
        ),
      ),
  },
  "gRPC, gzip": {
    send: async (credential, kind) =>
      rpcRefusal(
        await sendHttp2(
          openSession(node().service.address),
          ingest,
          { "content-type": "application/grpc", "grpc-encoding": "gzip", ...bearer(credential) },
          envelope(gzipSync(bodies.proto[kind]), 1),
        ),
      ),
  },
  "gRPC-Web": {
    send: async (credential, kind) =>
      rpcRefusal(
        await sendRaw(
          node().service.port,
          ingest,
          { "content-type": "application/grpc-web+proto", ...bearer(credential) },
          envelope(bodies.proto[kind]),
        ),
      ),
  },
};

describe.each(Object.entries(wires))("%s", (_name, wire) => {
  test("401 comes before 413 and 400", async () => {
    for (const kind of ["good", "malformed", "large"] as const) {
      for (const credential of [undefined, "garbage"])
        expect([kind, (await wire.send(credential, kind)).reason]).toEqual([kind, "unauthorized"]);
    }
  });

  test("403 comes before 413 and 400", async () => {
    const reader = await node().mint({ ns: "acme" }, "read");
    for (const kind of ["good", "malformed", "large"] as const)
      expect([kind, (await wire.send(reader, kind)).reason]).toEqual([kind, "forbidden"]);
    const stranger = await node().mint({ ns: "elsewhere" }, "admin");
    for (const kind of ["good", "malformed"] as const)
      expect([kind, (await wire.send(stranger, kind)).reason]).toEqual([kind, "forbidden"]);
  });

  test("then come 413 and 400, with the stable code", async () => {
    const writer = await node().mint({ ns: "acme" }, "write");
    expect((await wire.send(writer, "large")).reason).toBe("payload_too_large");
    expect((await wire.send(writer, "malformed")).reason).toBe("invalid_request");
    expect((await wire.send(writer, "good")).reason).toBeUndefined();
  });
});

test("a malformed header of the service's own is 400 to those only who may call", async () => {
  const headers = { "service-min-txid": "x", "content-type": "application/json" };
  const good = bodies.json.good;
  expect((await sendRaw(node().service.port, "/v1/memory/acme/bob/memories", headers, good)).status).toBe(401);
  expect((await sendRaw(node().service.port, ingest, headers, good)).status).toBe(401);
  const writer = await node().mint({ ns: "acme" }, "write");
  expect((await sendRaw(node().service.port, ingest, { ...headers, ...bearer(writer) }, good)).status).toBe(400);
});

describe("what a client that may call is told", () => {
  const call = async (path: string, body: string | Buffer, headers: Record<string, string> = {}): Promise<Refusal> => {
    const token = await node().mint({ ns: "acme" }, "admin");
    return rpcRefusal(
      await sendRaw(
        node().service.port,
        path,
        { "content-type": "application/json", ...bearer(token), ...headers },
        Buffer.from(body),
      ),
    );
  };
  const recall = "/palimpsest.v1.MemoryService/Recall";

  test.each([
    [
      "an unknown field",
      recall,
      '{"ns":"acme","profile":"bob","colour":1}',
      "colour is not a field of this request; allowed here: ns",
    ],
    [
      "an unknown field within",
      ingest,
      '{"ns":"acme","profile":"bob","memories":[{"type":"fact","summary":"s","colour":1}]}',
      "memories[0].colour is not a field of this request",
    ],
    [
      "a list without its wrapper",
      recall,
      '{"ns":"acme","profile":"bob","types":["fact"]}',
      'types must be an object that holds the array, {"values": […]}',
    ],
    ["a wrong type", recall, '{"ns":5}', "ns must be a string"],
    [
      "a number out of range",
      recall,
      '{"ns":"acme","profile":"bob","k":-1}',
      "k must be a whole number that is not negative",
    ],
    ["no JSON", recall, "{", "the body is not JSON"],
    ["a list", recall, "[]", "the body must be an object"],
  ])("%s over Connect JSON", async (_name, path, body, message) => {
    expect(await call(path, body)).toEqual({
      status: 400,
      code: Code.InvalidArgument,
      reason: "invalid_request",
      message: expect.stringContaining(message),
    });
  });

  test("ProtoJSON is taken as it may be written", async () => {
    for (const body of [
      '{"ns":"acme","profile":"bob","query":"x","k":"5","topicKey":null}',
      '{"ns":"acme","profile":"bob","query":"x","topic_key":"t","minScore":{"keyword":"0.5"},' +
        '"types":{"values":["fact"]}}',
    ])
      expect(await call(recall, body)).toMatchObject({ status: 200, reason: undefined });
  });

  test("malformed protobuf is 400, on every form", async () => {
    for (const body of [Buffer.from([0xff]), Buffer.from([0x0a, 0x7f]), Buffer.from([0x0b]), Buffer.from([0x07])]) {
      expect(await call(recall, body, { "content-type": "application/proto" })).toEqual({
        status: 400,
        code: Code.InvalidArgument,
        reason: "invalid_request",
        message: expect.stringContaining("no palimpsest.v1.RecallRequest"),
      });
      expect(await call(recall, envelope(body), { "content-type": "application/grpc-web" })).toMatchObject({
        code: Code.InvalidArgument,
        reason: "invalid_request",
      });
    }
  });

  test.each([
    ["no envelope", Buffer.from([0, 0])],
    ["half a message", envelope(Buffer.alloc(10)).subarray(0, 8)],
    ["two messages", Buffer.concat([envelope(Buffer.alloc(0)), envelope(Buffer.alloc(0))])],
    ["a flag that no request has", envelope(Buffer.alloc(0), 2)],
    ["compressed, and it is not said how", envelope(gzipSync(Buffer.alloc(0)), 1)],
    ["nothing", Buffer.alloc(0)],
  ])("gRPC framing: %s", async (_name, body) => {
    expect(await call(recall, body, { "content-type": "application/grpc-web" })).toMatchObject({
      code: Code.InvalidArgument,
      reason: "invalid_request",
    });
  });

  test("what is compressed and is not what it says is 400; an encoding that is not there says which are", async () => {
    expect(await call(recall, "no gzip", { "content-encoding": "gzip" })).toMatchObject({
      status: 400,
      reason: "invalid_request",
      message: expect.stringContaining("gzip"),
    });
    expect(await call(recall, gzipSync("{}").subarray(0, 12), { "content-encoding": "gzip" })).toMatchObject({
      status: 400,
      reason: "invalid_request",
    });
    for (const encoding of ["br", "deflate", "zstd", "gzip, gzip"]) {
      expect(await call(recall, "{}", { "content-encoding": encoding })).toEqual({
        status: 501,
        code: Code.Unimplemented,
        reason: "invalid_request",
        message: "content-encoding must be identity or gzip",
      });
      expect(
        await call(recall, envelope(Buffer.alloc(0)), {
          "content-type": "application/grpc-web",
          "grpc-encoding": encoding,
        }),
      ).toMatchObject({ code: Code.Unimplemented, reason: "invalid_request" });
    }
  });

  test("a body that inflates beyond the cap, or beyond any honest ratio, is 413", async () => {
    const spaces = (bytes: number): Buffer => gzipSync(Buffer.alloc(bytes, 0x20));
    expect(await call(ingest, spaces(3 * MiB), { "content-encoding": "gzip" })).toMatchObject({
      status: 429,
      code: Code.ResourceExhausted,
      reason: "payload_too_large",
    });
    expect((await call(ingest, spaces(1.9 * MiB), { "content-encoding": "gzip" })).message).toContain(
      "inflates to more than 256 times",
    );
  });

  test("a timeout that is none is 400", async () => {
    expect(await call(recall, "{}", { "connect-timeout-ms": "soon" })).toMatchObject({
      status: 400,
      reason: "invalid_request",
      message: expect.stringContaining("connect-timeout-ms"),
    });
  });

  test("a type of no wire, a method that is not there and a wrong verb answer in the form of their wire", async () => {
    expect(await call(recall, "{}", { "content-type": "text/plain" })).toMatchObject({
      status: 415,
      reason: "invalid_request",
      message: expect.stringContaining("application/json"),
    });
    const nothing = "/palimpsest.v1.MemoryService/Nothing";
    expect(await call(nothing, "{}")).toMatchObject({
      status: 404,
      code: Code.Unimplemented,
      reason: "not_found",
      message: expect.stringContaining("no such method"),
    });
    expect(await call(nothing, envelope(Buffer.alloc(0)), { "content-type": "application/grpc-web" })).toMatchObject({
      status: 200,
      code: Code.Unimplemented,
      reason: "not_found",
    });
    const grpc = await sendHttp2(
      openSession(node().service.address),
      nothing,
      { "content-type": "application/grpc" },
      envelope(Buffer.alloc(0)),
    );
    expect(rpcRefusal(grpc)).toMatchObject({ status: 200, code: Code.Unimplemented, reason: "not_found" });
    const put = await sendRaw(
      node().service.port,
      ingest,
      { "content-type": "application/json" },
      Buffer.from("{}"),
      "PUT",
    );
    expect([put.status, put.headers["allow"], rpcRefusal(put).reason]).toEqual([405, "POST", "invalid_request"]);
  });

  test.each([
    ["/", "begin with /v1"],
    ["/v1/databases/", "no / at its end"],
    ["/v1/db/d/kv/n/a/b", "%2F"],
    ["/v1/db//kv", "part of the path is empty"],
    ["/nowhere", "/openapi.json"],
  ])("a path that is no route, %s, says what may have been meant", async (path, hint) => {
    const refusal = restRefusal(await sendRaw(node().service.port, path, {}, Buffer.alloc(0), "GET"));
    expect(refusal).toMatchObject({ status: 404, reason: "not_found", message: expect.stringContaining(hint) });
  });
});
