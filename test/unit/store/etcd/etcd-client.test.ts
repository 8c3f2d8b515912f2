/** The client of etcd against servers that fail as they please; what etcd itself does is in test/live/etcd-leases. */
import { createServer, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { describe, expect, onTestFinished, test } from "vitest";
import { KV, Lease } from "../../../../gen/etcd/api/etcdserverpb/rpc_pb.ts";
import {
  EtcdClient,
  get,
  put,
  unchanged,
  UnknownLease,
  coordEndpointsMax,
} from "../../../../src/store/etcd/etcd-client.ts";
import { parseEtcdAddress } from "../../../../src/store/etcd/etcd-endpoint.ts";
import { hastyWorld } from "../../../support/hasty-world.ts";
import { freePort } from "../../../support/node-process.ts";

/** A server of the routes, with its connections and streams that are open, and how many connections there were. */
interface Scripted {
  readonly endpoint: string;
  readonly sessions: Set<ServerHttp2Session>;
  readonly streams: Set<ServerHttp2Stream>;
  opened: number;
}

async function serve(routes: (router: ConnectRouter) => void): Promise<Scripted> {
  const server = createServer(connectNodeAdapter({ routes }));
  const scripted: Scripted = { endpoint: "", sessions: new Set(), streams: new Set(), opened: 0 };
  server.on("session", (session) => {
    scripted.opened++;
    scripted.sessions.add(session);
    session.on("close", () => scripted.sessions.delete(session));
  });
  server.on("stream", (stream) => {
    scripted.streams.add(stream);
    stream.on("close", () => scripted.streams.delete(stream));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const session of scripted.sessions) session.destroy();
    server.close();
  });
  return Object.assign(scripted, { endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
}

function openClient(endpoints: readonly string[], haste = 1): EtcdClient {
  const client = new EtcdClient(endpoints, hastyWorld(haste));
  onTestFinished(() => client.close());
  return client;
}

const succeeds = (router: ConnectRouter): unknown => router.service(KV, { txn: () => ({ succeeded: true }) });
const fails =
  (code: Code, message: string) =>
  (router: ConnectRouter): unknown =>
    router.service(KV, {
      txn() {
        throw new ConnectError(message, code);
      },
    });
const change = [put("k", "v")];
const look = [get("k")];

describe("an endpoint", () => {
  test.each([
    ["127.0.0.1:2379", "http://127.0.0.1:2379", undefined],
    ["http://etcd-1:2379/", "http://etcd-1:2379", undefined],
    ["https://[::1]:2379", "https://[::1]:2379", undefined],
    ["https://me:se%40cret@etcd", "https://etcd", { name: "me", password: "se@cret" }],
    ["me:secret@etcd:2379", "http://etcd:2379", { name: "me", password: "secret" }],
  ])("%s", (text, origin, login) => {
    expect(parseEtcdAddress(text)).toEqual({ origin, login });
  });

  test.each([
    "",
    "http://",
    "ftp://me:secret@etcd",
    "http://etcd/path",
    "http://me:secret@etcd/?q",
    "http://me:secret@",
    "http://secret@etcd",
    "http://:secret@etcd",
    "http://me:%zzsecret@etcd",
    "etcd:secret",
    "http://etcd#secret",
  ])("%s is none, and the refusal shows no secret", (text) => {
    expect(() => parseEtcdAddress(text)).toThrow(
      expect.objectContaining({ kind: "misconfigured", message: expect.not.stringContaining("secret") }),
    );
  });

  test("there must be one, and not too many", () => {
    expect(() => openClient([])).toThrow(expect.objectContaining({ kind: "misconfigured" }));
    expect(() => openClient(Array.from({ length: coordEndpointsMax + 1 }, () => "etcd"))).toThrow(
      expect.objectContaining({ kind: "misconfigured" }),
    );
  });
});

describe("a call", () => {
  test("goes on to the next endpoint, and next time begins where it was answered", async () => {
    const sick = await serve(fails(Code.Unavailable, "etcdserver: request timed out"));
    const sound = await serve(succeeds);
    const client = openClient([`127.0.0.1:${await freePort()}`, sick.endpoint, sound.endpoint]);
    expect(await client.transact([], change)).toEqual({ succeeded: true, read: [], counts: [] });
    for (const session of sick.sessions) session.destroy();
    await client.transact([], change);
    expect([sick.opened, sound.opened]).toEqual([1, 1]);
  });

  test("that nobody answered may have happened only if it was a change that was sent", async () => {
    const dead = `127.0.0.1:${await freePort()}`;
    const sick = await serve(fails(Code.Unavailable, "etcdserver: request timed out"));
    const leaderless = await serve(fails(Code.Unavailable, "etcdserver: no leader"));
    const full = await serve(fails(Code.ResourceExhausted, "etcdserver: mvcc: database space exceeded"));
    await expect(openClient([sick.endpoint, dead]).transact([], change)).rejects.toMatchObject({
      kind: "unknown_outcome",
    });
    await expect(openClient([sick.endpoint, dead]).transact([], look)).rejects.toMatchObject({ kind: "unavailable" });
    await expect(openClient([dead, leaderless.endpoint, full.endpoint]).transact([], change)).rejects.toMatchObject({
      kind: "unavailable",
    });
  });

  test("ends in time where nothing comes back, cuts that connection, and the next one has a new one", async () => {
    let hangs = true;
    const server = await serve((router) =>
      router.service(KV, { txn: () => (hangs ? new Promise(() => {}) : { succeeded: true }) }),
    );
    const client = openClient([server.endpoint], 10);
    await expect(client.transact([], change)).rejects.toMatchObject({ kind: "unknown_outcome" });
    await expect.poll(() => server.sessions.size).toBe(0);
    hangs = false;
    expect(await client.transact([], look)).toMatchObject({ succeeded: true });
    expect(server.opened).toBe(2);
  });

  test("that is refused is a wrong configuration, at the first endpoint; an unknown lease is told so", async () => {
    const denied = await serve(fails(Code.PermissionDenied, `etcdserver: permission denied${"!".repeat(1_000)}`));
    const client = openClient([denied.endpoint, (await serve(succeeds)).endpoint]);
    const failure: Error = await client.transact([], change).then(
      () => expect.fail(),
      (error: Error) => error,
    );
    expect(failure).toMatchObject({ kind: "misconfigured" });
    expect(failure.message.length).toBeLessThan(300);
    await expect(openClient([(await serve(() => {})).endpoint]).transact([], look)).rejects.toMatchObject({
      kind: "misconfigured",
    });
    await expect(
      openClient([(await serve(fails(Code.NotFound, "etcdserver: requested lease not found"))).endpoint]).transact(
        [],
        change,
      ),
    ).rejects.toThrow(UnknownLease);
  });

  test("survives the farewell of an idle connection, even while that one closes", async () => {
    const server = await serve(succeeds);
    const client = openClient([server.endpoint]);
    for (let turn = 0; turn < 60; turn++) {
      await client.transact([], look);
      for (const session of server.sessions) session.goaway();
      // The farewell arrives before the next call, after it, or just then.
      for (let passed = 0; passed < turn % 12; passed++) await new Promise((resolve) => setImmediate(resolve));
      expect(await client.transact([], look)).toMatchObject({ succeeded: true });
    }
    // An error that comes late would end this process.
    await pause(50);
  });

  test("carries what a transaction says", async () => {
    let heard: unknown;
    const server = await serve((router) =>
      router.service(KV, {
        txn(request) {
          heard = request;
          return {
            succeeded: false,
            responses: [
              {
                response: {
                  case: "responseRange",
                  value: { kvs: [{ key: Buffer.from("k"), value: Buffer.from("v"), modRevision: 7n }], count: 3n },
                },
              },
            ],
          };
        },
      }),
    );
    const client = openClient([server.endpoint]);
    const outcome = await client.transact([unchanged("k", undefined)], [put("k", "v", 9n)], look);
    expect(outcome).toEqual({
      succeeded: false,
      read: [[{ key: "k", value: expect.anything(), revision: 7n }]],
      counts: [3],
    });
    await client.transact([unchanged("k", outcome.read[0]![0])], look);
    expect(heard).toMatchObject({ compare: [{ targetUnion: { case: "modRevision", value: 7n } }] });
  });
});

describe("a renewal", () => {
  const renewing =
    (ttls: readonly bigint[]) =>
    (router: ConnectRouter): unknown =>
      router.service(Lease, {
        async *leaseKeepAlive(requests) {
          for await (const { ID } of requests) for (const TTL of ttls) yield { ID, TTL };
        },
      });

  test("answers for how long the lease lives, and leaves no stream open", async () => {
    const server = await serve(renewing([10n]));
    const client = openClient([server.endpoint]);
    for (let turn = 0; turn < 50; turn++) expect(await client.keepAlive(1n)).toBe(10);
    await expect.poll(() => server.streams.size).toBe(0);
    expect(server.opened).toBe(1);
  });

  test("of a lease that etcd does not know is told as such; one without an answer may have happened", async () => {
    await expect(openClient([(await serve(renewing([0n]))).endpoint]).keepAlive(1n)).rejects.toThrow(UnknownLease);
    await expect(openClient([(await serve(renewing([]))).endpoint]).keepAlive(1n)).rejects.toMatchObject({
      kind: "unknown_outcome",
    });
  });
});
