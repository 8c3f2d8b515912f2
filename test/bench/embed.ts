/**
 * What a node's own model costs: texts a second and milliseconds a question over REST, beside the bare model in this
 * process; a question while a bulk of writes is under way; memory and processor time of the process that runs it.
 */
import { join } from "node:path";
import { localModelMissing } from "../support/local-model.ts";
import { readMetrics, sumSamples } from "../support/metrics-text.ts";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { median, quantile } from "./raw-client.ts";
import { report, type Row } from "./report.ts";

/** Words of a text: a short fact, a turn of 500 letters, and what the model cuts. */
const lengths = [8, 85, 400];
const questions = 60;
const bulkTexts = 40;

/** The vocabulary of the model is English: letters that make no word would be many pieces. */
const words = (
  "she keeps bees behind the old orchard and sells honey on market days because her brother planted apple trees " +
  "there before he moved to Lisbon with his family last winter when their first daughter was born in the city hospital"
).split(" ");

/** Texts of that many words, none like another. */
function* texts(length: number): Generator<string, never> {
  for (let at = 0; ; at += length + 1)
    yield Array.from({ length }, (_, word) => words[((at + word) * (1 + (at % 7))) % words.length]).join(" ");
}

function take(source: Generator<string, never>, count: number): string[] {
  return Array.from({ length: count }, () => source.next().value);
}

type Model = Awaited<ReturnType<typeof import("../../packages/embed-local/model.js").openModel>>;

async function timed(act: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  await act();
  return performance.now() - startMs;
}

async function post(node: NodeProcess, path: string, body: unknown): Promise<void> {
  const { status, text } = await node.call("POST", `/v1/memory/bench/e/${path}`, body);
  if (status >= 300) throw new Error(text);
}

function ingest(node: NodeProcess, summaries: readonly string[]): Promise<void> {
  return post(node, "memories", {
    memories: summaries.map((text, at) => ({ type: "event", summary: `Event ${at}`, content: text })),
  });
}

async function readMetric(node: NodeProcess, name: string): Promise<number> {
  const { text } = await node.call("GET", "/metrics");
  return sumSamples(readMetrics(text), `palimpsest_embedder_${name}`);
}

async function writes(node: NodeProcess, model: Model, length: number): Promise<Row> {
  const given = take(texts(length), bulkTexts);
  const bareMs = await timed(async () => {
    for (const text of given) await model.embed(text);
  });
  const bareRate = Math.round((1_000 * bulkTexts) / bareMs);
  const [cpuBefore, textsBefore] = [await readMetric(node, "cpu_seconds_total"), await readMetric(node, "texts_total")];
  const ms = await timed(() => ingest(node, given));
  const cpuMs = ((await readMetric(node, "cpu_seconds_total")) - cpuBefore) * 1_000;
  const done = (await readMetric(node, "texts_total")) - textsBefore;
  return {
    what: `ingest of ${bulkTexts} texts of ${length} words`,
    perSecond: (1_000 * done) / ms,
    note: `${(cpuMs / done).toFixed(1)} ms of a core each; the bare model ${bareRate} a second`,
  };
}

async function recalls(node: NodeProcess, what: string, bareMs: number, whileThese?: () => boolean): Promise<Row> {
  const source = texts(9);
  const times: number[] = [];
  while (times.length < questions && whileThese?.() !== false)
    times.push(await timed(() => post(node, "recall", { query: source.next().value })));
  return {
    what,
    p50Ms: median(times),
    p99Ms: quantile(
      times.toSorted((a, b) => a - b),
      0.99,
    ),
    note: `${times.length} questions; the bare model ${bareMs.toFixed(1)} ms`,
  };
}

export async function benchEmbed(directory: string): Promise<void> {
  if (localModelMissing) return console.log(`embed: not run${localModelMissing}`);
  const { openModel } = await import("../../packages/embed-local/model.js");
  const model = await openModel({ threads: 1 });
  const node = await startNodeProcess(join(directory, "embed"), { SERVICE_EMBED_PROVIDER: "local" });
  const firstMs = await timed(() => ingest(node, ["the first text starts the process"]));
  const rows: Row[] = [];
  for (const length of lengths) rows.push(await writes(node, model, length));
  const bare: number[] = [];
  for (const question of take(texts(9), questions)) bare.push(await timed(() => model.embed(question)));
  rows.push(await recalls(node, "recall", median(bare)));
  let underWay = true;
  const bulk = ingest(node, take(texts(401), 4 * bulkTexts)).finally(() => (underWay = false));
  rows.push(await recalls(node, "recall while texts of 400 words are ingested", median(bare), () => underWay));
  await bulk;
  rows.push({
    what: "the first text, which starts the process",
    p50Ms: firstMs,
    note: `then ${((await readMetric(node, "resident_memory_bytes")) / 2 ** 20).toFixed(0)} MiB resident`,
  });
  await node.end("SIGTERM");
  report("A node's own model, one thread", rows);
}
