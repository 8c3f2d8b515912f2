/**
 * Recall by a tool of MCP, by both revisions, beside the same recall by REST, in turn on one node: what the protocol
 * adds to one call, and what is left of the throughput of 64 clients. The clients are Node's own and send bodies that
 * were encoded before the clock runs, each over a connection of its own.
 *
 * And the start of the proxy for clients of standard input: until it has answered its first request, beside a process
 * of Node.js that does nothing, in turn.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Agent, request as httpRequest } from "node:http";
import { join } from "node:path";
import { startNodeProcess } from "../support/node-process.ts";
import { cpuMsOf } from "./process-tree.ts";
import { median } from "./raw-client.ts";
import { report, type Row } from "./report.ts";
import { texts } from "./words.ts";

const memories = 500;
const queries = 200;
const clientCounts = [1, 64];
const warmMs = 3_000;
const roundMs = 2_000;
const rounds = 5;
const starts = 21;
/** What a call may cost more at the median, and what must be left of REST's throughput. */
const addedMsMax = 2;
const shareMin = 0.5;

/** A way to ask for a recall. */
interface Way {
  readonly what: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  body(query: string): object;
}

const accept = { accept: "application/json, text/event-stream" };
const call = (query: string, more: object = {}): object => ({
  jsonrpc: "2.0",
  id: 1,
  method: "tools/call",
  params: { name: "recall", arguments: { query, k: 8 }, ...more },
});
const meta = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "bench", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};

const ways: readonly Way[] = [
  { what: "REST", path: "/v1/memory/bench/r/recall", headers: {}, body: (query) => ({ query, k: 8 }) },
  {
    what: "MCP 2026-07-28",
    path: "/mcp/bench/r",
    headers: { ...accept, "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "recall" },
    body: (query) => call(query, { _meta: meta }),
  },
  {
    what: "MCP 2025-11-25",
    path: "/mcp/bench/r",
    headers: { ...accept, "mcp-protocol-version": "2025-11-25" },
    body: (query) => call(query),
  },
];

interface Round {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Of the node, for one call. */
  readonly cpuUs: number;
}

function send(port: number, agent: Agent, { path, headers }: Way, body: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest(
      {
        port,
        host: "127.0.0.1",
        method: "POST",
        path,
        agent,
        headers: { "content-type": "application/json", "content-length": body.length, ...headers },
      },
      (response) => {
        if (response.statusCode !== 200) reject(new Error(`status ${response.statusCode}`));
        response.on("data", () => {});
        response.on("end", resolve);
      },
    );
    sent.on("error", reject);
    sent.end(body);
  });
}

async function runRound(node: Target, way: Way, clients: number, durationMs: number): Promise<Round> {
  const bodies = node.queries.map((query) => Buffer.from(JSON.stringify(way.body(query))));
  const times: number[] = [];
  const before = cpuMsOf([node.pid]);
  const startedAt = performance.now();
  await Promise.all(
    Array.from({ length: clients }, async (_, client) => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      for (let step = client; performance.now() - startedAt < durationMs; step++) {
        const sentAt = performance.now();
        await send(node.port, agent, way, bodies[step % bodies.length]!);
        times.push(performance.now() - sentAt);
      }
      agent.destroy();
    }),
  );
  const seconds = (performance.now() - startedAt) / 1_000;
  const cpuUs = ((cpuMsOf([node.pid]) - before) * 1e3) / times.length;
  times.sort((one, other) => one - other);
  const at = (share: number): number => times[Math.floor(times.length * share)]!;
  return { perSecond: times.length / seconds, p50Ms: at(0.5), p99Ms: at(0.99), cpuUs };
}

interface Target {
  readonly port: number;
  readonly pid: number;
  readonly queries: readonly string[];
}

