/** Links between nodes when something is wrong: the key, the build, the line, the other node. */
import { connect as connectTcp, createServer } from "node:net";
import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  CallSchema,
  type ExchangeRequest,
  ExchangeRequestSchema,
  ExchangeResponseSchema,
} from "../../../../gen/palimpsest/node/v1/node_pb.ts";
import { ServiceError } from "../../../../src/base/faults/errors.ts";
import type { Answer } from "../../../../src/engine/api/protocol.ts";
import { encodeCall } from "../../../../src/server/node-wire/node-messages.ts";
import type { PeerLinks } from "../../../../src/server/cluster/peer-links.ts";
import { type ForwardedCall, Unreachable } from "../../../../src/service/placement/peers.ts";
import { hastyWorld } from "../../../support/hasty-world.ts";
import { uuidOf } from "../../../support/inline-engine.ts";
import { LinkProxy } from "../../../support/link-proxy.ts";
import {
  answered,
  expectAnswer,
  buildCall,
  clusterKey,
  codec,
  greeting,
  openLinks,
  openPeer,
  openScripted,
  type PeerNode,
  readCall,
  sayTo,
} from "../../../support/peer-node.ts";
import { of, foreverAfter, saidBy } from "../../../support/exchanges.ts";

const never = (): Promise<Answer> => new Promise(() => {});

/** Three seconds of silence in less than one. */
const hasty = hastyWorld(5);

/** A node behind a line that the test can break; calls with the transaction id 0 are never answered. */
async function openBehindProxy(): Promise<{ peer: PeerNode; proxy: LinkProxy; address: string }> {
  const peer = await openPeer(({ minTxid }) => (minTxid === 0 ? never() : answered(minTxid)));
  const proxy = await LinkProxy.open(peer.port);
  onTestFinished(() => proxy.close());
  return { peer, proxy, address: `http://127.0.0.1:${proxy.port}` };
}

/** Calls of every kind, and whether they may be made again when nobody knows what became of them. */
const kinds: readonly (readonly [ForwardedCall["call"], boolean])[] = [
  [readCall, true],
  [{ kind: "sql-read", batch: { statements: [], atomic: true, mayWrite: false } }, true],
  [{ kind: "sync" }, true],
  [{ kind: "branch", act: { act: "list" } }, true],
  [{ kind: "branch", act: { act: "checkpoints" } }, true],
  [buildCall().call, false],
  [{ kind: "sql-write", batch: { statements: [], atomic: true, mayWrite: true } }, false],
  [{ kind: "branch", act: { act: "fork", name: "b" } }, false],
  [{ kind: "branch", act: { act: "rewind", to: "1" } }, false],
  [{ kind: "drop" }, false],
];

/** Has a call of every kind under way, does the deed, and looks how each ends. */
async function expectLoss(links: PeerLinks, peer: PeerNode, address: string, deed: () => void): Promise<void> {
  await links.forward(address, buildCall({ minTxid: 1 }));
  const before = peer.served.length;
  const calls = kinds.map(([call]) => links.forward(address, buildCall({ call })));
  const settled = Promise.allSettled(calls);
  await expect.poll(() => peer.served.length).toBe(before + kinds.length);
  deed();
  const begun = hasty.monotonicMs();
  for (const [at, outcome] of (await settled).entries()) {
    const [call, isRepeatable] = kinds[at]!;
    const { reason } = outcome as PromiseRejectedResult;
    if (isRepeatable) expect([call, reason.name]).toEqual([call, "Unreachable"]);
    else
      expect([call, reason.code, reason.message, reason.detail]).toEqual([
        call,
        "unavailable",
        expect.stringContaining("whether the write happened is not known"),
        { retryAfterSecs: 1 },
      ]);
  }
  // Far from their minute, whatever happened to the line.
  expect(hasty.monotonicMs() - begun).toBeLessThan(45_000);
}

