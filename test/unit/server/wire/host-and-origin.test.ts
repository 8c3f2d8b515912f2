/** Who may call by which name and from which page: foreign hosts and origins get nothing, on every wire. */
import * as http from "node:http";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { describe, expect, test } from "vitest";
import { ErrorInfoSchema } from "../../../../gen/google/rpc/error_details_pb.ts";
import { DataService } from "../../../../gen/palimpsest/v1/data_pb.ts";
import type { DoorsOptions } from "../../../../src/server/node/request-handler.ts";
import { exchange } from "../../../support/dialled.ts";
import { openEcho } from "../../../support/echo-node.ts";
import { openSession, sendHttp2 } from "../../../support/weighed-node.ts";

const sync = "/palimpsest.v1.DataService/Sync";
/** A node that asks for credentials, which it takes from everybody. */
const guarded: Partial<DoorsOptions> = { identify: () => ({ kind: "platform", hash: "0" }) };

interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly text: string;
}

function send(
  port: number,
  method: string,
  path: string,
  headers: http.OutgoingHttpHeaders,
  body?: string,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const outgoing = http.request(
      {
        host: "127.0.0.1",
        port,
        method,
        path,
        headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
        agent: false,
      },
      (response) => {
        let text = "";
        response
          .on("data", (chunk: Buffer) => (text += String(chunk)))
          .on("end", () => resolve({ status: response.statusCode!, headers: response.headers, text }));
      },
    );
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}

describe("without authentication", () => {
  const ours = [
    "localhost",
    "LOCALHOST:1",
    "notes.localhost",
    "127.0.0.1:8080",
    "[::1]:8080",
    "10.1.2.3",
    "db.example.org",
    "notes.db.example.org",
    "localhost.",
  ];
  const foreign = [
    "attacker.example",
    "attacker.example:8080",
    "127.0.0.1.attacker.example",
    "localhost.attacker.example",
    "notlocalhost",
    "example.org",
    "xdb.example.org",
    "0x7f.1",
  ];
  const options = { doors: { databaseHostSuffix: "db.example.org" } };

  test.each(ours)("the Host %s is answered on every wire", async (host) => {
    const { port, address } = await openEcho(options);
    expect((await send(port, "GET", "/v1/databases", { host })).status).toBeLessThan(405);
    expect((await send(port, "GET", "/health", { host })).status).toBe(200);
    expect((await send(port, "POST", sync, { host }, '{"db":"d"}')).status).toBe(200);
    const answer = await sendHttp2(
      openSession(address),
      sync,
      { ":authority": host, "content-type": "application/grpc" },
      Buffer.alloc(5),
    );
    expect({ ...answer.headers, ...answer.trailers }["grpc-status"]).toBe("0");
  });

  test.each(foreign)("the Host %s gets the refusal and nothing else, on every wire", async (host) => {
    const node = await openEcho(options);
    for (const [method, path, body] of [
      ["GET", "/v1/databases"],
      ["GET", "/health"],
      ["GET", "/nowhere"],
      ["POST", sync, '{"db":"d"}'],
      ["OPTIONS", sync],
    ] as const) {
      const { status, text } = await send(node.port, method, path, { host }, body);
      expect([path, status, text]).toEqual([path, 403, expect.stringContaining("SERVICE_DB_HOST_SUFFIX")]);
    }
    const answer = await sendHttp2(
      openSession(node.address),
      sync,
      { ":authority": host, "content-type": "application/grpc" },
      Buffer.alloc(5),
    );
    expect([
      answer.status,
      answer.headers["grpc-status"],
      decodeURIComponent(String(answer.headers["grpc-message"])),
    ]).toEqual([200, "7", expect.stringContaining("SERVICE_AUTH=on")]);
    expect(node.calls).toEqual([]);
  });

  test("a name that the node was told is its own", async () => {
    const { port } = await openEcho({ doors: { hostNames: ["Palimpsest"] } });
    expect((await send(port, "GET", "/health", { host: "palimpsest:8080" })).status).toBe(200);
  });

  test.each([
    "http://attacker.example",
    "https://localhost:3000",
    "http://localhost:3000",
    "null",
    "http://127.0.0.1",
    "file://",
  ])("a page of %s is refused on every wire, its questions too", async (origin) => {
    const node = await openEcho();
    for (const [method, path, body] of [
      ["GET", "/v1/databases"],
      ["POST", "/v1/db/d/sql", "{}"],
      ["POST", sync, "{}"],
      ["OPTIONS", sync],
    ] as const) {
      const { status, headers, text } = await send(
        node.port,
        method,
        path,
        { origin, "access-control-request-method": "POST" },
        body,
      );
      expect([status, headers["access-control-allow-origin"], text]).toEqual([
        403,
        undefined,
        expect.stringContaining("SERVICE_ALLOWED_ORIGINS"),
      ]);
    }
    const web = createClient(
      DataService,
      createGrpcWebTransport({
        baseUrl: node.address,
        fetch: (input, init) =>
          fetch(input, { ...init, headers: { ...Object.fromEntries(new Headers(init?.headers)), origin } }),
      }),
    );
    const error = ConnectError.from(await web.sync({ db: "d" }).catch((reason: unknown) => reason));
    expect([error.code, error.findDetails(ErrorInfoSchema)]).toMatchObject([
      Code.PermissionDenied,
      [{ reason: "forbidden" }],
    ]);
    expect(node.calls).toEqual([]);
  });

  test("the node's own page may call, by the name that it was loaded from", async () => {
    const { port } = await openEcho();
    expect((await send(port, "GET", "/v1/databases", { origin: `http://127.0.0.1:${port}` })).status).toBe(200);
    expect(
      (await send(port, "GET", "/v1/databases", { host: `localhost:${port}`, origin: `http://localhost:${port}` }))
        .status,
    ).toBe(200);
    expect(
      (await send(port, "GET", "/v1/databases", { host: `localhost:${port}`, origin: `http://127.0.0.1:${port}` }))
        .status,
    ).toBe(403);
  });
});

