/** What must not help a caller, what must not leak, and what an operator sees. */
import { createHmac, createPrivateKey, createPublicKey, generateKeyPairSync, sign } from "node:crypto";
import { readFileSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { jwtVerify } from "jose";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { jsonLog } from "../../src/base/log.ts";
import { derivedClusterKey } from "../../src/control/access/credentials.ts";
import { buildSigningKey } from "../../src/control/access/signing-key.ts";
import { startNode } from "../../src/server/node/compose.ts";
import { Health, HealthCheckResponse_ServingStatus as Serving } from "../../gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { bearer, guardedVariables, platformKey } from "../support/credentials.ts";
import { root } from "../support/documents.ts";
import { startGuarded, type Guarded, useGuarded } from "../support/guarded-service.ts";
import { callWithHost, buildConfig } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { wireNames } from "../support/wires.ts";

const node = useGuarded();
beforeAll(async () => {
  await node().create("plain");
  await node().create("other");
});

const put = (credential: string | undefined, path: string, headers: Record<string, string> = {}): Promise<number> =>
  node()
    .call(credential, "PUT", path, new TextEncoder().encode("v"), { "content-type": "text/plain", ...headers })
    .then(({ status }) => status);

test("forged forwarding and internal headers widen nothing and narrow nothing", async () => {
  const token = await node().mint({ db: "plain" }, "read");
  const key = await buildSigningKey(createPrivateKey(readFileSync(join(node().service.directory, "signing-key.pem"))));
  const forged: Record<string, string>[] = [
    { "service-internal": "1" },
    { "service-internal": platformKey },
    { "service-internal": derivedClusterKey(key) },
    { "x-forwarded-for": "127.0.0.1" },
    { forwarded: "for=127.0.0.1;host=plain.localhost" },
    { "x-forwarded-host": "plain.localhost" },
    { "x-forwarded-proto": "https" },
    { "x-real-ip": "::1" },
    { "x-original-url": "/health" },
    { "x-http-method-override": "GET" },
    { "x-api-key": platformKey },
    { "proxy-authorization": `Bearer ${platformKey}` },
    { cookie: `authorization=Bearer ${platformKey}` },
    { "service-branch": "main" },
  ];
  for (const headers of forged) {
    const what = Object.keys(headers)[0]!;
    expect([what, await put(undefined, "/v1/db/plain/kv/n/k", headers)]).toEqual([what, 401]);
    expect([what, await put(token, "/v1/db/plain/kv/n/k", headers)]).toEqual([what, 403]);
    expect([what, (await node().call(token, "GET", "/v1/db/other/kv/n", undefined, headers)).status]).toEqual([
      what,
      403,
    ]);
    expect([what, (await node().call(token, "GET", "/v1/db/plain/kv/n", undefined, headers)).status]).toEqual([
      what,
      200,
    ]);
    expect([what, (await node().call(undefined, "GET", "/v1/databases", undefined, headers)).status]).toEqual([
      what,
      401,
    ]);
  }
});

test("auth-16: the cluster key alone opens no data and no control route", async () => {
  const key = await buildSigningKey(createPrivateKey(readFileSync(join(node().service.directory, "signing-key.pem"))));
  for (const path of ["/v1/db/plain/kv/n", "/v1/databases", "/v1/memory/acme", "/health/ready"])
    expect((await node().call(derivedClusterKey(key), "GET", path)).status).toBe(401);
});

test("a database's own address: the Host names the database, the token decides", async () => {
  const token = await node().mint({ db: "plain" }, "read");
  const call = (host: string, credential: string | undefined): Promise<number> =>
    callWithHost(node().service.port, host, "GET", "/v1/kv/n", undefined, bearer(credential)).then(
      ({ status }) => status,
    );
  expect(await call("plain.localhost", token)).toBe(200);
  expect(await call("other.localhost", token)).toBe(403);
  expect(await call("other@main.localhost", token)).toBe(403);
  expect(await call("no-such.localhost", token)).toBe(403);
  expect(await call("plain.localhost", undefined)).toBe(401);
  expect(await call("plain.localhost", platformKey)).toBe(403);
  // On the shared address the path alone counts, whatever the Host is.
  const { status } = await callWithHost(
    node().service.port,
    "elsewhere.example",
    "GET",
    "/v1/db/other/kv/n",
    undefined,
    bearer(token),
  );
  expect(status).toBe(403);
});

test("auth-03: alg none and HS256 with the published key are refused over REST", async () => {
  const { json } = await node().call(undefined, "GET", "/.well-known/jwks.json");
  const [listed] = (json as { keys: { kid: string; x: string }[] }).keys;
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  const now = Math.floor(Date.now() / 1_000);
  const claims = part({ ns: "acme", scope: "admin", iat: now, exp: now + 60, jti: "x" });
  const text = (alg: string): string => `${part({ alg, kid: listed!.kid })}.${claims}`;
  const pem = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: listed!.x }, format: "jwk" }).export({
    format: "pem",
    type: "spki",
  });
  const stranger = generateKeyPairSync("ed25519").privateKey;
  const bad = [
    `${text("none")}.`,
    ...[Buffer.from(listed!.x, "base64url"), Buffer.from(listed!.x), Buffer.from(pem)].map(
      (secret) => `${text("HS256")}.${createHmac("sha256", secret).update(text("HS256")).digest("base64url")}`,
    ),
    `${text("EdDSA")}.${sign(null, Buffer.from(text("EdDSA")), stranger).toString("base64url")}`,
  ];
  for (const credential of bad) expect((await node().call(credential, "GET", "/v1/memory/acme")).status).toBe(401);
  const own = sign(
    null,
    Buffer.from(text("EdDSA")),
    createPrivateKey(readFileSync(join(node().service.directory, "signing-key.pem"))),
  ).toString("base64url");
  expect((await node().call(`${text("EdDSA")}.${own}`, "GET", "/v1/memory/acme")).status).toBe(200);
});