describe("the cluster key", () => {
  test("a node with another key is refused before anything is read, and both of its sides say so plainly", async () => {
    const peer = await openPeer(() => answered(1));
    const { links, log } = openLinks({ key: "another-key" });
    for (let round = 0; round < 3; round++) {
      const refused = links.forward(peer.address, buildCall());
      await expect(refused).rejects.toMatchObject({
        name: "ServiceError",
        code: "unavailable",
        message: expect.stringContaining("cluster key"),
      });
    }
    const [said, ...more] = log.said;
    expect(said).toMatchObject({
      level: "error",
      message: expect.stringMatching(/SERVICE_CLUSTER_KEY.*SERVICE_AUTH_KEY/),
      fields: { address: peer.address },
    });
    expect(more).toEqual([]);
    expect(JSON.stringify([log.said, peer.log.said])).not.toContain("another-key");
    expect(peer.served).toEqual([]);
  });

  test("no key, an empty one, a part of it, one with more, and the key as a bearer are all unauthorized", async () => {
    const peer = await openPeer(() => answered(1));
    const wrong: Record<string, string>[] = [
      {},
      ...[
        "",
        "x",
        clusterKey.slice(0, -1),
        `${clusterKey}x`,
        `${clusterKey}, ${clusterKey}`,
        clusterKey.toUpperCase(),
      ].map((key) => ({ "service-internal": key })),
      { authorization: `Bearer ${clusterKey}` },
    ];
    for (const headers of wrong) {
      const { said, error } = await saidBy(sayTo(peer.address, foreverAfter(greeting()), headers));
      expect([headers, said, error?.code]).toEqual([headers, [], Code.Unauthenticated]);
    }
    expect((await saidBy(sayTo(peer.address, of(greeting())))).said).toHaveLength(1);
  });
});

describe("nodes of different builds", () => {
  test("a caller of another protocol is refused, and so is one that begins with a call", async () => {
    const peer = await openPeer(() => answered(1));
    for (const first of [{ protocol: "0/1" }, { calls: [encodeCall(1, buildCall(), codec)] }, {}]) {
      const { said, error } = await saidBy(sayTo(peer.address, foreverAfter(create(ExchangeRequestSchema, first))));
      expect([said, error?.code, error?.message]).toEqual([
        [],
        Code.FailedPrecondition,
        expect.stringContaining("this node speaks"),
      ]);
    }
    expect((await saidBy(sayTo(peer.address, of()))).error?.code).toBe(Code.FailedPrecondition);
    expect(peer.served).toEqual([]);
  });

  test("a receiver of another protocol gets no call, and callers are told why", async () => {
    let calls = 0;
    const address = await openScripted(async function* (requests) {
      yield create(ExchangeResponseSchema, { protocol: "9/99" });
      for await (const message of requests) calls += message.calls.length;
    });
    const { links, log } = openLinks();
    await expect(links.forward(address, buildCall())).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("different builds"),
    });
    expect(log.said[0]).toMatchObject({ level: "error", message: expect.stringContaining("same version") });
    expect(calls).toBe(0);
  });
});

describe("a line that is lost with calls under way", () => {
  test("is cut: what may be repeated is Unreachable, of what may have happened nobody knows", async () => {
    const { peer, proxy, address } = await openBehindProxy();
    const { links, log } = openLinks({ world: hasty });
    await expectLoss(links, peer, address, () => proxy.cut());
    expect(log.said).toMatchObject([{ level: "warn", fields: { address, calls: kinds.length } }]);
    proxy.restore();
    await expectAnswer(links, address, 2, { minTxid: 2 });
  });

  test.each([["requests", "answers"], ["requests"], ["answers"]] as const)(
    "carries no more %s %s, as of a node that was stopped: given up after three seconds",
    async (...flows) => {
      const { peer, proxy, address } = await openBehindProxy();
      const { links } = openLinks({ world: hasty });
      await expectLoss(links, peer, address, () => proxy.silence(...flows));
      proxy.restore();
      await expectAnswer(links, address, 2, { minTxid: 2 });
    },
  );

  test("of a node whose process ends", async () => {
    const { peer, address } = await openBehindProxy();
    const { links } = openLinks({ world: hasty });
    await expectLoss(links, peer, address, () => void peer.listener.close());
  });

  test("slow calls are waited for as long as the node shows that it lives", async () => {
    const slow = Promise.withResolvers<Answer>();
    const peer = await openPeer(() => slow.promise);
    const { links, log } = openLinks({ world: hasty });
    const call = links.forward(peer.address, buildCall());
    // Ten seconds of the sender's time.
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    slow.resolve(answered("at last"));
    expect((await call).value).toBe("at last");
    expect(log.said).toEqual([]);
  });
});

