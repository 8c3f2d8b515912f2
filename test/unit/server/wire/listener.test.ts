/** The one port of a node: both HTTP versions, TLS, peers that misbehave, and its end. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import * as http from "node:http";
import * as http2 from "node:http2";
import * as https from "node:https";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import type { RequestHandler, WireRequest, WireResponse } from "../../../../src/server/wire/listener.ts";
import { emptyAnswer, openEcho } from "../../../support/echo-node.ts";
import { dial } from "../../../support/dialled.ts";
import { selfSigned } from "../../../support/self-signed.ts";

/** Answers with the HTTP version and the number of body bytes. */
const count: RequestHandler = (request: WireRequest, response: WireResponse) => {
  let bytes = 0;
  request.on("data", (chunk: Buffer) => (bytes += chunk.length));
  request.on("end", () => void (response as http.ServerResponse).end(`${request.httpVersion} ${bytes}`));
};

function connectHttp2(authority: string, options: http2.SecureClientSessionOptions = {}): http2.ClientHttp2Session {
  const session = http2.connect(authority, options);
  session.on("error", () => {});
  onTestFinished(() => session.destroy());
  return session;
}

async function readText(stream: NodeJS.ReadableStream): Promise<string> {
  let text = "";
  for await (const chunk of stream) text += String(chunk);
  return text;
}

async function overHttp2(session: http2.ClientHttp2Session, body: Buffer): Promise<string> {
  const stream = session.request({ ":method": "POST", ":path": "/x" });
  stream.end(body);
  return readText(stream);
}

describe("one port for both HTTP versions", () => {
  test("HTTP/1.1 and HTTP/2 with prior knowledge, small and large bodies", async () => {
    const { port, address } = await openEcho({ listener: { onRequest: count } });
    const session = connectHttp2(address);
    for (const size of [0, 1, 100_000, 3_000_000]) {
      const response = await fetch(`${address}/x`, { method: "POST", body: Buffer.alloc(size) });
      expect(await response.text()).toBe(`1.1 ${size}`);
      expect(await overHttp2(session, Buffer.alloc(size))).toBe(`2.0 ${size}`);
    }
    await expect(curl(port, ["--http1.1"])).resolves.toBe("1.1 3");
    await expect(curl(port, ["--http2-prior-knowledge"])).resolves.toBe("2.0 3");
  });

  test("bytes that come one at a time decide the same", async () => {
    const { port } = await openEcho({ listener: { onRequest: count } });
    const one = dial(port);
    const answers: string[] = [];
    one.on("data", (chunk) => answers.push(String(chunk)));
    for (const byte of "POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc") {
      one.write(byte);
      await turn();
    }
    await once(one, "close");
    expect(answers.join("")).toMatch(/^HTTP\/1.1 200 [^]*1\.1 3$/);
    const two = dial(port);
    const frame = once(two, "data");
    for (const byte of Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")) {
      two.write(Buffer.from([byte]));
      await turn();
    }
    two.write(Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]));
    const [bytes] = (await frame) as [Buffer];
    // The first frame of a server is SETTINGS (RFC 9113, 3.4).
    expect(bytes[3]).toBe(4);
  });

  test("a method that begins like the preface is HTTP/1.1", async () => {
    const { address } = await openEcho({ listener: { onRequest: count } });
    const response = await fetch(`${address}/x`, { method: "PROPFIND" });
    expect(await response.text()).toBe("1.1 0");
  });

  test("pipelined requests in the bytes that decided are all answered", async () => {
    const { port } = await openEcho({ listener: { onRequest: count } });
    const socket = dial(port);
    socket.write("GET /x HTTP/1.1\r\nhost: a\r\n\r\nGET /x HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    expect((await readText(socket)).match(/HTTP\/1.1 200/g)).toHaveLength(2);
  });
});

describe("peers that say too little", () => {
  test("a connection without a preamble, or with half of one, is closed", async () => {
    const { port } = await openEcho({ listener: { times: { preambleTimeoutMs: 100 } } });
    for (const said of ["", "PRI * HT"]) {
      const socket = dial(port);
      if (said) socket.write(said);
      await once(socket, "close");
      expect(socket.bytesRead).toBe(0);
    }
  });

  test("unfinished headers are answered with the envelope and closed", async () => {
    const { port } = await openEcho({ listener: { times: { headersTimeoutMs: 100 } } });
    const socket = dial(port);
    socket.write("GET /health HTTP/1.1\r\nhos");
    const answer = await readText(socket);
    expect(answer).toContain("408 Request Timeout");
    expect(JSON.parse(answer.slice(answer.indexOf("{")))).toEqual({
      error: expect.any(String),
      code: "request_timeout",
    });
  });

  test("an unfinished body ends on both versions", async () => {
    const { port, address } = await openEcho({ listener: { times: { headersTimeoutMs: 100, requestReceiveMs: 200 } } });
    const socket = dial(port);
    socket.write(
      "POST /v1/databases HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{",
    );
    expect(await readText(socket)).toContain('"code":"request_timeout"');
    const stream = connectHttp2(address).request({
      ":method": "POST",
      ":path": "/v1/databases",
      "content-type": "application/json",
    });
    stream.on("error", () => {});
    stream.write("{");
    await once(stream, "close");
    expect(stream.rstCode).toBe(http2.constants.NGHTTP2_CANCEL);
  });

  test("a peer that leaves before it is decided is forgotten", async () => {
    const { port, address } = await openEcho();
    const socket = dial(port);
    socket.write("PRI");
    await once(socket, "connect");
    socket.resetAndDestroy();
    await once(socket, "close");
    expect(await (await fetch(`${address}/health`)).text()).toBe("ok");
  });

  test("an idle HTTP/2 session is closed, one with an open stream is not", async () => {
    const { address } = await openEcho({
      listener: {
        times: { idleConnectionMs: 150 },
        onRequest: (request, response) =>
          void (request.url === "/open" ? undefined : (response as http.ServerResponse).end("ok")),
      },
    });
    const busy = connectHttp2(address);
    const open = busy.request({ ":path": "/open" });
    open.on("error", () => {});
    const idle = connectHttp2(address);
    await readText(idle.request({ ":path": "/x" }));
    await once(idle, "close");
    expect(busy.closed).toBe(false);
  });
});

