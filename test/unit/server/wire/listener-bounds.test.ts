/** How many connections a listener holds, and how long one may stay that says little. */
import { once } from "node:events";
import type * as net from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { openEcho } from "../../../support/echo-node.ts";
import { hastyWorld } from "../../../support/hasty-world.ts";
import { dial } from "../../../support/dialled.ts";
import { selfSigned } from "../../../support/self-signed.ts";

describe("connections that say little", () => {
  const times = { preambleTimeoutMs: 100, headersTimeoutMs: 150, idleConnectionMs: 200, drainMs: 50 };

  async function openMs(socket: net.Socket): Promise<number> {
    const from = performance.now();
    socket.resume();
    // Not `once` of node:events: a ping that meets the end is an error before it is the close.
    if (!socket.closed) await new Promise((resolve) => socket.once("close", resolve));
    return performance.now() - from;
  }

  test.each([
    ["nothing", ""],
    ["one byte", "G"],
    ["half of the preface", "PRI * HTTP/2.0"],
    ["a bare preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ["a preface and settings", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"],
    ["half of a head", "GET /health HTTP/1.1\r\nhost: loc"],
  ])("%s is closed in a bounded time", async (_name, bytes) => {
    const { port } = await openEcho({ listener: { times } });
    const socket = dial(port);
    socket.write(bytes, "latin1");
    expect(await openMs(socket)).toBeLessThan(3_000);
  });

  test("pings keep no HTTP/2 connection open that asks for nothing", async () => {
    const { port } = await openEcho({ listener: { times } });
    const socket = dial(port);
    socket.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", "latin1");
    const pings = setInterval(() => socket.destroyed || socket.write("\0\0\x08\x06\0\0\0\0\x0012345678", "latin1"), 20);
    onTestFinished(() => clearInterval(pings));
    expect(await openMs(socket)).toBeLessThan(3_000);
  });

  test("who asks for health slowly, without a credential, is cut off", async () => {
    const { port, address } = await openEcho({ doors: { world: hastyWorld(100) } });
    const socket = dial(port);
    socket.write(
      "POST /grpc.health.v1.Health/Check HTTP/1.1\r\nhost: localhost\r\ncontent-type: " +
        "application/json\r\ncontent-length: 100\r\n\r\n{",
    );
    expect(await openMs(socket)).toBeLessThan(5_000);
    const large = await fetch(`${address}/grpc.health.v1.Health/Check`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ service: "x".repeat(5_000) }),
    });
    expect(large.status).toBe(429);
  });
});

describe("a bound of connections", () => {
  test.each([
    ["in all", { connectionsMax: 3, connectionsPerAddressMax: 99 }],
    ["from one address", { connectionsMax: 99, connectionsPerAddressMax: 3 }],
  ])("%s: one more is dropped, and a place that comes free is given again", async (_name, room) => {
    const warnings: string[] = [];
    const { port } = await openEcho({
      listener: { room, log: { info() {}, warn: (message) => void warnings.push(message), error() {} } },
    });
    const held = [dial(port), dial(port), dial(port)];
    for (const socket of held) {
      socket.write("GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n");
      await once(socket, "data");
    }
    const more = dial(port);
    more.resume();
    await once(more, "close");
    expect(warnings).toEqual([expect.stringContaining("connections are dropped")]);
    held[0]!.destroy();
    for (;;) {
      const again = dial(port);
      again.write("GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n");
      const answered = await Promise.race([
        once(again, "data").then(
          () => true,
          () => false,
        ),
        once(again, "close").then(() => false),
      ]);
      if (answered) break;
    }
  });

  test("and the same under TLS", async () => {
    const { port } = await openEcho({
      listener: { tls: selfSigned(), room: { connectionsMax: 1, connectionsPerAddressMax: 1 } },
    });
    const first = dial(port);
    await once(first, "connect");
    const second = dial(port);
    second.resume();
    await once(second, "close");
    expect(first.destroyed).toBe(false);
  });
});
