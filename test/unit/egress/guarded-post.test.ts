/** Posts to addresses that tenants choose: what is resolved is what is connected to, and only where that may be. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { realWorld } from "../../../src/base/world.ts";
import { GuardedPost, type Resolved } from "../../../src/egress/guarded-post.ts";
import { Receiver } from "../../support/receiver.ts";

const world = realWorld();
const loopback: Resolved = { address: "127.0.0.1", family: 4 };

function poster(listed: string[], resolve?: (host: string) => Promise<readonly Resolved[]>): GuardedPost {
  const post = new GuardedPost({ world, listed, ...(resolve && { resolve }) });
  onTestFinished(() => post.close());
  return post;
}

test("a name is resolved once, and what it was resolved to is connected to", async () => {
  const receiver = await Receiver.start();
  const { port } = new URL(receiver.url);
  const asked: string[] = [];
  // The second answer would lead somewhere else.
  const answers: Resolved[][] = [[loopback], [{ address: "192.0.2.1", family: 4 }]];
  const post = poster(["hooks.test"], async (host) => (asked.push(host), answers.shift()!));
  const url = `http://hooks.test:${port}/x`;
  expect(await post.post(url, '{"a":1}', { "webhook-id": "one" })).toMatchObject({ failure: undefined, status: 200 });
  // On the connection that is there: nothing is resolved again.
  expect(await post.post(url, '{"a":2}', { "webhook-id": "two" })).toMatchObject({ failure: undefined });
  expect(asked).toEqual(["hooks.test"]);
  expect(receiver.posts.map(({ id }) => id)).toEqual(["one", "two"]);
  expect(receiver.posts[0]!.headers.host).toBe(`hooks.test:${port}`);
  expect(receiver.posts[0]!.headers["content-type"]).toBe("application/json");
});

test.each<[string, Resolved[]]>([
  ["a private one", [loopback]],
  ["a public and a private one", [{ address: "1.1.1.1", family: 4 }, loopback]],
  ["a form of a private one", [{ address: "::ffff:10.0.0.1", family: 6 }]],
  ["the one of a cloud's metadata", [{ address: "169.254.169.254", family: 4 }]],
])("a name that has %s for an address is not connected to", async (_, addresses) => {
  const post = poster([], async () => addresses);
  expect(await post.post("https://rebound.test/x", "{}", {})).toEqual({ failure: "address" });
});

test("a name server that answers otherwise later is asked anew for a new connection, and judged anew", async () => {
  const answers: Resolved[][] = [[{ address: "192.0.2.1", family: 4 }], [loopback]];
  const post = poster([], async () => answers.shift()!);
  for (let n = 0; n < 2; n++)
    expect(await post.post("https://rebound.test/x", "{}", {})).toEqual({ failure: "address" });
});

test("names without an address, ports without a server, servers without a certificate are told apart", async () => {
  expect(await poster([], async () => []).post("https://nowhere.test/", "{}", {})).toEqual({ failure: "dns" });
  const failing = poster([], () => Promise.reject(new Error("secret-name")));
  expect(await failing.post("https://nowhere.test/", "{}", {})).toEqual({ failure: "dns" });
  const receiver = await Receiver.start();
  const { port } = new URL(receiver.url);
  const plain = poster(["127.0.0.1"]);
  expect(await plain.post(`https://127.0.0.1:${port}/`, "{}", {})).toMatchObject({ failure: "tls" });
  await receiver.stop();
  expect(await plain.post(`http://127.0.0.1:${port}/`, "{}", {})).toEqual({ failure: "connection" });
});

test("an address that was listed once and is not any more is not posted to", async () => {
  const receiver = await Receiver.start();
  expect(await poster([]).post(receiver.url, "{}", {})).toEqual({ failure: "address" });
  expect(receiver.posts).toEqual([]);
});

test("an answer without an end is cut, and its status counts", async () => {
  let sent = 0;
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(200);
    const more = (): void => {
      if (response.destroyed) return;
      sent += 16_384;
      response.write("x".repeat(16_384), more);
    };
    more();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const post = poster(["127.0.0.1"]);
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  expect(await post.post(url, "{}", {})).toMatchObject({ failure: undefined, status: 200 });
  await new Promise<void>((resolve) => {
    const look = (): void =>
      void server.getConnections((_, count) => (count === 0 ? resolve() : void setTimeout(look, 10)));
    look();
  });
  expect(sent).toBeLessThan(16 * 1024 * 1024);
});
