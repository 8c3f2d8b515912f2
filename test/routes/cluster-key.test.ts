/** What the key of the nodes opens, and what it does not, on a node that has others. */
import { createPrivateKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { connect } from "node:http2";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { ServerReflection } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { type ExchangeRequest, ExchangeRequestSchema, NodeService } from "../../gen/palimpsest/node/v1/node_pb.ts";
import { derivedClusterKey } from "../../src/control/access/credentials.ts";
import { buildSigningKey } from "../../src/control/access/signing-key.ts";
import { encodeCall } from "../../src/server/node-wire/node-messages.ts";
import { endpoints } from "../../src/service/call/methods.ts";
import { bearer, platformKey } from "../support/credentials.ts";
import { etcdNeed, hasEtcd, startEtcd, type EtcdServer } from "../support/etcd-server.ts";
import { startGuarded, type Guarded } from "../support/guarded-service.ts";
import { buildCall, codec, greeting, readCall, sayTo } from "../support/peer-node.ts";
import { sampleRequests } from "../support/requests.ts";
import { startService, type Service } from "../support/service.ts";
import { wireNames } from "../support/wires.ts";

const path = "/palimpsest.node.v1.NodeService/Exchange";

async function deriveKey(service: Service): Promise<string> {
  return derivedClusterKey(
    await buildSigningKey(createPrivateKey(readFileSync(join(service.directory, "signing-key.pem")))),
  );
}

/** What a node that says this, with these headers, is answered over gRPC: the answers' ids, or the refusal. */
async function ask(
  service: Service,
  headers: Record<string, string>,
  ...requests: ExchangeRequest[]
): Promise<number[] | Code> {
  async function* saying(): AsyncGenerator<ExchangeRequest> {
    yield* requests;
  }
  const ids: number[] = [];
  try {
    for await (const { answers } of sayTo(service.address, saying(), headers)) ids.push(...answers.map(({ id }) => id));
    return ids;
  } catch (error) {
    return ConnectError.from(error).code;
  }
}

describe.skipIf(!hasEtcd)(`a node among others${etcdNeed}`, () => {
  let etcd: EtcdServer;
  let node: Guarded;
  let key: string;
  beforeAll(async () => {
    etcd = await startEtcd();
    node = await startGuarded({ SERVICE_COORD: etcd.endpoint });
    key = await deriveKey(node.service);
    await node.create("plain");
  });
  afterAll(async () => {
    await node?.service.close();
    await etcd?.end();
  });
  const aRead = (): ExchangeRequest =>
    create(ExchangeRequestSchema, { calls: [encodeCall(7, buildCall({ call: readCall, term: undefined }), codec)] });

  test("auth-16: the internal service without the cluster key is 401 over gRPC, and with it is served", async () => {
    const token = await node.mint({ ns: "acme" }, "admin");
    const wrong: Record<string, string>[] = [
      {},
      { "service-internal": "x" },
      { "service-internal": platformKey },
      bearer(key),
      bearer(platformKey),
      bearer(token),
      { "service-internal": token },
      { "service-internal": `${key}x` },
    ];
    for (const headers of wrong)
      expect([headers, await ask(node.service, headers, greeting(), aRead())]).toEqual([headers, Code.Unauthenticated]);
    expect(await ask(node.service, { "service-internal": key }, greeting(), aRead())).toEqual([7]);
    expect(await ask(node.service, { "service-internal": key, ...bearer("garbage") }, greeting(), aRead())).toEqual([
      7,
    ]);
  });

  test("auth-16: the internal service without the cluster key is 401 over both HTTP versions", async () => {
    // Whatever the method, the type and the body.
    const requests: RequestInit[] = [
      {},
      { method: "POST" },
      { method: "POST", body: "{}", headers: { "content-type": "application/json" } },
      { method: "PUT", body: "x".repeat(100_000) },
      { headers: bearer(platformKey) },
      { headers: bearer(key) },
      { headers: { "service-internal": "x" } },
      {
        method: "POST",
        body: "{}",
        headers: { "content-type": "application/connect+json", "service-internal": "x" },
      },
    ];
    for (const request of requests) {
      for (const end of ["", "?x=1", "/more"]) {
        const response = await fetch(`${node.service.address}${path}${end}`, request);
        expect([response.status, await response.json()]).toEqual([
          401,
          { code: "unauthorized", error: expect.any(String) },
        ]);
        expect(response.headers.get("www-authenticate")).toBe("Bearer");
      }
    }
    const session = connect(node.service.address);
    onTestFinished(() => session.destroy());
    for (const type of ["application/json", "application/grpc", "application/connect+proto"]) {
      const stream = session.request({ ":method": "POST", ":path": path, "content-type": type });
      const status = new Promise((resolve) => stream.once("response", (headers) => resolve(headers[":status"])));
      stream.resume();
      // Nothing of a body is waited for.
      expect(await status).toBe(401);
      stream.close();
    }
    const sessionManager = new Http2SessionManager(node.service.address);
    onTestFinished(() => sessionManager.abort());
    const transport = createConnectTransport({ baseUrl: node.service.address, httpVersion: "2", sessionManager });
    async function* nothing(): AsyncGenerator<ExchangeRequest> {}
    const answers = createClient(NodeService, transport).exchange(nothing())[Symbol.asyncIterator]();
    await expect(answers.next()).rejects.toMatchObject({ code: Code.Unauthenticated });
  });

  test.each(wireNames)("auth-16: a route with only the cluster key is 401 over %s, whichever it is", async (wire) => {
    const samples = sampleRequests("plain", { ns: "acme", profile: "bot" });
    for (const { name } of endpoints) {
      for (const headers of [{ "service-internal": key }, bearer(key), { "service-internal": key, ...bearer(key) }]) {
        const { code } = await node.service.wire(wire).call(name, samples.get(name)!, headers);
        expect([name, code]).toEqual([name, "unauthorized"]);
      }
    }
    for (const page of ["/health/ready", "/openapi.json"])
      expect((await node.call(key, "GET", page, undefined, { "service-internal": key })).status).toBe(401);
  });

  test("the internal service is neither listed nor described", async () => {
    expect((await node.call(platformKey, "GET", "/openapi.json")).text).not.toContain("node.v1");
    async function* listing(): AsyncGenerator<{ messageRequest: { case: "listServices"; value: string } }> {
      yield { messageRequest: { case: "listServices", value: "" } };
    }
    const listed: string[] = [];
    for await (const { messageResponse } of node.service
      .client(ServerReflection)
      .serverReflectionInfo(listing(), { headers: bearer(platformKey) })) {
      if (messageResponse.case === "listServicesResponse")
        listed.push(...messageResponse.value.service.map(({ name }) => name));
    }
    expect(listed).toContain("palimpsest.v1.DataService");
    expect(listed).not.toContain("palimpsest.node.v1.NodeService");
  });

  test("without client authentication the key is asked for all the same, and each node has its own", async () => {
    const open = await startService({ SERVICE_COORD: etcd.endpoint });
    onTestFinished(() => open.close());
    expect((await open.call("GET", "/v1/databases")).status).toBe(200);
    expect(await ask(open, {}, greeting(), aRead())).toBe(Code.Unauthenticated);
    expect(await ask(open, { "service-internal": key }, greeting(), aRead())).toBe(Code.Unauthenticated);
    expect(await ask(open, { "service-internal": await deriveKey(open) }, greeting(), aRead())).toEqual([7]);
  });

  test("a key that is given is the one, and the derived one is none", async () => {
    const given = await startGuarded({ SERVICE_COORD: etcd.endpoint, SERVICE_CLUSTER_KEY: "a-key-of-our-own" });
    onTestFinished(() => given.service.close());
    expect(await ask(given.service, { "service-internal": await deriveKey(given.service) }, greeting(), aRead())).toBe(
      Code.Unauthenticated,
    );
    expect(await ask(given.service, { "service-internal": "a-key-of-our-own" }, greeting(), aRead())).toEqual([7]);
  });
});

test("a node without others has no internal service, with the key or without", async () => {
  const alone = await startGuarded();
  onTestFinished(() => alone.service.close());
  for (const headers of [{}, { "service-internal": await deriveKey(alone.service) }]) {
    expect(await ask(alone.service, headers as Record<string, string>, greeting())).toBe(Code.Unimplemented);
    expect((await fetch(`${alone.service.address}${path}`, { method: "POST", headers })).status).toBe(404);
  }
});