describe("a node that is not there", () => {
  test("nobody listens: calls have had no effect, and are not held up", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as { port: number };
    await new Promise((resolve) => server.close(resolve));
    const { links, log } = openLinks();
    const address = `http://127.0.0.1:${port}`;
    const begun = performance.now();
    for (let round = 0; round < 50; round++)
      await expect(links.forward(address, buildCall())).rejects.toThrow(Unreachable);
    expect(performance.now() - begun).toBeLessThan(2_000);
    expect(log.said.length).toBeLessThanOrEqual(2);
    const peer = await openPeer(() => answered(1), { listener: { port } });
    await expectAnswer(links, address, 1);
    expect(peer.served.length).toBe(1);
  });

  test("it takes connections and says nothing: writes too have had no effect, as none has left", async () => {
    let bytes = "";
    const sockets = new Set<{ destroy(): void }>();
    const server = createServer(
      (socket) =>
        void sockets.add(socket.on("data", (chunk) => (bytes += chunk.toString("latin1"))).on("error", () => {})),
    );
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    const { links } = openLinks({ world: hasty });
    const address = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
    const calls = [buildCall(), buildCall({ call: readCall })].map((call) => links.forward(address, call));
    for (const settled of await Promise.allSettled(calls))
      expect((settled as PromiseRejectedResult).reason).toBeInstanceOf(Unreachable);
    expect(bytes).not.toContain("kv.put");
  });

  test("an address that is none", async () => {
    const { links } = openLinks();
    for (const address of ["", "nonsense", "http://no-such-host.invalid:1"])
      await expect(links.forward(address, buildCall())).rejects.toThrow(Unreachable);
  });

  test("something else answers at the address", async () => {
    const { links } = openLinks();
    const sockets = new Set<{ destroy(): void }>();
    const server = createServer((socket) => {
      sockets.add(socket.on("error", () => {}));
      socket.end("HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    await expect(
      links.forward(`http://127.0.0.1:${(server.address() as { port: number }).port}`, buildCall()),
    ).rejects.toThrow(Unreachable);
  });
});

describe("a caller that goes away", () => {
  test.each(["reset", "farewell"] as const)(
    "by a %s: what it followed ends at once, and its calls are answered to nobody",
    async (how) => {
      const followed = new Set<string>();
      const slow = Promise.withResolvers<Answer>();
      const peer = await openPeer(() => slow.promise, {
        host: { followed: (uuid) => (followed.add(uuid), () => void followed.delete(uuid)) },
      });
      // A TCP relay of the test's own: the client of HTTP/2 has no way to leave without a word.
      const near = createServer((socket) => {
        const far = connectTcp(peer.port, "127.0.0.1");
        for (const end of [socket, far]) end.on("error", () => {});
        socket.pipe(far, { end: false });
        far.pipe(socket, { end: false });
        leave = () => void (how === "reset" ? far.resetAndDestroy() : far.end());
      });
      let leave = (): void => {};
      await new Promise<void>((resolve) => near.listen(0, "127.0.0.1", resolve));
      onTestFinished(() => void near.close());
      const { links } = openLinks();
      const address = `http://127.0.0.1:${(near.address() as { port: number }).port}`;
      links.follow(address, uuidOf(1));
      links.forward(address, buildCall()).catch((error: unknown) => expect(error).toBeInstanceOf(ServiceError));
      await expect.poll(() => [followed.size, peer.served.length]).toEqual([1, 1]);
      leave();
      await expect.poll(() => followed.size).toBe(0);
      slow.resolve(answered(1));
      expect(peer.log.said).toEqual([]);
    },
  );

  test("one that is not heard of any more is forgotten", async () => {
    const followed = new Set<string>();
    const peer = await openPeer(() => answered(1), {
      world: hastyWorld(200),
      host: { followed: (uuid) => (followed.add(uuid), () => void followed.delete(uuid)) },
    });
    const { error } = await saidBy(
      sayTo(peer.address, foreverAfter(greeting(), create(ExchangeRequestSchema, { follows: [uuidOf(1)] }))),
    );
    expect(error?.code).toBe(Code.DeadlineExceeded);
    expect(followed.size).toBe(0);
  });

  test("one that does not take its answers gets no more calls in", async () => {
    const value = new Uint8Array(1024 * 1024);
    const peer = await openPeer(() => answered(value));
    const proxy = await LinkProxy.open(peer.port);
    onTestFinished(() => proxy.close());
    const calls = 35;
    async function* asking(): AsyncGenerator<ExchangeRequest> {
      yield greeting();
      for (let id = 1; id <= calls; id++)
        yield create(ExchangeRequestSchema, { calls: [create(CallSchema, encodeCall(id, buildCall(), codec))] });
    }
    const answers = sayTo(`http://127.0.0.1:${proxy.port}`, asking())[Symbol.asyncIterator]();
    expect((await answers.next()).value).toMatchObject({ protocol: codec.protocol });
    proxy.silence("answers");
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    // 16 MiB that wait, and what is on its way.
    expect(peer.served.length).toBeLessThan(30);
    proxy.restore();
    let answeredCalls = 0;
    for (let next = await answers.next(); !next.done; next = await answers.next())
      answeredCalls += next.value.answers.length;
    expect([answeredCalls, peer.served.length]).toEqual([calls, calls]);
  });
});
