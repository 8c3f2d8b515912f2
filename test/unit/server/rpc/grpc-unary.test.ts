import { once } from "node:events";
import * as http from "node:http";
import * as net from "node:net";
import { gzipSync } from "node:zlib";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { describe, expect, onTestFinished, test } from "vitest";
import { HttpBodySchema } from "../../../../gen/google/api/httpbody_pb.ts";
import { GetValueRequestSchema, PutValueRequestSchema } from "../../../../gen/palimpsest/v1/data_pb.ts";
import { IngestResponseSchema } from "../../../../gen/palimpsest/v1/memory_pb.ts";
import { ServiceError } from "../../../../src/base/faults/errors.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { BodyRoom } from "../../../../src/server/wire/body.ts";
import { RequestMetrics } from "../../../../src/server/wire/request-metrics.ts";
import type { Call } from "../../../../src/service/call/call.ts";
import { type EchoOptions, emptyAnswer, openEcho } from "../../../support/echo-node.ts";
import {
  answerOf,
  callGrpc,
  enveloped,
  frames,
  type GrpcAnswer,
  openCall,
  openHttp2,
  readStatus,
  readWebStatus,
} from "../../../support/grpc-client.ts";

const getValue = "/palimpsest.v1.DataService/GetValue";
const putValue = "/palimpsest.v1.DataService/PutValue";
const listDatabases = "/palimpsest.v1.ControlService/ListDatabases";
const MiB = 1024 * 1024;

const address = { db: "d", ns: "n", key: "k" };
const getMessage = toBinary(GetValueRequestSchema, create(GetValueRequestSchema, address));

function putMessage(bytes: number): Uint8Array {
  return toBinary(
    PutValueRequestSchema,
    create(PutValueRequestSchema, { ...address, value: { data: Buffer.alloc(bytes, 7) } }),
  );
}

/** What a dispatch that refuses does. */
function refusing(refusal: ServiceError): EchoOptions {
  return { dispatch: () => Promise.reject(refusal) };
}

/** An answer that is a refusal: headers that end the stream, and nothing else. */
function refusalOf(answer: GrpcAnswer): ReturnType<typeof readStatus> {
  expect([answer.headers[":status"], answer.headers["content-type"], answer.isHeadersOnly, answer.body.length]).toEqual(
    [200, "application/grpc+proto", true, 0],
  );
  expect([answer.trailers, answer.resetCode]).toEqual([undefined, 0]);
  return readStatus(answer.headers);
}

/** An answer that is a message: its one envelope's bytes. */
function messageOf(answer: GrpcAnswer): Buffer {
  expect([answer.trailers, answer.isHeadersOnly, answer.resetCode]).toEqual([{ "grpc-status": "0" }, false, 0]);
  expect([answer.body[0], answer.body.readUInt32BE(1)]).toEqual([0, answer.body.length - 5]);
  return answer.body.subarray(5);
}

