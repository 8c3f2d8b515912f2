/**
 * Unary calls by gRPC beside the same calls by REST, in turn on one node: key-value gets and ingests, by clients; and
 * what Node's own HTTP makes of the ratio, on bare servers that answer a few bytes. Both kinds of client are Node's
 * own and send bodies that were encoded before the clock runs; each has a connection of its own, and gRPC's share one
 * as well, which is what a channel does.
 */
import { Agent, request as httpRequest } from "node:http";
import { connect, type ClientHttp2Session } from "node:http2";
import { join } from "node:path";
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { GetValueRequestSchema } from "../../gen/palimpsest/v1/data_pb.ts";
import { IngestRequestSchema } from "../../gen/palimpsest/v1/memory_pb.ts";
import { startNodeProcess } from "../support/node-process.ts";
import { startBareWires } from "./floors.ts";
import { cpuMsOf } from "./process-tree.ts";
import { median } from "./raw-client.ts";
import { report, type Row } from "./report.ts";
import { buildSentences, ingestRequest } from "./writes.ts";

const clientCounts = [1, 16, 64];
const warmMs = 3_000;
const roundMs = 1_500;
const rounds = 7;
const goal = 0.85;

/** Stands in a body where the number of its call is written: no two ingests are alike. */
const numberMark = "%%%%%%%%";

/** One kind of call, by both wires. */
interface Work {
  readonly what: string;
  readonly rest: { readonly method: string; readonly path: string; readonly bodies: readonly Buffer[] };
  readonly grpc: { readonly path: string; readonly bodies: readonly Buffer[] };
}

/** Sends one request and resolves when its answer is whole; a refusal rejects. */
type Send = (body: Buffer) => Promise<void>;

/** A way to call: a client is `open()`ed for each loop. */
interface Way {
  readonly what: "REST" | "gRPC, a connection each" | "gRPC, one connection";
  open(work: Work, target: Target): Send;
  bodies(work: Work): readonly Buffer[];
  close(): void;
}

/** What is called. */
interface Target {
  readonly restPort: number;
  readonly grpcPort: number;
  readonly pid: number;
}

interface Round {
  readonly perSecond: number;
  /** Of the server, for one call. */
  readonly cpuUs: number;
}

function openRest(agents: Agent[], { rest: { method, path } }: Work, port: number): Send {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  agents.push(agent);
  return (body) =>
    new Promise((resolve, reject) => {
      const headers =
        body.length === 0 ? {} : { "content-length": body.length, "content-type": "application/json" as const };
      const sent = httpRequest({ port, host: "127.0.0.1", method, path, agent, headers }, (response) => {
        if (response.statusCode! >= 300) reject(new Error(`status ${response.statusCode}`));
        response.on("data", () => {});
        response.on("end", resolve);
      });
      sent.on("error", reject);
      sent.end(body);
    });
}

function openGrpc(session: ClientHttp2Session, { grpc: { path } }: Work): Send {
  const headers = { ":method": "POST", ":path": path, "content-type": "application/grpc", te: "trailers" };
  return (body) =>
    new Promise((resolve, reject) => {
      const sent = session.request(headers);
      let status: unknown;
      sent.on("trailers", (trailers) => (status = trailers["grpc-status"]));
      sent.on("data", () => {});
      sent.on("end", () => (status === "0" ? resolve() : reject(new Error(`grpc-status ${String(status)}`))));
      sent.on("error", reject);
      sent.end(body);
    });
}

function restWay(): Way {
  const agents: Agent[] = [];
  return {
    what: "REST",
    open: (work, { restPort }) => openRest(agents, work, restPort),
    bodies: ({ rest }) => rest.bodies,
    close: () => agents.splice(0).forEach((agent) => agent.destroy()),
  };
}

function grpcWay(isShared: boolean): Way {
  const sessions: ClientHttp2Session[] = [];
  return {
    what: isShared ? "gRPC, one connection" : "gRPC, a connection each",
    open(work, { grpcPort }) {
      const session = (isShared && sessions[0]) || connect(`http://127.0.0.1:${grpcPort}`);
      if (session !== sessions[0]) sessions.push(session);
      return openGrpc(session, work);
    },
    bodies: ({ grpc }) => grpc.bodies,
    close: () => sessions.splice(0).forEach((session) => session.close()),
  };
}

/** The body of a call: a copy with the number in the place of its marks. */
function numbered(body: Buffer, number: number): Buffer {
  let at = body.indexOf(numberMark);
  if (at < 0) return body;
  const copy = Buffer.from(body);
  for (; at >= 0; at = copy.indexOf(numberMark, at))
    copy.write(String(number).padStart(numberMark.length, "0"), at, "latin1");
  return copy;
}

/** Numbers of calls so far, so that every ingest of the run is another. */
let calls = 0;

