/** What one tenant at full load, with the worst that he may ask for, costs another one's calls. */
import { join } from "node:path";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { beginHostility, formatDatabaseName, hostileClients, hostileDatabases, hostilities } from "./hostility.ts";
import { openClient, quantile, type Request } from "./raw-client.ts";
import { report, type Row } from "./report.ts";
import { ingestRequest, buildSentences } from "./writes.ts";

const victimCalls = 400;
/** The hostile load has its effect by then. */
const leadMs = 2_000;
const hostileDocs = 10_000;
const hostileMemories = 2_000;

const victims: readonly {
  readonly what: string;
  readonly next: (step: number, sentences: readonly string[]) => Request;
}[] = [
  { what: "key-value put", next: (step) => ["PUT", `/v1/db/victim--p/kv/n/k${step % 100}`, `${step}`, "text/plain"] },
  { what: "key-value get", next: () => ["GET", "/v1/db/victim--p/kv/n/k0"] },
  {
    what: "ingest of one memory",
    next: (step, sentences) => ingestRequest("victim", sentences[step % sentences.length]!, String(step)),
  },
  {
    what: "recall",
    next: (step, sentences) => [
      "POST",
      "/v1/memory/bench/victim/recall",
      JSON.stringify({ query: sentences[step % sentences.length] }),
    ],
  },
];

/** Fills what the hostile tenant will ask of. */
async function prepare(node: NodeProcess, sentences: readonly string[]): Promise<void> {
  const expect = async (method: string, path: string, body: unknown): Promise<void> => {
    const { status, text } = await node.call(method, path, body);
    if (status >= 300) throw new Error(`status ${status}: ${text}`);
  };
  for (let client = 0; client < hostileDatabases; client++) {
    for (let from = 0; from < hostileMemories; from += 500) {
      const memories = Array.from({ length: 500 }, (_, n) => ({
        type: "event",
        summary: `${sentences[(from + n) % sentences.length]} ${from + n}`,
        content: null,
        metadata: { tags: [{ name: `tag ${n}` }] },
      }));
      await expect("POST", `/v1/memory/hostile/p${client}/memories`, { memories });
    }
    await expect("POST", `/v1/db/${formatDatabaseName(client)}/sql`, { stmts: [{ q: "CREATE TABLE burden (v)" }] });
    for (let from = 0; from < hostileDocs; from += 1_000) {
      const documents = Array.from({ length: 1_000 }, (_, n) => ({
        n: from + n,
        tags: Array.from({ length: 8 }, (_tag, at) => ({ name: `tag ${at}` })),
      }));
      await expect("POST", `/v1/db/${formatDatabaseName(client)}/docs/d/insert`, { docs: documents });
    }
  }
  await expect("POST", "/v1/memory/victim/p/memories", {
    memories: [{ type: "fact", summary: "I am here", content: null }],
  });
}

interface Times {
  /** Sorted, of each kind of call. */
  readonly ms: readonly number[][];
  readonly refused: number;
}

/** The victim's calls, one after the other, of all kinds in turn. */
async function victimTimes(node: NodeProcess, sentences: readonly string[], first: number): Promise<Times> {
  const client = await openClient("node", node.port);
  const ms = victims.map((): number[] => []);
  let refused = 0;
  for (let step = first; step < first + victimCalls; step++) {
    for (const [kind, { next }] of victims.entries()) {
      const sentAt = performance.now();
      const { status } = await client.send(...next(step, sentences));
      if (status >= 300) refused++;
      ms[kind]!.push(performance.now() - sentAt);
    }
  }
  client.close();
  return { ms: ms.map((times) => times.sort((a, b) => a - b)), refused };
}

/** The promise that the bench measures: at most three times the p99 alone, and 50 ms. */
const computeMost = (aloneMs: number): number => 3 * aloneMs + 50;

/** All kinds of load, or only those of the given numbers, from 1. */
export async function benchFairness(directory: string, numbers: readonly number[] = []): Promise<void> {
  const sentences = buildSentences(4_096);
  for (const [hostileKind, hostility] of hostilities.entries()) {
    if (numbers.length > 0 && !numbers.includes(hostileKind + 1)) continue;
    const node = await startNodeProcess(join(directory, hostility.what.replaceAll(/\W/g, "-")));
    await prepare(node, sentences);
    await victimTimes(node, sentences, 0);
    const alone = await victimTimes(node, sentences, victimCalls);
    const load = beginHostility(node.port, hostileKind);
    await new Promise((resolve) => setTimeout(resolve, leadMs));
    const beside = await victimTimes(node, sentences, 2 * victimCalls);
    const { answered, refused } = await load.end();
    await node.end("SIGTERM");
    const rows = victims.flatMap(({ what }, kind): Row[] => {
      const [one, other] = [alone.ms[kind]!, beside.ms[kind]!];
      const most = computeMost(quantile(one, 0.99));
      const note =
        `${quantile(other, 0.99) <= most ? "within" : "BEYOND"} ${most.toFixed(0)} ms; ` +
        `longest ${other.at(-1)!.toFixed(0)} ms`;
      return [
        { what: `${what}, alone`, p50Ms: quantile(one, 0.5), p99Ms: quantile(one, 0.99) },
        { what: `${what}, beside ${hostility.what}`, p50Ms: quantile(other, 0.5), p99Ms: quantile(other, 0.99), note },
      ];
    });
    report(
      `${hostility.what}: ${hostileClients} connections, ${answered} calls answered ` +
        `and ${refused} refused; ${beside.refused} of the victim's refused`,
      rows,
    );
  }
}