describe("an answer", () => {
  test.each(["application/grpc", "application/grpc+proto", "application/GRPC"])(
    "%s: headers, one message, the status in trailers",
    async (type) => {
      const node = await openEcho({
        dispatch: (call) =>
          Promise.resolve(emptyAnswer(call, { contentType: "text/plain", data: Buffer.from("value") })),
      });
      const answer = await callGrpc(openHttp2(node.port), getValue, enveloped(getMessage), { "content-type": type });
      expect(answer.headers).toMatchObject({
        ":status": 200,
        "content-type": "application/grpc+proto",
        "service-txid": "7",
      });
      expect(answer.headers["grpc-encoding"]).toBeUndefined();
      expect(fromBinary(HttpBodySchema, messageOf(answer))).toMatchObject({ contentType: "text/plain" });
      expect(node.calls[0]!.message).toMatchObject(address);
    },
  );

  test("JSON is answered in JSON", async () => {
    const node = await openEcho({ dispatch: (call) => Promise.resolve(emptyAnswer(call, { results: [], txid: 3n })) });
    const answer = await callGrpc(
      openHttp2(node.port),
      "/palimpsest.v1.MemoryService/Ingest",
      enveloped(Buffer.from('{"ns":"a","profile":"b","memories":[]}')),
      { "content-type": "application/grpc+json; charset=utf-8" },
    );
    expect(answer.headers["content-type"]).toBe("application/grpc+json");
    expect(JSON.parse(messageOf(answer).toString())).toEqual({ txid: "3" });
    expect(node.calls[0]!.message).toMatchObject({ ns: "a", profile: "b" });
  });

  test("a window of a few bytes holds it up and breaks nothing", async () => {
    const data = Buffer.alloc(5_000, 3);
    const node = await openEcho({ dispatch: (call) => Promise.resolve(emptyAnswer(call, { data })) });
    const session = openHttp2(node.port, { initialWindowSize: 100 });
    const answer = await callGrpc(session, getValue, enveloped(getMessage));
    expect(Buffer.from(fromBinary(HttpBodySchema, messageOf(answer)).data).equals(data)).toBe(true);
  });

  test("over HTTP/1.1 the status is in trailers too", async () => {
    const node = await openEcho();
    const outgoing = http.request({
      host: "127.0.0.1",
      port: node.port,
      path: listDatabases,
      method: "POST",
      agent: false,
      headers: { "content-type": "application/grpc", te: "trailers" },
    });
    outgoing.end(enveloped(new Uint8Array(0)));
    const [response] = (await once(outgoing, "response")) as [http.IncomingMessage];
    let bytes = 0;
    for await (const chunk of response) bytes += (chunk as Buffer).length;
    expect([response.statusCode, bytes, response.trailers]).toEqual([200, 5, { "grpc-status": "0" }]);
  });

  test("an answer that cannot be encoded is a fault of ours, counted as one", async () => {
    const requestMetrics = new RequestMetrics({ world: realWorld(), log: { info() {}, warn() {}, error() {} } });
    const node = await openEcho({
      doors: { requestMetrics },
      dispatch: () => Promise.resolve({ message: create(IngestResponseSchema, { txid: "x" as never }), headers: [] }),
    });
    const answer = await callGrpc(openHttp2(node.port), "/palimpsest.v1.MemoryService/Ingest", enveloped(Buffer.of()));
    expect(refusalOf(answer)).toMatchObject({ code: 13, reason: "internal" });
    expect(node.faults).toHaveLength(1);
    expect(requestMetrics.counts.flatMap(({ codes }) => codes)).toEqual([["internal", 1]]);
  });
});

