/** Calls over gRPC, gRPC-Web and Connect: what is asked, answered and refused goes through whole, within bounds. */
import { once } from "node:events";
import { create, fromJson, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { type Client, Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { createConnectTransport as createWebConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";
import { describe, expect, test } from "vitest";
import { ErrorInfoSchema, RetryInfoSchema } from "../../../../gen/google/rpc/error_details_pb.ts";
import { ControlService } from "../../../../gen/palimpsest/v1/control_pb.ts";
import { DataService } from "../../../../gen/palimpsest/v1/data_pb.ts";
import { IngestResponseSchema, MemorySchema, MemoryService } from "../../../../gen/palimpsest/v1/memory_pb.ts";
import { type ErrorCode, errorCodes, ServiceError } from "../../../../src/base/faults/errors.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { jsonText, setJson } from "../../../../src/service/call/exact-json.ts";
import { exchange } from "../../../support/dialled.ts";
import { emptyAnswer, openEcho } from "../../../support/echo-node.ts";

const wires: readonly (readonly [string, (baseUrl: string) => Transport])[] = [
  ["gRPC", (baseUrl) => createGrpcTransport({ baseUrl })],
  ["gRPC-Web", (baseUrl) => createGrpcWebTransport({ baseUrl })],
  ["Connect over HTTP/1.1", (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "1.1" })],
  ["Connect over HTTP/2", (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "2", useBinaryFormat: true })],
  ["Connect by GET", (baseUrl) => createWebConnectTransport({ baseUrl, useHttpGet: true })],
];

async function catchRefusal(act: Promise<unknown>): Promise<ConnectError> {
  try {
    await act;
  } catch (error) {
    return ConnectError.from(error);
  }
  throw new Error("the call was not refused");
}

describe.each(wires)("%s", (_name, transportTo) => {
  test("a call reaches the dispatch whole, its answer and headers come back", async () => {
    const memory = create(MemorySchema, { id: "mem_1", type: "fact", createdAt: 5n });
    setJson(memory, "content", '{"a":[1,null]}');
    const node = await openEcho({
      dispatch: (call) =>
        Promise.resolve({
          message: memory,
          headers: [
            ["Service-Txid", "12"],
            ["Service-Durable-Txid", String(node.calls.indexOf(call))],
          ],
        }),
    });
    const client = createClient(MemoryService, transportTo(node.address));
    let headers: Headers | undefined;
    const answer = await client.getMemory(
      { ns: "acme", profile: "bot", id: "mem_1", branch: "dev" },
      {
        headers: { authorization: "Bearer abc", "Service-Min-Txid": "9", "Service-Durability": "durable" },
        onHeader: (given) => (headers = given),
        timeoutMs: 20_000,
      },
    );
    expect([answer.id, answer.createdAt, toJson(ValueSchema, answer.content!)]).toEqual([
      "mem_1",
      5n,
      { a: [1, null] },
    ]);
    expect([headers!.get("service-txid"), headers!.get("service-durable-txid")]).toEqual(["12", "0"]);
    const call = node.calls[0]!;
    expect(call.endpoint.name).toBe("MemoryService.GetMemory");
    expect(call.message).toMatchObject({ ns: "acme", profile: "bot", id: "mem_1", branch: "dev" });
    expect([
      call.credential,
      call.headers.minTxid,
      call.headers.durability,
      call.headers.branch,
      call.remoteAddress,
      call.hostDatabase,
    ]).toEqual(["abc", "9", "durable", undefined, "127.0.0.1", undefined]);
    const remaining = call.deadlineMs! - realWorld().monotonicMs();
    expect([remaining > 0, remaining <= 20_000]).toEqual([true, true]);
  });

  test("any JSON goes in", async () => {
    const node = await openEcho({
      dispatch: () => Promise.resolve({ message: create(IngestResponseSchema, { txid: 3n }), headers: [] }),
    });
    const client: Client<typeof MemoryService> = createClient(MemoryService, transportTo(node.address));
    const content = fromJson(ValueSchema, { n: 1.5, deep: [[{}]], s: "\u{1f600}" });
    expect(
      (
        await client.ingest({
          ns: "a",
          profile: "b",
          memories: [{ type: "fact", summary: "s", content, embedding: { values: [0.5] } }],
        })
      ).txid,
    ).toBe(3n);
    const { memories } = node.calls[0]!.message as unknown as { memories: [Parameters<typeof jsonText>[0]] };
    expect(jsonText(memories[0], "content")).toBe('{"n":1.5,"deep":[[{}]],"s":"\u{1f600}"}');
  });

  test("hardening-06: every code comes with its reason, its status and its headers", async () => {
    for (const code of Object.keys(errorCodes) as ErrorCode[]) {
      const node = await openEcho({
        dispatch: () => Promise.reject(new ServiceError(code, `it is ${code}`, { txid: 12, retryAfterSecs: 3 })),
      });
      const error = await catchRefusal(createClient(ControlService, transportTo(node.address)).listDatabases({}));
      expect([error.code, error.rawMessage]).toEqual([errorCodes[code].connect, `it is ${code}`]);
      expect(error.findDetails(ErrorInfoSchema)).toMatchObject([{ reason: code, domain: "palimpsest" }]);
      expect(error.findDetails(RetryInfoSchema).map((info) => info.retryDelay?.seconds)).toEqual(
        errorCodes[code].retryable ? [3n] : [],
      );
      expect(error.metadata.get("service-txid")).toBe("12");
      await node.listener.close();
    }
  });

  test("a bug is internal with an id, in the log, and without its text", async () => {
    const bug = new Error("secret of ours");
    const node = await openEcho({ dispatch: () => Promise.reject(bug) });
    const error = await catchRefusal(createClient(ControlService, transportTo(node.address)).listDatabases({}));
    expect([error.code, error.rawMessage]).toEqual([
      Code.Internal,
      expect.stringMatching(/^internal error [0-9A-Z]{26}:/),
    ]);
    expect(error.findDetails(ErrorInfoSchema)).toMatchObject([{ reason: "internal" }]);
    expect(node.faults).toEqual([bug]);
  });

  test("a message over the method's size is refused, the data routes' size is the configured one", async () => {
    const node = await openEcho({ doors: { dataBodyBytesMax: 2 * 1024 * 1024 } });
    const control = createClient(ControlService, transportTo(node.address));
    const data = createClient(DataService, transportTo(node.address));
    expect((await catchRefusal(control.createDatabase({ name: "x".repeat(1024 * 1024) }))).code).toBe(
      Code.ResourceExhausted,
    );
    const put = (bytes: number) =>
      data.putValue({ db: "d", ns: "n", key: "k", value: { data: new Uint8Array(bytes) } });
    await put(1024 * 1024 + 1);
    expect((await catchRefusal(put(2 * 1024 * 1024))).code).toBe(Code.ResourceExhausted);
    expect(node.calls).toHaveLength(1);
  });

  test("a required message that is absent is named", async () => {
    const node = await openEcho();
    const error = await catchRefusal(
      createClient(DataService, transportTo(node.address)).upsertVector({ db: "d", coll: "c", id: "i" }),
    );
    expect([error.code, error.rawMessage]).toEqual([Code.InvalidArgument, "embedding is required"]);
  });

  test("the signal fires when the client gives up", async () => {
    const { promise: begun, resolve: begin } = Promise.withResolvers<AbortSignal>();
    const node = await openEcho({
      dispatch: async (call) => {
        begin(call.signal!);
        await once(call.signal!, "abort");
        return emptyAnswer(call);
      },
    });
    const abort = new AbortController();
    const refused = catchRefusal(
      createClient(ControlService, transportTo(node.address)).listDatabases({}, { signal: abort.signal }),
    );
    const signal = await begun;
    abort.abort();
    expect((await refused).code).toBe(Code.Canceled);
    if (!signal.aborted) await once(signal, "abort");
    expect(node.faults).toEqual([]);
  });
});

describe("what is shared with REST", () => {
  test("paths that are no methods go to REST", async () => {
    const { address } = await openEcho();
    for (const path of ["/nothing", "/palimpsest.v1.MemoryService", "/v1/palimpsest.v1.MemoryService/Nothing"]) {
      const response = await fetch(address + path, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: "{}",
      });
      expect([response.status, await response.json()]).toMatchObject([
        404,
        { error: expect.stringContaining("no such route"), code: "not_found" },
      ]);
    }
  });

  test("the Host's database fills an empty one, and never overrides", async () => {
    const node = await openEcho();
    const call = (db: string) =>
      fetch(`${node.address}/palimpsest.v1.DataService/Sync`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ db }),
      });
    await call("d");
    expect(node.calls[0]!.message).toMatchObject({ db: "d" });
    for (const db of ["", "other"])
      await exchange(
        node.port,
        `POST /palimpsest.v1.DataService/Sync HTTP/1.1\r\nhost: notes.localhost\r\ncontent-type: ` +
          `application/json\r\nconnection: ` +
          `close\r\ncontent-length: ${JSON.stringify({ db }).length}\r\n\r\n${JSON.stringify({ db })}`,
      );
    expect(
      node.calls.slice(1).map(({ message, hostDatabase }) => [(message as unknown as { db: string }).db, hostDatabase]),
    ).toEqual([
      ["notes", "notes"],
      ["other", "notes"],
    ]);
  });

  test.each([
    ["a Host that is none", "POST /palimpsest.v1.DataService/Sync HTTP/1.1\r\nhost: a b\r\n"],
    ["a Host with a bad port", "POST /palimpsest.v1.DataService/Sync HTTP/1.1\r\nhost: a:99999\r\n"],
    ["no Host at all", "POST /palimpsest.v1.DataService/Sync HTTP/1.0\r\n"],
  ])("%s is 400, and the node goes on", async (_name, head) => {
    const node = await openEcho();
    const answer = await exchange(
      node.port,
      `${head}content-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}`,
    );
    expect(answer).toMatch(/^HTTP\/1.[01] 400 /);
    expect((await fetch(`${node.address}/health`)).status).toBe(200);
  });

  test("a Connect body that is no JSON, too deep or of wrong types is refused without a fault of ours", async () => {
    const node = await openEcho();
    for (const body of [
      "{",
      "5",
      '{"ns":5}',
      '{"memories":[{"content":'.concat("[".repeat(100_000), "]".repeat(100_000), "}]}"),
    ]) {
      const response = await fetch(`${node.address}/palimpsest.v1.MemoryService/Ingest`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body,
      });
      expect([body.slice(0, 30), response.status]).toEqual([body.slice(0, 30), 400]);
    }
    expect([node.calls.length, node.faults.length]).toEqual([0, 0]);
  });
});