describe("what is not HTTP", () => {
  test.each([
    ["no HTTP at all", "hello there, how are you?\r\n\r\n", "400"],
    ["headers that are too large", `GET / HTTP/1.1\r\nhost: a\r\nx: ${"y".repeat(64 * 1024)}\r\n\r\n`, "431"],
    ["two lengths", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", "400"],
  ])("%s is answered with the envelope", async (_name, bytes, status) => {
    const { port } = await openEcho();
    const socket = dial(port);
    socket.write(bytes);
    const answer = await readText(socket);
    expect(answer.startsWith(`HTTP/1.1 ${status} `)).toBe(true);
    expect(JSON.parse(answer.slice(answer.indexOf("{")))).toMatchObject({ code: "invalid_request" });
  });
});

describe("TLS", () => {
  test("ALPN gives HTTP/2 and HTTP/1.1 on one port", async () => {
    const { port, listener } = await openEcho({ listener: { tls: selfSigned(), onRequest: count } });
    const session = connectHttp2(`https://127.0.0.1:${port}`, { rejectUnauthorized: false });
    expect(await overHttp2(session, Buffer.alloc(200_000))).toBe("2.0 200000");
    expect(session.alpnProtocol).toBe("h2");
    const request = https.request({
      port,
      host: "127.0.0.1",
      method: "POST",
      path: "/x",
      rejectUnauthorized: false,
      agent: false,
    });
    request.end("abc");
    const [response] = (await once(request, "response")) as [http.IncomingMessage];
    expect(await readText(response)).toBe("1.1 3");
    expect(await curl(port, ["-k"], "https")).toBe("2.0 3");
    await listener.close();
    await expect(fetch(`https://127.0.0.1:${port}/x`)).rejects.toThrow();
  });

  test("a handshake that does not end is cut by a drain, and no bytes in the clear are served", async () => {
    const { port, listener } = await openEcho({
      listener: { tls: selfSigned(), times: { preambleTimeoutMs: 20_000, drainMs: 100 } },
    });
    const clear = dial(port);
    clear.write("GET /health HTTP/1.1\r\nhost: a\r\n\r\n");
    expect(await readText(clear)).not.toContain("200 OK");
    const silent = dial(port);
    await once(silent, "connect");
    await listener.close();
    if (!silent.closed) await once(silent, "close");
  });
});

describe("close", () => {
  test("what runs is finished, new connections are refused, keep-alive ends", async () => {
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
    const { promise: allowed, resolve: allow } = Promise.withResolvers<void>();
    const node = await openEcho({
      dispatch: async (call) => {
        if (node.calls.length === 2) begin();
        await allowed;
        return emptyAnswer(call);
      },
    });
    const agent = new http.Agent({ keepAlive: true });
    const request = http.get({ port: node.port, host: "127.0.0.1", path: "/v1/databases", agent });
    const session = connectHttp2(node.address);
    const stream = session.request({ ":path": "/v1/databases" });
    const goaway = once(session, "goaway");
    await begun;
    const closing = node.listener.close();
    await goaway;
    await expect(fetch(`${node.address}/health`)).rejects.toThrow();
    allow();
    const [response] = (await once(request, "response")) as [http.IncomingMessage];
    expect(response.statusCode).toBe(200);
    expect(response.headers.connection).toBe("close");
    expect(await readText(response)).toBe('{"databases":[]}\n');
    expect(await readText(stream)).toBe('{"databases":[]}\n');
    await closing;
    agent.destroy();
  });

  test("what does not finish is cut after the drain time, whatever its state", async () => {
    const node = await openEcho({ dispatch: () => new Promise(() => {}), listener: { times: { drainMs: 100 } } });
    const silent = dial(node.port);
    await once(silent, "connect");
    const request = http.get({ port: node.port, host: "127.0.0.1", path: "/v1/databases", agent: false });
    const failed = once(request, "error");
    const stream = connectHttp2(node.address).request({ ":path": "/v1/databases" });
    stream.on("error", () => {});
    while (node.calls.length < 2) await turn();
    await node.listener.close();
    await failed;
    if (!stream.closed) await once(stream, "close");
    if (!silent.closed) await once(silent, "close");
    expect([silent.closed, stream.closed]).toEqual([true, true]);
  });

  test("closing twice, and before anything came, ends at once", async () => {
    const { listener } = await openEcho();
    await Promise.all([listener.close(), listener.close()]);
    await listener.close();
  });

  test("an address that is taken is an error, not a crash", async () => {
    const { port } = await openEcho();
    await expect(openEcho({ listener: { port } })).rejects.toThrow(/EADDRINUSE/);
  });
});

/** Asked of a process of its own, which must not hold up this one's event loop. */
async function curl(port: number, options: readonly string[], scheme = "http"): Promise<string> {
  const { stdout } = await promisify(execFile)("curl", [
    "-sS",
    "--max-time",
    "10",
    ...options,
    "--data-binary",
    "abc",
    `${scheme}://127.0.0.1:${port}/x`,
  ]);
  return stdout;
}

function turn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
