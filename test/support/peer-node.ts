/**
 * Two ends of the links between nodes on real sockets: a node's door before a host of the test's choice, and links to
 * it.
 */
import { createServer, type Http2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import { create } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { connectNodeAdapter, createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { expect, onTestFinished } from "vitest";
import {
  type ExchangeRequest,
  ExchangeRequestSchema,
  type ExchangeResponse,
  ExchangeResponseSchema,
  NodeService,
} from "../../gen/palimpsest/node/v1/node_pb.ts";
import type { Log, LogFields } from "../../src/base/log.ts";
import { realWorld, type World } from "../../src/base/world.ts";
import type { Answer } from "../../src/engine/api/protocol.ts";
import type { ListenerOptions } from "../../src/server/wire/listener.ts";
import { NodeDoor } from "../../src/server/cluster/node-door.ts";
import { buildGreeting, ownCodecs, type PayloadCodec } from "../../src/server/node-wire/node-protocol.ts";
import { PeerLinks } from "../../src/server/cluster/peer-links.ts";
import type { ForwardedCall, PeerHost } from "../../src/service/placement/peers.ts";
import { openEcho, type EchoNode } from "./echo-node.ts";
import { uuidOf } from "./inline-engine.ts";

export const clusterKey = "the-cluster-key-of-the-tests";

/** What went to a log. */
interface Said {
  readonly level: "info" | "warn" | "error";
  readonly message: string;
  readonly error?: unknown;
  readonly fields?: LogFields | undefined;
}

function listeningLog(): Log & { readonly said: Said[] } {
  const said: Said[] = [];
  return {
    said,
    info: (message, fields) => void said.push({ level: "info", message, fields }),
    warn: (message, fields) => void said.push({ level: "warn", message, fields }),
    error: (message, error, fields) => void said.push({ level: "error", message, error, fields }),
  };
}

export interface PeerNode extends EchoNode {
  readonly door: NodeDoor;
  readonly log: ReturnType<typeof listeningLog>;
  /** Calls that reached the host. */
  readonly served: ForwardedCall[];
}

/** A node's door on a port of its own, closed with the test. `answer` is what the host does with a call. */
export async function openPeer(
  answer: (call: ForwardedCall) => Answer | Promise<Answer>,
  given: {
    world?: World;
    host?: Partial<PeerHost>;
    listener?: Partial<ListenerOptions>;
    codecs?: readonly PayloadCodec[];
  } = {},
): Promise<PeerNode> {
  const log = listeningLog();
  const served: ForwardedCall[] = [];
  const host: PeerHost = {
    serve: async (call) => {
      served.push(call);
      return answer(call);
    },
    followed: () => () => {},
    hinted() {},
    nudged() {},
    ...given.host,
  };
  const { world = realWorld(), codecs = ownCodecs } = given;
  const door = new NodeDoor({ host, clusterKey, world, log, codecs });
  const echo = await openEcho({ doors: { nodeDoor: door }, ...(given.listener && { listener: given.listener }) });
  return { ...echo, door, log, served };
}

export interface OpenLinks {
  readonly links: PeerLinks;
  readonly log: ReturnType<typeof listeningLog>;
  readonly hinted: string[];
}

export function openLinks(given: { world?: World; key?: string; codecs?: readonly PayloadCodec[] } = {}): OpenLinks {
  const log = listeningLog();
  const hinted: string[] = [];
  const links = new PeerLinks({
    clusterKey: given.key ?? clusterKey,
    world: given.world ?? realWorld(),
    log,
    codecs: given.codecs ?? ownCodecs,
    hinted: (uuid) => void hinted.push(uuid),
  });
  onTestFinished(() => links.close());
  return { links, log, hinted };
}

/** A call with what a test does not care about filled in: a write of a key, with a minute to go. */
export function buildCall(given: Partial<ForwardedCall> = {}): ForwardedCall {
  return {
    target: { uuid: uuidOf(1), branch: "main" },
    call: {
      kind: "write",
      command: "kv.put",
      input: { ns: "n", key: "k", value: new Uint8Array(3) },
    },
    budgetMs: 60_000,
    minTxid: 0,
    bytes: 0,
    durable: false,
    consistency: undefined,
    caller: undefined,
    term: 1,
    ...given,
  };
}

/** What a host answers when nothing but the value matters. */
export const answered = (value: unknown): Answer => ({ value, txid: 5, durableTxid: 4 });

/** Calls until the answer has this value: a node that was given up is tried again only after a while. */
export async function expectAnswer(
  links: PeerLinks,
  address: string,
  value: unknown,
  given: Partial<ForwardedCall> = {},
): Promise<void> {
  const call = (): Promise<unknown> =>
    links.forward(address, buildCall(given)).then(
      (answer) => answer.value,
      () => undefined,
    );
  await expect.poll(call, { timeout: 10_000 }).toBe(value);
}

export const readCall: ForwardedCall["call"] = { kind: "read", command: "kv.get", input: { ns: "n", key: "k" } };

/** A node that speaks the messages as the test writes them. Gives its address. */
export async function openScripted(
  exchange: (requests: AsyncIterable<ExchangeRequest>) => AsyncIterable<ExchangeResponse>,
): Promise<string> {
  const adapter = connectNodeAdapter({ routes: (router) => void router.service(NodeService, { exchange }) });
  const server: Http2Server = createServer(adapter);
  const sessions = new Set<{ destroy(): void }>();
  server.on("session", (session) => sessions.add(session));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Says to a node what the test wants, with the headers that the test wants. */
export function sayTo(
  address: string,
  requests: AsyncIterable<ExchangeRequest>,
  headers: Record<string, string> = { "service-internal": clusterKey },
): AsyncIterable<ExchangeResponse> {
  const sessionManager = new Http2SessionManager(address);
  onTestFinished(() => sessionManager.abort());
  return createClient(
    NodeService,
    createGrpcTransport({ baseUrl: address, sessionManager, acceptCompression: [] }),
  ).exchange(requests, { headers });
}

/** The protocol of nodes of this build. */
export const [codec] = ownCodecs;

export const greeting = (): ExchangeRequest => create(ExchangeRequestSchema, buildGreeting(ownCodecs));
export const welcome = (): ExchangeResponse => create(ExchangeResponseSchema, { protocol: codec.protocol });