test("the list of the documents is for everybody, as the repository has it", async () => {
  const text = readFileSync(join(root, "docs/llms.txt"), "utf8");
  const { status, headers, text: told } = await node().call(undefined, "GET", "/llms.txt");
  expect([status, headers.get("content-type"), told]).toEqual([200, "text/plain; charset=utf-8", text]);
  expect((await node().call(undefined, "POST", "/llms.txt")).status).toBe(405);
  expect((await node().call(undefined, "GET", "/openapi.json")).status).toBe(401);
});

test("the published keys verify a token, and no private part is among them", async () => {
  const { status, json, headers } = await node().call(undefined, "GET", "/.well-known/jwks.json");
  expect([status, headers.get("content-type")]).toEqual([200, "application/json"]);
  const { keys } = json as { keys: Record<string, string>[] };
  expect(keys.map((key) => Object.keys(key).sort())).toEqual([["alg", "crv", "kid", "kty", "use", "x"]]);
  const token = await node().mint({ ns: "acme" }, "read");
  const { payload, protectedHeader } = await jwtVerify(token, createPublicKey({ key: keys[0]!, format: "jwk" }));
  expect([payload["ns"], protectedHeader.kid]).toEqual(["acme", keys[0]!["kid"]]);
});

test("a key that is replaced stays listed, and its tokens are good no more", async () => {
  const directory = temporaryDirectory();
  const keyText = (): string =>
    generateKeyPairSync("ed25519").privateKey.export({ format: "der", type: "pkcs8" }).toString("base64");
  const first = await startGuarded({ SERVICE_AUTH_KEY: keyText() }, directory);
  const token = await first.mint({ ns: "acme" }, "read");
  const readKids = async (on: Guarded): Promise<string[]> =>
    ((await on.call(undefined, "GET", "/.well-known/jwks.json")).json as { keys: { kid: string }[] }).keys.map(
      ({ kid }) => kid,
    );
  const [oldKid] = await readKids(first);
  await first.service.close();
  const second = await startGuarded({ SERVICE_AUTH_KEY: keyText() }, directory);
  try {
    const kids = await readKids(second);
    expect(kids).toHaveLength(2);
    expect([kids[0] === oldKid, kids[1]]).toEqual([false, oldKid]);
    expect((await second.call(token, "GET", "/v1/memory/acme")).status).toBe(401);
  } finally {
    await second.service.close();
  }
});