/** All ways in turn, in the other order every other round; each beside the REST of its own round. */
async function inTurn(node: Target, clients: number): Promise<Row[]> {
  for (const way of ways) await runRound(node, way, clients, warmMs);
  const done = new Map<Way, Round[]>(ways.map((way) => [way, []]));
  for (let round = 0; round < rounds; round++)
    for (const way of round % 2 === 0 ? ways : ways.toReversed())
      done.get(way)!.push(await runRound(node, way, clients, roundMs));
  const rest = done.get(ways[0]!)!;
  return ways.map((way) => {
    const own = done.get(way)!;
    const middle = (pick: (round: Round) => number): number => median(own.map(pick));
    const share = median(own.map(({ perSecond }, round) => perSecond / rest[round]!.perSecond));
    const addedMs = median(own.map(({ p50Ms }, round) => p50Ms - rest[round]!.p50Ms));
    const isKept = clients === 1 ? addedMs <= addedMsMax : share >= shareMin;
    const told =
      `${share.toFixed(2)} of REST's calls, ${addedMs >= 0 ? "+" : ""}${addedMs.toFixed(2)} ms at p50 ` +
      `(${isKept ? "kept" : "MISSED"})`;
    return {
      what: `${way.what}, ${clients} ${clients === 1 ? "client" : "clients"}`,
      perSecond: middle(({ perSecond }) => perSecond),
      p50Ms: middle(({ p50Ms }) => p50Ms),
      p99Ms: middle(({ p99Ms }) => p99Ms),
      note: `${middle(({ cpuUs }) => cpuUs).toFixed(0)} us of the node a call${way === ways[0] ? "" : `; ${told}`}`,
    };
  });
}

/** Milliseconds until the program has answered a line, or where it is given none, has ended. */
async function timeStart(args: readonly string[], line: string | undefined): Promise<number> {
  const startedAt = performance.now();
  const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
  if (line === undefined) await once(child, "close");
  else {
    child.stdin.write(`${line}\n`);
    const [answer] = (await once(child.stdout, "data")) as [Buffer];
    if (!answer.toString().includes('"result"')) throw new Error(answer.toString());
  }
  const tookMs = performance.now() - startedAt;
  if (line !== undefined) {
    child.stdin.end();
    await once(child, "close");
  }
  return tookMs;
}

async function timeStarts({ port }: Target): Promise<Row[]> {
  const proxy = [
    join(import.meta.dirname, "../../packages/mcp/main.js"),
    "bench/r",
    "--url",
    `http://127.0.0.1:${port}`,
  ];
  const ping = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
  const [bare, started]: [number[], number[]] = [[], []];
  for (let at = 0; at < starts; at++) {
    bare.push(await timeStart(["-e", "0"], undefined));
    started.push(await timeStart(proxy, ping));
  }
  const ratio = median(started.map((ms, at) => ms / bare[at]!));
  const row = (what: string, times: readonly number[], note: string): Row => ({
    what,
    perSecond: 1_000 / median(times),
    p50Ms: median(times),
    p99Ms: times.toSorted((one, other) => one - other).at(-1)!,
    note,
  });
  return [
    row("node -e 0, to its end", bare, "the p99 is the slowest"),
    row("palimpsest-mcp, to its first answer", started, `${ratio.toFixed(2)} times node -e 0`),
  ];
}

export async function benchMcp(directory: string): Promise<void> {
  const source = texts(7);
  const node = await startNodeProcess(join(directory, "mcp"), {});
  const given = Array.from({ length: memories }, () => ({
    type: "event",
    summary: source.sentence(12),
    content: null,
  }));
  const { status, text } = await node.call("POST", "/v1/memory/bench/r/memories", { memories: given });
  if (status !== 201) throw new Error(text);
  const target = {
    port: node.port,
    pid: node.child.pid!,
    queries: Array.from({ length: queries }, () => source.sentence(5)),
  };
  const rows: Row[] = [];
  for (const clients of clientCounts) rows.push(...(await inTurn(target, clients)));
  const started = await timeStarts(target);
  await node.end("SIGTERM");
  report(`Recall by MCP beside REST, ${memories} memories`, rows);
  report(`Start of the proxy of standard input, ${starts} times each`, started);
}
