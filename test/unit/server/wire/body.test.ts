/** The room that the bodies of requests share while they are read. */
import { once } from "node:events";
import * as http from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { ServiceError } from "../../../../src/base/faults/errors.ts";
import { BodyRoom, readBody } from "../../../../src/server/wire/body.ts";
import { ClientGone } from "../../../../src/service/call/call.ts";

/** A server that reads bodies into one room and answers with what came of each. */
async function openReader(room: BodyRoom, outcomes: unknown[]): Promise<number> {
  const server = http.createServer((request, response) => {
    readBody(request, 1000, room).then(
      (body) => {
        response.end(String(body.bytes.length));
        body[Symbol.dispose]();
      },
      (error: unknown) => {
        outcomes.push(error);
        response.end(error instanceof ServiceError ? error.code : "gone");
      },
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

async function holding(room: BodyRoom, bytes: number): Promise<void> {
  while (room.bytes !== bytes) await new Promise((resolve) => void setImmediate(resolve));
}

test("all bodies that are being read share one room, and give it back however they end", async () => {
  const room = new BodyRoom(1000);
  const outcomes: unknown[] = [];
  const port = await openReader(room, outcomes);
  const begin = (): http.ClientRequest => {
    const request = http.request({
      host: "127.0.0.1",
      port,
      method: "POST",
      agent: false,
      headers: { "content-length": "900" },
    });
    request.on("error", () => {});
    request.write(Buffer.alloc(800));
    return request;
  };
  const post = async (bytes: number): Promise<string> =>
    (await fetch(`http://127.0.0.1:${port}`, { method: "POST", body: Buffer.alloc(bytes) })).text();
  const slow = begin();
  await holding(room, 800);
  expect(await post(300)).toBe("overloaded");
  expect(await post(200)).toBe("200");
  expect(room.bytes).toBe(800);
  slow.destroy();
  await holding(room, 0);
  expect(outcomes.at(-1)).toBeInstanceOf(ClientGone);
  expect([await post(1000), await post(1001), await post(0)]).toEqual(["1000", "payload_too_large", "0"]);
  expect(room.bytes).toBe(0);
});