test("a stranger's body is not read: the answer comes before it is sent", async () => {
  const answered = await new Promise<number>((resolve, reject) => {
    const outgoing = httpRequest(
      {
        host: "127.0.0.1",
        port: node().service.port,
        method: "POST",
        path: "/v1/memory/acme/alice/memories",
        headers: { "content-type": "application/json", "content-length": 1024 * 1024 },
      },
      (response) => {
        resolve(response.statusCode!);
        outgoing.destroy();
      },
    );
    outgoing.on("error", reject);
    outgoing.flushHeaders();
  });
  expect(answered).toBe(401);
});

test.each(wireNames.map((name) => [name] as const))(
  "hardening-02 over %s: the control rate counts per credential, and strangers use up nobody's",
  async (name) => {
    const slow = await startGuarded({ SERVICE_CONTROL_RATE: "10" });
    try {
      const wire = slow.service.wire(name);
      const [one, other] = [await slow.mint({ ns: "acme" }, "admin"), await slow.mint({ ns: "acme" }, "admin")];
      const call = (
        credential: string | undefined,
        method = "ControlService.ReadAudit",
        request: object = { ns: "acme" },
      ) => wire.call(method, request, bearer(credential));
      for (let step = 0; step < 60; step++) expect((await call(undefined)).code).toBe("unauthorized");
      const codes: string[] = [];
      for (let step = 0; step < 40; step++) codes.push((await call(one)).code);
      expect(codes[0]).not.toBe("overloaded");
      expect(codes.filter((code) => code === "overloaded").length).toBeGreaterThanOrEqual(1);
      const shed = await call(one);
      if (shed.code === "overloaded") expect(shed.retryAfterSecs).toBeGreaterThanOrEqual(1);
      expect((await call(other)).code).not.toBe("overloaded");
      expect((await call(platformKey, "ControlService.ListDatabases", {})).code).toBe("ok");
    } finally {
      await slow.service.close();
    }
  },
);

test("pages: health and keys are everyone's, the rest the operator's; all on the operators' own port", async () => {
  const directory = temporaryDirectory();
  const running = await startNode(
    buildConfig(directory, { ...guardedVariables, SERVICE_ADMIN_LISTEN: "127.0.0.1:0" }),
    {
      info() {},
      warn() {},
      error() {},
    },
  );
  onTestFinished(() => running.close());
  const get = (address: string, path: string, credential?: string): Promise<number> =>
    fetch(`${address}${path}`, { headers: bearer(credential) }).then(({ status }) => status);
  const token = await fetch(`${running.address}/v1/namespaces/acme/tokens`, {
    method: "POST",
    headers: { ...bearer(platformKey), "content-type": "application/json" },
    body: '{"scope":"admin"}',
  }).then((response) => response.json() as Promise<{ token: string }>);
  for (const path of ["/health", "/.well-known/jwks.json"])
    for (const address of [running.address, running.adminAddress!]) expect(await get(address, path)).toBe(200);
  for (const path of ["/health/ready", "/openapi.json"]) {
    expect(await get(running.address, path)).toBe(401);
    expect(await get(running.address, path, "garbage")).toBe(401);
    expect(await get(running.address, path, token.token)).toBe(403);
    expect(await get(running.address, path, platformKey)).toBe(200);
    expect(await get(running.adminAddress!, path)).toBe(200);
  }
  // The operators' port opens pages, not data.
  expect(await get(running.adminAddress!, "/v1/databases")).toBe(401);

  const reflect = async (baseUrl: string, credential?: string): Promise<string> => {
    const client = createClient(ServerReflection, createGrpcTransport({ baseUrl }));
    const requests = async function* () {
      yield { messageRequest: { case: "listServices", value: "" } } as const;
    };
    try {
      for await (const { messageResponse } of client.serverReflectionInfo(requests(), {
        headers: bearer(credential),
      }))
        return messageResponse.case ?? "none";
    } catch (error) {
      return Code[ConnectError.from(error).code]!;
    }
    return "none";
  };
  expect(await reflect(running.address)).toBe("Unauthenticated");
  expect(await reflect(running.address, token.token)).toBe("PermissionDenied");
  expect(await reflect(running.address, platformKey)).toBe("listServicesResponse");
  expect(await reflect(running.adminAddress!)).toBe("listServicesResponse");
  expect((await createClient(Health, createGrpcTransport({ baseUrl: running.address })).check({})).status).toBe(
    Serving.SERVING,
  );
});

