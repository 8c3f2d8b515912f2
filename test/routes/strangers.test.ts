/**
 * Nobody is read before he is known: whatever a stranger sends, by whatever wire, he is refused at once, and neither
 * the node's time nor its memory is his.
 */
import * as http from "node:http";
import * as net from "node:net";
import { expect, test } from "vitest";
import { badToken, bombs, expectStranger, ingest } from "../support/bombs.ts";
import { bearer, guardedVariables, platformKey } from "../support/credentials.ts";
import { calm, calmMs, openSession, sendHttp2, sendRaw, weighedNode } from "../support/weighed-node.ts";

const MiB = 1 << 20;

test.each(bombs)(
  "a stranger's bomb, %s, over both HTTP versions, without a credential and with a forged one",
  async (what, headers, body) => {
    const { node, address, under } = await weighedNode(guardedVariables);
    const session = openSession(address);
    const strain = await calm(under, async () => {
      const took: number[] = [];
      for (const credential of [{}, { authorization: `Bearer ${badToken}` }]) {
        for (const send of [
          () => sendRaw(node.port, ingest, { ...headers, ...credential }, body),
          () => sendHttp2(session, ingest, { ...headers, ...credential }, body),
        ]) {
          const answer = await send();
          expectStranger(answer, what);
          took.push(answer.tookMs);
        }
      }
      return Math.max(...took);
    });
    expect(strain.value).toBeLessThan(1_000);
    expect(strain.healthMs).toBeLessThan(calmMs);
    expect(strain.grownMiB).toBeLessThan(120);
  },
);

test.each([
  ["Connect", ingest, "application/json", 401],
  ["gRPC-Web", ingest, "application/grpc-web+proto", 200],
  ["REST", "/v1/memory/a/b/memories", "application/json", 401],
  ["no route", "/v1/nowhere", "application/json", 404],
  ["no method", "/palimpsest.v1.MemoryService/Nothing", "application/json", 404],
  ["another type", ingest, "text/plain", 415],
])(
  "45 unfinished bodies of 31 MB from strangers over %s are answered before they are whole, held by nobody, and closed",
  async (_name, path, type, status) => {
    const { node, under } = await weighedNode(guardedVariables);
    const strain = await calm(under, () =>
      Promise.all(
        Array.from({ length: 45 }, async () => {
          const socket = net.connect(node.port, "127.0.0.1");
          socket.on("error", () => {});
          socket.write(
            `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: ${type}\r\ncontent-length: ${32 * MiB}\r\n\r\n`,
          );
          let head = "";
          const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
          socket.on("data", (chunk: Buffer) => (head += String(chunk)));
          const piece = Buffer.alloc(MiB, 0x20);
          for (let sent = 0; sent < 31 && !socket.destroyed; sent++) {
            if (!socket.write(piece))
              await new Promise<void>((resolve) => {
                socket.once("drain", resolve);
                socket.once("close", () => resolve());
              });
          }
          const from = performance.now();
          await closed;
          return { head, openMs: performance.now() - from };
        }),
      ),
    );
    for (const { head, openMs } of strain.value) {
      expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
      expect(openMs).toBeLessThan(10_000);
    }
    expect(strain.healthMs).toBeLessThan(calmMs);
    expect(strain.grownMiB).toBeLessThan(200);
  },
);

test("a stranger's body that drips is cut off, on both HTTP versions", async () => {
  const { node, address } = await weighedNode(guardedVariables);
  const socket = net.connect(node.port, "127.0.0.1");
  socket.on("error", () => {});
  socket.resume();
  socket.write(
    `POST ${ingest} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n`,
  );
  const session = openSession(address);
  const streams = [
    { ":path": ingest, "content-type": "application/grpc" },
    { ":path": "/v1/memory/a/b/memories", "content-type": "application/json" },
  ].map((headers) => session.request({ ":method": "POST", ...headers }));
  for (const stream of streams) stream.on("error", () => {}).resume();
  const drip = setInterval(() => {
    if (!socket.destroyed) socket.write(" ");
    for (const stream of streams) if (!stream.destroyed) stream.write(Buffer.of(0));
  }, 200);
  const from = performance.now();
  try {
    await Promise.all([
      new Promise((resolve) => socket.once("close", resolve)),
      ...streams.map((stream) => new Promise((resolve) => stream.once("close", resolve))),
    ]);
  } finally {
    clearInterval(drip);
  }
  expect(performance.now() - from).toBeLessThan(10_000);
});

test("a client that waits with its body is told to send it when it may call, and spared it when not", async () => {
  const { node, address } = await weighedNode(guardedVariables);
  const ask = async (credential: string | undefined): Promise<readonly [number, boolean]> =>
    new Promise((resolve, reject) => {
      let isContinued = false;
      const outgoing = http.request({
        host: "127.0.0.1",
        port: node.port,
        path: "/v1/databases",
        method: "POST",
        agent: false,
        headers: {
          ...bearer(credential),
          "content-type": "application/json",
          expect: "100-continue",
          "content-length": 15,
        },
      });
      outgoing.on("continue", () => {
        isContinued = true;
        outgoing.end('{"name":"waits"}'.slice(0, 15));
      });
      outgoing.on("response", (response) => {
        resolve([response.statusCode!, isContinued]);
        outgoing.destroy();
      });
      outgoing.on("error", reject);
      outgoing.flushHeaders();
    });
  expect(await ask(undefined)).toEqual([401, false]);
  expect(await ask(platformKey)).toEqual([400, true]);
  expect(await ask("garbage")).toEqual([401, false]);
  const stream = openSession(address).request({
    ":method": "POST",
    ":path": ingest,
    "content-type": "application/json",
    expect: "100-continue",
  });
  let isContinued = false;
  stream.on("continue", () => (isContinued = true));
  const status = await new Promise((resolve) => stream.once("response", (head) => resolve(head[":status"])));
  expect([status, isContinued]).toEqual([401, false]);
});
