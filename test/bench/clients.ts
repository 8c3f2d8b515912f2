/**
 * What the clients add to a call: a recall through each beside the same recall by the HTTP client that it is made on,
 * in turn, call by call, in one process and on one connection each. Python takes part where PALIMPSEST_PYTHON names
 * one.
 *
 * Only the ratio of two medians of one run means something.
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { Palimpsest } from "../../clients/typescript/src/index.ts";
import { startNodeProcess } from "../support/node-process.ts";
import { median } from "./raw-client.ts";
import { report, type Row } from "./report.ts";
import { buildSentences } from "./writes.ts";

const run = promisify(execFile);
const memories = 500;
const calls = 1_500;
const warmCalls = 300;
const goals = { typescript: 1.15, python: 1.3 };
const root = join(import.meta.dirname, "../..");

/** Milliseconds of each call, of both ways. */
interface Paired {
  readonly raw: readonly number[];
  readonly client: readonly number[];
}

/** Recalls in turn: the raw one first, and then the client's, each of the same query. */
async function pairTypescript(url: string, queries: readonly string[]): Promise<Paired> {
  const db = new Palimpsest({ url }).profile("bench", "clients");
  const raw = async (query: string): Promise<unknown> => {
    const response = await fetch(`${url}/v1/memory/bench/clients/recall`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ query, k: 5 }),
    });
    return response.json();
  };
  const taken: Record<"raw" | "client", number[]> = { raw: [], client: [] };
  const ways = { raw, client: (query: string) => db.recall(query, { k: 5 }) };
  for (let call = -warmCalls; call < calls; call++) {
    const query = queries[(call + warmCalls) % queries.length]!;
    // Whoever comes first finds the pages of a query cold: they take turns in that too.
    for (const way of call % 2 === 0 ? (["raw", "client"] as const) : (["client", "raw"] as const)) {
      const startMs = performance.now();
      await ways[way](query);
      if (call >= 0) taken[way].push(performance.now() - startMs);
    }
  }
  return taken;
}

async function pairPython(interpreter: string, url: string, queries: readonly string[]): Promise<Paired> {
  const script = join(import.meta.dirname, "clients.py");
  const given = [url, JSON.stringify(queries), String(calls), String(warmCalls)];
  const { stdout } = await run(interpreter, [script, ...given], {
    env: { ...process.env, PYTHONPATH: join(root, "clients/python/src") },
    maxBuffer: 16 * 1024 * 1024,
  });
  return JSON.parse(stdout) as Paired;
}

function buildRows(client: string, raw: string, paired: Paired, goal: number): readonly Row[] {
  const [rawMs, clientMs] = [median(paired.raw), median(paired.client)];
  const ratio = clientMs / rawMs;
  const verdict = `${ratio.toFixed(2)} of it; goal ${goal}: ${ratio <= goal ? "met" : "MISSED"}`;
  return [
    { what: `recall by ${raw}`, p50Ms: rawMs },
    { what: `recall by ${client}`, p50Ms: clientMs, note: verdict },
  ];
}

/** Prints the medians and their ratios. */
export async function benchClients(directory: string): Promise<void> {
  const node = await startNodeProcess(join(directory, "clients"));
  try {
    const url = `http://127.0.0.1:${node.port}`;
    const sentences = buildSentences(memories);
    const db = new Palimpsest({ url }).profile("bench", "clients");
    await db.remember(sentences.map((summary) => ({ type: "event", summary })));
    const queries = sentences.slice(0, 50);
    const rows = [...buildRows("the TypeScript client", "fetch", await pairTypescript(url, queries), goals.typescript)];
    const interpreter = process.env["PALIMPSEST_PYTHON"];
    if (interpreter !== undefined)
      rows.push(...buildRows("the Python client", "httpx", await pairPython(interpreter, url, queries), goals.python));
    report(`What the clients add: ${calls} recalls each way, in turn`, rows);
  } finally {
    await node.end("SIGKILL");
  }
}