/** Requests that are odd or wrong, and what becomes of each: the status's code and message, or that it is taken. */
const wrongBodies: readonly (readonly [string, Uint8Array | readonly Uint8Array[], Record<string, string>, string])[] =
  [
    ["nothing", [], {}, "3 the body holds no whole message"],
    ["half an envelope", Buffer.alloc(3), {}, "3 the body holds no whole message"],
    ["an envelope without its message", enveloped(getMessage).subarray(0, 5), {}, "3 the body holds no whole message"],
    ["a message that is cut", enveloped(getMessage).subarray(0, 9), {}, "3 the body holds no whole message"],
    [
      "bytes after the message",
      Buffer.concat([enveloped(getMessage), Buffer.of(0)]),
      {},
      "3 the body holds more than the one message that this method takes",
    ],
    [
      "the message twice",
      [enveloped(getMessage), enveloped(getMessage)],
      {},
      "3 the body holds more than the one message that this method takes",
    ],
    ["flags of trailers", enveloped(getMessage, 0x80), {}, "3 the message's envelope has flags that no request has"],
    ["unknown flags", enveloped(getMessage, 0x06), {}, "3 the message's envelope has flags that no request has"],
    [
      "compressed, it does not say how",
      enveloped(gzipSync(getMessage), 1),
      {},
      "3 the message is compressed, and grpc-encoding does not say how: gzip is taken",
    ],
    [
      "compressed as identity",
      enveloped(gzipSync(getMessage), 1),
      { "grpc-encoding": "identity" },
      "3 the message is compressed, and grpc-encoding does not say how: gzip is taken",
    ],
    [
      "no gzip, though it says so",
      enveloped(getMessage, 1),
      { "grpc-encoding": "gzip" },
      "3 the body is not gzip, though its encoding says so",
    ],
    [
      "an unknown encoding",
      enveloped(getMessage),
      { "grpc-encoding": "br" },
      "12 grpc-encoding must be identity or gzip",
    ],
    [
      "an envelope of four gigabytes",
      Buffer.of(0, 255, 255, 255, 255, 1),
      {},
      `8 the message is larger than the ${MiB} bytes that this method takes`,
    ],
    [
      "a message over the cap",
      enveloped(Buffer.alloc(MiB + 1)),
      {},
      `8 the body is larger than the ${MiB + 5} bytes that this route takes`,
    ],
    [
      "a message over the cap once it is inflated",
      enveloped(gzipSync(Buffer.alloc(2 * MiB)), 1),
      { "grpc-encoding": "gzip" },
      `8 the body is larger than the ${MiB} bytes that this route takes`,
    ],
    [
      "no message of the type",
      enveloped(Buffer.of(0xff, 0xff)),
      {},
      "3 the body is no palimpsest.v1.GetValueRequest in the protobuf binary form",
    ],
    [
      "a timeout without a unit",
      enveloped(getMessage),
      { "grpc-timeout": "100" },
      "3 grpc-timeout must be up to 8 digits and one of H, M, S, m, u, n",
    ],
    [
      "a timeout of nine digits",
      enveloped(getMessage),
      { "grpc-timeout": "123456789S" },
      "3 grpc-timeout must be up to 8 digits and one of H, M, S, m, u, n",
    ],
    ["empty and single bytes", [...enveloped(getMessage)].map((byte) => Buffer.of(byte)), {}, "taken"],
    ["compressed", enveloped(gzipSync(getMessage), 1), { "grpc-encoding": "gzip" }, "taken"],
    ["not compressed, though it may be", enveloped(getMessage), { "grpc-encoding": "gzip" }, "taken"],
    ["an answer in gzip is taken", enveloped(getMessage), { "grpc-accept-encoding": "gzip" }, "taken"],
    ["a timeout beyond all timers", enveloped(getMessage), { "grpc-timeout": "99999999H" }, "taken"],
    ["unknown metadata", enveloped(getMessage), { "x-some": "thing", "y-bin": "AAEC" }, "taken"],
  ];

describe("a request", () => {
  test.each(wrongBodies)("%s", async (_name, body, headers, expected) => {
    const node = await openEcho();
    const session = openHttp2(node.port);
    const answer = await callGrpc(session, getValue, body, headers);
    const told = answer.isHeadersOnly ? refusalOf(answer) : undefined;
    if (told === undefined) messageOf(answer);
    expect(told === undefined ? "taken" : `${told.code} ${told.message}`).toBe(expected);
    // The library's own way, by gRPC-Web, has the same words for it.
    const web = await callGrpc(session, getValue, body, { ...headers, "content-type": "application/grpc-web" });
    expect(readWebStatus(web)).toEqual(told ?? { code: 0, message: "", reason: undefined });
    expect([node.calls.length, node.faults.length]).toEqual([told === undefined ? 2 : 0, 0]);
    // The connection goes on.
    messageOf(await callGrpc(session, getValue, enveloped(getMessage)));
  });

  test("an unknown encoding is told which ones there are", async () => {
    const node = await openEcho();
    const headers = { "grpc-encoding": "snappy" };
    const answer = await callGrpc(openHttp2(node.port), getValue, enveloped(getMessage), headers);
    expect(answer.headers["grpc-accept-encoding"]).toBe("identity, gzip");
  });

  test.each([
    ["application/grpc+thrift", 415],
    ["text/plain", 415],
  ])("of the type %s is refused before it is read", async (type, status) => {
    const node = await openEcho();
    const answer = await callGrpc(openHttp2(node.port), getValue, enveloped(getMessage), { "content-type": type });
    expect([answer.headers[":status"], node.calls.length]).toEqual([status, 0]);
  });

  test("only POST makes a call", async () => {
    const node = await openEcho();
    const answer = await callGrpc(openHttp2(node.port), getValue, enveloped(getMessage), { ":method": "PUT" });
    expect(refusalOf(answer)).toMatchObject({ code: 12, reason: "invalid_request" });
  });

  test("nothing is dispatched before the client has said its all", async () => {
    const node = await openEcho();
    const stream = openCall(openHttp2(node.port), listDatabases);
    const answer = answerOf(stream);
    stream.write(enveloped(new Uint8Array(0)));
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(node.calls).toHaveLength(0);
    stream.end();
    messageOf(await answer);
    expect(node.calls).toHaveLength(1);
  });

  test.each([
    ["1H", 3_600_000],
    ["2M", 120_000],
    ["3S", 3_000],
    ["4000m", 4_000],
    ["5000000u", 5_000],
    ["60000000n", 60],
  ])("the deadline of %s", async (timeout, ms) => {
    const node = await openEcho();
    const from = realWorld().monotonicMs();
    await callGrpc(openHttp2(node.port), getValue, enveloped(getMessage), { "grpc-timeout": timeout });
    const { deadlineMs } = node.calls[0]!;
    expect(deadlineMs).toBeGreaterThanOrEqual(from + ms);
    expect(deadlineMs).toBeLessThan(realWorld().monotonicMs() + ms);
  });
});