async function runRound(target: Target, way: Way, work: Work, clients: number, durationMs: number): Promise<Round> {
  const loops = Array.from({ length: clients }, () => way.open(work, target));
  const bodies = way.bodies(work);
  const before = cpuMsOf([target.pid]);
  const firstCall = calls;
  const startedAt = performance.now();
  await Promise.all(
    loops.map(async (send) => {
      while (performance.now() - startedAt < durationMs) {
        calls++;
        await send(numbered(bodies[calls % bodies.length]!, calls));
      }
    }),
  );
  const done = calls - firstCall;
  const seconds = (performance.now() - startedAt) / 1_000;
  const usedMs = cpuMsOf([target.pid]) - before;
  way.close();
  return { perSecond: done / seconds, cpuUs: (usedMs * 1e3) / done };
}

/** All ways in turn, in the other order every other round. */
async function inTurn(target: Target, work: Work, clients: number): Promise<Row[]> {
  const ways = [restWay(), grpcWay(false), ...(clients > 1 ? [grpcWay(true)] : [])];
  const seen = new Map<Way, Round[]>(ways.map((way) => [way, []]));
  for (const way of ways) await runRound(target, way, work, clients, warmMs);
  for (let round = 0; round < rounds; round++)
    for (const way of round % 2 === 0 ? ways : ways.toReversed())
      seen.get(way)!.push(await runRound(target, way, work, clients, roundMs));
  const rest = seen.get(ways[0]!)!;
  return ways.map((way) => {
    const own = seen.get(way)!;
    const ratioOf = (of: keyof Round): string =>
      median(own.map((round, index) => round[of] / rest[index]![of])).toFixed(2);
    const cost = `${median(own.map(({ cpuUs }) => cpuUs)).toFixed(0)} µs of the server's processors a call`;
    const ratios = `${ratioOf("perSecond")} of REST's rate (goal ${goal}), ${ratioOf("cpuUs")} of its processor time`;
    return {
      what: `${work.what}, ${clients} clients, ${way.what}`,
      perSecond: median(own.map(({ perSecond }) => perSecond)),
      note: way === ways[0] ? cost : `${cost}; ${ratios}`,
    };
  });
}

function enveloped(message: Uint8Array): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

const getWork: Work = {
  what: "kv get",
  rest: { method: "GET", path: "/v1/db/kv/kv/n/k", bodies: [Buffer.alloc(0)] },
  grpc: {
    path: "/palimpsest.v1.DataService/GetValue",
    bodies: [
      enveloped(toBinary(GetValueRequestSchema, create(GetValueRequestSchema, { db: "kv", ns: "n", key: "k" }))),
    ],
  },
};

function buildIngestWork(): Work {
  const requests = buildSentences(512).map((sentence) => ingestRequest("one", sentence, numberMark));
  const [method, path] = requests[0]!;
  const toProto = (text: string): Buffer => {
    const { memories } = JSON.parse(text) as { memories: readonly [Record<string, string>] };
    const [{ type, summary, session_id: sessionId, content }] = memories;
    const request = {
      ns: "bench",
      profile: "one",
      memories: [{ type, summary, sessionId, content: toValue(content) }],
    };
    return enveloped(
      toBinary(
        IngestRequestSchema,
        create(IngestRequestSchema, request as MessageInitShape<typeof IngestRequestSchema>),
      ),
    );
  };
  return {
    what: "ingest",
    rest: { method, path, bodies: requests.map(([, , body]) => Buffer.from(body!)) },
    grpc: {
      path: "/palimpsest.v1.MemoryService/Ingest",
      bodies: requests.map(([, , body]) => toProto(body!)),
    },
  };
}

/** An object of texts as a google.protobuf.Value. */
function toValue(object: unknown): object {
  const fields = Object.entries(object as Record<string, string>).map(
    ([name, text]) => [name, { kind: { case: "stringValue", value: text } }] as const,
  );
  return { kind: { case: "structValue", value: { fields: Object.fromEntries(fields) } } };
}

export async function benchGrpc(directory: string): Promise<void> {
  const node = await startNodeProcess(join(directory, "grpc"));
  await node.call("POST", "/v1/databases", { name: "kv" });
  await node.call("PUT", "/v1/db/kv/kv/n/k", "value", { "content-type": "text/plain" });
  const target = { restPort: node.port, grpcPort: node.port, pid: node.child.pid! };
  const bare = await startBareWires();
  const rows: Row[] = [];
  for (const clients of clientCounts) rows.push(...(await inTurn(bare, { ...getWork, what: "bare servers" }, clients)));
  for (const work of [getWork, buildIngestWork()])
    for (const clients of clientCounts) rows.push(...(await inTurn(target, work, clients)));
  bare.stop();
  await node.end("SIGTERM");
  report(`gRPC beside REST (Node's own clients, medians of ${rounds} rounds in turn)`, rows);
}