test("no credential, key or part of one ever stands in the log, in an answer, or in an object's name", async () => {
  const directory = temporaryDirectory();
  const lines: string[] = [];
  const output = new PassThrough();
  output.setEncoding("utf8").on("data", (chunk: string) => lines.push(chunk));
  const given = generateKeyPairSync("ed25519").privateKey.export({ format: "der", type: "pkcs8" }).toString("base64");
  const secrets = {
    SERVICE_PLATFORM_KEY: "platform-secret-123",
    SERVICE_CLUSTER_KEY: "cluster-secret-456",
    SERVICE_AUTH_KEY: given,
  };
  const running = await startNode(
    buildConfig(directory, { ...guardedVariables, ...secrets }),
    jsonLog("debug", output),
  );
  const answers: string[] = [];
  const call = async (credential: string | undefined, method: string, path: string, body?: string): Promise<string> => {
    const response = await fetch(`${running.address}${path}`, {
      method,
      headers: { ...bearer(credential), "content-type": "application/json" },
      ...(body === undefined ? {} : { body }),
    });
    return response.text();
  };
  const { token } = JSON.parse(
    await call(secrets.SERVICE_PLATFORM_KEY, "POST", "/v1/namespaces/acme/tokens", '{"scope":"write"}'),
  ) as { token: string };
  const bad = `${token.slice(0, -4)}AAAA`;
  const wrong = "wrong-guess-of-a-key-789";
  for (const credential of [token, bad, wrong, secrets.SERVICE_PLATFORM_KEY, secrets.SERVICE_CLUSTER_KEY]) {
    answers.push(
      await call(
        credential,
        "POST",
        "/v1/memory/acme/alice/memories",
        '{"memories":[{"type":"fact","summary":"s","content":1}]}',
      ),
    );
    answers.push(
      await call(credential, "GET", "/v1/databases"),
      await call(credential, "GET", "/v1/db/acme--alice/kv/n/k"),
      await call(credential, "DELETE", "/v1/databases/none"),
      await call(credential, "POST", "/v1/databases", "{"),
    );
  }
  await running.close();
  const { readdirSync } = await import("node:fs");
  const names = readdirSync(directory, { recursive: true, encoding: "utf8" }).join("\n");
  const all = [lines.join(""), answers.join(""), names].join("\n");
  expect(lines.length).toBeGreaterThan(0);
  const parts = [token, bad].flatMap((text) => text.split(".")).filter((text) => text.length > 20);
  for (const secret of [...Object.values(secrets), ...parts, wrong, given.slice(20, 60)])
    expect(all).not.toContain(secret);
});

test("auth-20, auth-21: a platform key that is the cluster key stops the start, and neither is shown", async () => {
  const directory = temporaryDirectory();
  const { privateKey } = generateKeyPairSync("ed25519");
  const derived = derivedClusterKey(await buildSigningKey(privateKey));
  const given = privateKey.export({ format: "der", type: "pkcs8" }).toString("base64");
  const start = startNode(
    buildConfig(directory, { ...guardedVariables, SERVICE_AUTH_KEY: given, SERVICE_PLATFORM_KEY: derived }),
    { info() {}, warn() {}, error() {} },
  );
  const error: unknown = await start.then(
    (running) => running.close(),
    (thrown: unknown) => thrown,
  );
  expect(String(error)).toContain("SERVICE_PLATFORM_KEY");
  expect(String(error)).not.toContain(derived);
});
