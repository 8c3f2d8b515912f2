/** The port under TLS: REST over both HTTP versions, chosen by ALPN, and gRPC; and nothing in the clear. */
import { readFileSync } from "node:fs";
import { connect as connectHttp2 } from "node:http2";
import { request as httpsRequest } from "node:https";
import { connect as connectTls } from "node:tls";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect, onTestFinished, test } from "vitest";
import { silentLog } from "../../src/base/log.ts";
import { startNode, type RunningNode } from "../../src/server/node/compose.ts";
import { ControlService } from "../../gen/palimpsest/v1/control_pb.ts";
import { bombs, expectStranger, ingest } from "../support/bombs.ts";
import { bearer, guardedVariables, platformKey } from "../support/credentials.ts";
import { selfSignedPaths } from "../support/self-signed.ts";
import { buildConfig } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { openSession, sendHttp2, sendRaw } from "../support/weighed-node.ts";

interface Secured {
  readonly node: RunningNode;
  readonly port: number;
  readonly ca: Buffer;
}

/** A node whose certificate is signed by itself, for the address it listens on. */
async function startSecured(): Promise<Secured> {
  const { cert, key } = selfSignedPaths();
  const node = await startNode(
    buildConfig(temporaryDirectory(), { ...guardedVariables, SERVICE_TLS_CERT: cert, SERVICE_TLS_KEY: key }),
    silentLog,
  );
  onTestFinished(() => node.close());
  return { node, port: Number(new URL(node.address).port), ca: readFileSync(cert) };
}

function overHttp1(
  { port, ca }: Secured,
  path: string,
  credential?: string,
): Promise<{ status: number; version: string; text: string }> {
  return new Promise((resolve, reject) => {
    const outgoing = httpsRequest(
      { host: "127.0.0.1", port, path, ca, headers: bearer(credential), agent: false },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () =>
          resolve({
            status: response.statusCode!,
            version: response.httpVersion,
            text: Buffer.concat(chunks).toString(),
          }),
        );
      },
    );
    outgoing.on("error", reject);
    outgoing.end();
  });
}

function overHttp2(
  { port, ca }: Secured,
  path: string,
  credential?: string,
): Promise<{ status: number; protocol: string | undefined; text: string }> {
  return new Promise((resolve, reject) => {
    const session = connectHttp2(`https://127.0.0.1:${port}`, { ca });
    session.on("error", reject);
    const stream = session.request({ ":path": path, ...bearer(credential) });
    let status = 0;
    let text = "";
    stream
      .setEncoding("utf8")
      .on("response", (headers) => (status = headers[":status"]!))
      .on("data", (chunk: string) => (text += chunk));
    stream.on("error", reject).on("end", () => {
      resolve({ status, protocol: session.alpnProtocol, text });
      session.close();
    });
  });
}

test("REST over HTTP/1.1 and HTTP/2, and gRPC, with and without a credential", async () => {
  const secured = await startSecured();
  expect(secured.node.address).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/);
  expect(await overHttp1(secured, "/health")).toEqual({ status: 200, version: "1.1", text: "ok" });
  expect(await overHttp2(secured, "/health")).toEqual({ status: 200, protocol: "h2", text: "ok" });
  for (const call of [overHttp1, overHttp2]) {
    expect((await call(secured, "/v1/databases")).status).toBe(401);
    const { status, text } = await call(secured, "/v1/databases", platformKey);
    expect([status, JSON.parse(text)]).toEqual([200, { databases: [] }]);
  }
  const client = createClient(
    ControlService,
    createGrpcTransport({ baseUrl: secured.node.address, nodeOptions: { ca: secured.ca } }),
  );
  expect((await client.createDatabase({ name: "over-tls" }, { headers: bearer(platformKey) })).name).toBe("over-tls");
  await expect(client.listDatabases({})).rejects.toMatchObject({ code: 16 });
});

test("a client that offers both protocols gets HTTP/2, one that offers neither is served HTTP/1.1", async () => {
  const { port, ca } = await startSecured();
  const negotiated = (ALPNProtocols: string[] | undefined, maxVersion?: "TLSv1.1"): Promise<string | false | null> =>
    new Promise((resolve, reject) => {
      const socket = connectTls(
        {
          host: "127.0.0.1",
          port,
          ca,
          ...(ALPNProtocols ? { ALPNProtocols } : {}),
          ...(maxVersion ? { maxVersion, minVersion: "TLSv1" as const } : {}),
        },
        () => {
          resolve(socket.alpnProtocol);
          socket.destroy();
        },
      );
      socket.on("error", reject);
    });
  expect(await negotiated(["h2", "http/1.1"])).toBe("h2");
  expect(await negotiated(["http/1.1"])).toBe("http/1.1");
  expect(await negotiated(undefined)).toBe(false);
  await expect(negotiated(["h2"], "TLSv1.1")).rejects.toThrow();
});

test("a caller in the clear gets nothing, and one who does not trust the certificate goes", async () => {
  const { port } = await startSecured();
  await expect(fetch(`http://127.0.0.1:${port}/health`)).rejects.toThrow();
  await expect(fetch(`https://127.0.0.1:${port}/health`)).rejects.toThrow();
});

test.each(bombs)(
  "a stranger's bomb under TLS, %s, is refused unread on both HTTP versions",
  { timeout: 60_000 },
  async (what, headers, body) => {
    const { port } = await startSecured();
    const session = openSession(`https://127.0.0.1:${port}`);
    for (const answer of [
      await sendRaw({ tlsPort: port }, ingest, headers, body),
      await sendHttp2(session, ingest, headers, body),
    ]) {
      expectStranger(answer, what);
      expect(answer.tookMs).toBeLessThan(1_000);
    }
  },
);