describe("a client that goes", () => {
  test("before its message is whole: nobody is dispatched, the room is given back, nothing is logged", async () => {
    const room = new BodyRoom();
    const requestMetrics = new RequestMetrics({ world: realWorld(), log: { info() {}, warn() {}, error() {} } });
    const node = await openEcho({ doors: { room, requestMetrics } });
    const socket = net.connect(node.port, "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    const fields = { ":method": "POST", ":scheme": "http", ":authority": "localhost", ":path": putValue };
    socket.write(
      Buffer.concat([
        frames.opening,
        frames.headers(1, { ...fields, "content-type": "application/grpc" }),
        frames.data(1, enveloped(putMessage(1_000)).subarray(0, 500)),
      ]),
    );
    await expect.poll(() => room.bytes).toBe(500);
    socket.write(frames.reset(1, 8));
    await expect.poll(() => requestMetrics.counts.flatMap(({ codes }) => codes)).toEqual([["gone", 1]]);
    expect([room.bytes, node.calls.length, node.faults.length]).toEqual([0, 0, 0]);
  });

  test("while it is answered: who asks is told, and the answer goes nowhere", async () => {
    const { promise: begun, resolve: begin } = Promise.withResolvers<Call>();
    const node = await openEcho({
      dispatch: async (call) => {
        begin(call);
        if (!call.signal!.aborted) await once(call.signal!, "abort");
        return emptyAnswer(call);
      },
    });
    const session = openHttp2(node.port);
    const stream = openCall(session, listDatabases);
    const answer = answerOf(stream);
    stream.end(enveloped(new Uint8Array(0)));
    const call = await begun;
    stream.close(8);
    expect((await answer).resetCode).toBe(8);
    await expect.poll(() => call.signal!.aborted).toBe(true);
    expect(node.faults).toEqual([]);
  });

  test("with its whole connection", async () => {
    const { promise: begun, resolve: begin } = Promise.withResolvers<Call>();
    const { promise: later, resolve: release } = Promise.withResolvers<void>();
    const node = await openEcho({
      dispatch: async (call) => {
        begin(call);
        await later;
        throw new ServiceError("not_found", "there is none");
      },
    });
    const session = openHttp2(node.port);
    const stream = openCall(session, listDatabases);
    const answer = answerOf(stream);
    stream.end(enveloped(new Uint8Array(0)));
    const call = await begun;
    session.destroy();
    await answer;
    // Who asks only now is told as well.
    await expect.poll(() => call.signal!.aborted).toBe(true);
    release();
    messageOf(await callGrpc(openHttp2((await openEcho()).port), listDatabases, enveloped(new Uint8Array(0))));
    expect(node.faults).toEqual([]);
  });
});

/** Those of gRPC's interoperability tests that are for unary calls, with methods of ours in the place of theirs. */
describe("interoperability", () => {
  test("empty_unary", async () => {
    const node = await openEcho();
    expect(messageOf(await callGrpc(openHttp2(node.port), listDatabases, enveloped(new Uint8Array(0))))).toHaveLength(
      0,
    );
  });

  test("large_unary", async () => {
    const data = Buffer.alloc(314_159, 1);
    const node = await openEcho({
      dispatch: (call) => Promise.resolve(emptyAnswer(call, call.endpoint.name.endsWith("GetValue") ? { data } : {})),
    });
    const session = openHttp2(node.port);
    messageOf(await callGrpc(session, putValue, enveloped(putMessage(271_828))));
    expect((node.calls[0]!.message as unknown as { value: { data: Uint8Array } }).value.data).toHaveLength(271_828);
    const answer = await callGrpc(session, getValue, enveloped(getMessage));
    expect(fromBinary(HttpBodySchema, messageOf(answer)).data).toHaveLength(314_159);
  });

  test("client_compressed_unary", async () => {
    const node = await openEcho();
    const session = openHttp2(node.port);
    const gzip = { "grpc-encoding": "gzip" };
    messageOf(await callGrpc(session, putValue, enveloped(gzipSync(putMessage(271_828)), 1), gzip));
    messageOf(await callGrpc(session, putValue, enveloped(putMessage(271_828)), gzip));
    const sizes = node.calls.map(
      ({ message }) => (message as unknown as { value: { data: Buffer } }).value.data.length,
    );
    expect(sizes).toEqual([271_828, 271_828]);
  });

  test("status_code_and_message", async () => {
    const node = await openEcho(refusing(new ServiceError("conflict", "test status message")));
    const answer = await callGrpc(openHttp2(node.port), listDatabases, enveloped(new Uint8Array(0)));
    expect(refusalOf(answer)).toEqual({ code: 10, message: "test status message", reason: "conflict" });
    expect(answer.headers["grpc-status-details-bin"]).not.toContain("=");
  });

  test("special_status_message", async () => {
    const message = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP \u{1f608} 100%\t\n";
    const node = await openEcho(refusing(new ServiceError("invalid_request", message)));
    const answer = await callGrpc(openHttp2(node.port), listDatabases, enveloped(new Uint8Array(0)));
    expect(refusalOf(answer).message).toBe(message);
    expect(answer.headers["grpc-message"]).toMatch(/^[\x20-\x7e]+$/);
  });

  test("a message that is cut within a character is told all the same", async () => {
    const node = await openEcho(refusing(new ServiceError("invalid_request", "cut: \u{1f608}".slice(0, -1))));
    const answer = await callGrpc(openHttp2(node.port), listDatabases, enveloped(new Uint8Array(0)));
    expect(refusalOf(answer).message).toBe("cut: \u{fffd}");
  });

  test.each([
    ["unimplemented_method", "/palimpsest.v1.DataService/UnimplementedCall"],
    ["unimplemented_service", "/grpc.testing.UnimplementedService/UnimplementedCall"],
  ])("%s", async (_name, path) => {
    const node = await openEcho();
    expect(refusalOf(await callGrpc(openHttp2(node.port), path, enveloped(new Uint8Array(0)))).code).toBe(12);
  });

  test("timeout_on_sleeping_server", async () => {
    const node = await openEcho({
      dispatch: async (call) => {
        await new Promise((resolve) => setTimeout(resolve, call.deadlineMs! - realWorld().monotonicMs()));
        throw new ServiceError("request_timeout", "the deadline is over");
      },
    });
    const headers = { "grpc-timeout": "20m" };
    const answer = await callGrpc(openHttp2(node.port), listDatabases, enveloped(new Uint8Array(0)), headers);
    expect(refusalOf(answer)).toMatchObject({ code: 4, reason: "request_timeout" });
  });

  test("cancel_after_begin", async () => {
    const node = await openEcho();
    const session = openHttp2(node.port);
    const stream = openCall(session, listDatabases);
    const answer = answerOf(stream);
    stream.close(8);
    expect((await answer).resetCode).toBe(8);
    messageOf(await callGrpc(session, listDatabases, enveloped(new Uint8Array(0))));
    expect(node.faults).toEqual([]);
  });
});