describe.each([
  ["without authentication", {}],
  ["with authentication", guarded],
] as const)("pages of allowed origins, %s", (_name, auth) => {
  const origin = "http://localhost:3000";

  test("a browser's question is answered without a credential, and the answers may be read", async () => {
    const node = await openEcho({ doors: { ...auth, allowedOrigins: [origin] } });
    for (const path of [sync, "/v1/db/d/sql", "/v1/nowhere"]) {
      const { status, headers, text } = await send(node.port, "OPTIONS", path, {
        origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type,authorization",
      });
      expect([status, text, headers["access-control-allow-origin"], headers.vary]).toEqual([204, "", origin, "Origin"]);
      expect(headers["access-control-allow-methods"]).toContain("POST");
      for (const name of ["Content-Type", "Authorization", "Service-Branch", "X-Grpc-Web", "Connect-Protocol-Version"])
        expect(headers["access-control-allow-headers"]).toContain(name);
    }
    for (const [method, path, body, expected] of [
      ["GET", "/v1/databases", undefined, 200],
      ["POST", sync, "{}", 200],
      ["GET", "/v1/nowhere", undefined, 404],
      ["POST", sync, "{", 400],
    ] as const) {
      const { status, headers } = await send(node.port, method, path, { origin }, body);
      expect([path, status, headers["access-control-allow-origin"], headers.vary]).toEqual([
        path,
        expected,
        origin,
        "Origin",
      ]);
      expect(headers["access-control-expose-headers"]).toContain("Service-Txid");
    }
    const answer = await sendHttp2(
      openSession(node.address),
      sync,
      { origin, "content-type": "application/grpc-web+proto" },
      Buffer.alloc(5),
    );
    expect([answer.status, answer.headers["access-control-allow-origin"]]).toEqual([200, origin]);
  });

  test("other origins may read nothing; * allows all", async () => {
    const node = await openEcho({ doors: { ...auth, allowedOrigins: [origin] } });
    for (const method of ["OPTIONS", "GET"])
      expect(
        (
          await send(node.port, method, "/v1/databases", {
            origin: "http://localhost:3001",
            "access-control-request-method": "GET",
          })
        ).headers["access-control-allow-origin"],
      ).toBeUndefined();
    const open = await openEcho({ doors: { ...auth, allowedOrigins: ["*"] } });
    expect(
      (await send(open.port, "GET", "/v1/databases", { origin: "http://anywhere.example" })).headers[
        "access-control-allow-origin"
      ],
    ).toBe("http://anywhere.example");
  });
});

test("with authentication any name and any origin may call, as the credential is what counts", async () => {
  const { port } = await openEcho({ doors: guarded });
  expect(
    (await send(port, "GET", "/v1/databases", { host: "api.example.com", origin: "https://app.example.com" })).status,
  ).toBe(200);
});

describe.each([
  ["without authentication", {}],
  ["with authentication", guarded],
] as const)("headers that are given twice, %s", (_name, auth) => {
  test.each([
    ["host", "host: localhost\r\n"],
    ["host", "HOST: 127.0.0.1\r\n"],
    ["authorization", "authorization: Bearer a\r\nauthorization: Bearer b\r\n"],
    ["authorization", "Authorization: Bearer a\r\nauthorization: Bearer a\r\n"],
    ["content-type", "content-type: text/plain\r\n"],
    ["origin", "origin: http://localhost\r\norigin: http://attacker.example\r\n"],
  ])("%s, as %j", async (name, headers) => {
    const node = await openEcho({ doors: auth });
    for (const path of [sync, "/v1/databases", "/health"]) {
      const answer = await exchange(
        node.port,
        `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: ` +
          `application/json\r\n${headers}content-length: 2\r\nconnection: close\r\n\r\n{}`,
      );
      expect(answer).toMatch(/^HTTP\/1.1 400 /);
      expect(answer).toContain(`${name} is given more than once`);
    }
    expect(node.calls).toEqual([]);
  });

  test("over HTTP/2, where the authority and a host that differ are two", async () => {
    const node = await openEcho({ doors: auth });
    const session = openSession(node.address);
    const twice = await sendHttp2(
      session,
      sync,
      { ":authority": "localhost", host: "attacker.example", "content-type": "application/grpc" },
      Buffer.alloc(5),
    );
    expect([twice.headers["grpc-status"], decodeURIComponent(String(twice.headers["grpc-message"]))]).toEqual([
      "3",
      "host is given more than once",
    ]);
    expect(node.calls).toEqual([]);
  });
});

test("gRPC clients come in by address", async () => {
  const node = await openEcho();
  await createClient(DataService, createGrpcTransport({ baseUrl: node.address })).sync({ db: "d" });
  expect(node.calls).toHaveLength(1);
});
