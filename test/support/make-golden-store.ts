/**
 * Makes test/golden/store-v1.bin: the data directory of a node, with its object store, as a build left it that was
 * killed while it wrote; and what that build answered, beside it.
 *
 * Run it (`node test/support/make-golden-store.ts <src/server/main.ts of a released build>`) once for each release
 * whose formats differ from the one before; afterwards the files stay as they are.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { packFolder, unpackFolder } from "./folder-archive.ts";
import { startNodeProcess, type NodeProcess } from "./node-process.ts";

const goldenPath = join(import.meta.dirname, "../golden/store-v1.bin");
const answersPath = join(import.meta.dirname, "../golden/store-v1.json");

/** A read, and what was answered. */
export interface GoldenAnswer {
  readonly path: string;
  /** Present for a POST that reads. */
  readonly body?: unknown;
  readonly status: number;
  readonly answer: unknown;
}

/** Puts the golden data directory into the folder. */
export function unpackGoldenStore(folder: string): void {
  unpackFolder(readFileSync(goldenPath), folder);
}

/** What the build that wrote it answered of it, as far as that stays true. */
export function goldenAnswers(): readonly GoldenAnswer[] {
  const answers = JSON.parse(readFileSync(answersPath, "utf8")) as readonly GoldenAnswer[];
  return answers.map((one) => ({ ...one, answer: lasting(one.answer) }));
}

/**
 * An answer without what later builds say beside, and without what comes of an erasure whose grace was not over when
 * the store was left: it is by now, so the erasure goes on as soon as a node runs.
 */
export function lasting(answer: any): unknown {
  if (!Array.isArray(answer?.erasures)) return answer;
  const erasures = answer.erasures.map(({ nodes: _nodes, ...coupon }: any) => {
    const { id, target, memory_ids, requested_at, grace_until, erased_txid } = coupon;
    return grace_until > requested_at ? { id, target, memory_ids, requested_at, grace_until, erased_txid } : coupon;
  });
  return { ...answer, erasures };
}

const memory = "/v1/memory/acme/alice";
const database = "/v1/db/acme--alice";

const reads: readonly Pick<GoldenAnswer, "path" | "body">[] = [
  { path: "/v1/databases" },
  { path: "/v1/memory/acme" },
  { path: `${memory}/memories?limit=100` },
  { path: `${memory}/memories?limit=100&branch=experiment` },
  { path: `${memory}/sessions` },
  { path: `${memory}/erasures` },
  { path: "/v1/memory/slow/bob/erasures" },
  { path: "/v1/namespaces/acme/policy" },
  { path: `${database}/branches` },
  { path: `${database}/branches/main/checkpoints` },
  { path: `${database}/kv/n` },
  { path: `${database}/kv/n/small` },
  { path: `${database}@experiment/kv/n` },
  { path: `${database}/memory/chat/turns` },
  { path: `${database}/docs/notes/find`, body: { filter: { tags: "a" } } },
  { path: `${database}/sql`, body: { stmts: [{ q: "SELECT place, times FROM requestMetrics ORDER BY place" }] } },
  { path: `${database}/vectors/faces/search`, body: { vector: [0.1, 0.9], k: 2 } },
  { path: "/v1/db/plain/kv/n" },
  { path: "/v1/db/plain/kv/n/counter" },
  { path: "/v1/db/plain/branches" },
  { path: "/v1/db/plain/branches/main/checkpoints" },
  { path: "/v1/db/plain@side/kv/n/counter" },
];

async function ask(
  node: NodeProcess,
  method: string,
  path: string,
  body?: unknown,
  headers?: Record<string, string>,
): Promise<any> {
  const { status, json, text } = await node.call(method, path, body, headers);
  if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`);
  return json;
}

const text = { "content-type": "text/plain" };
const durable = { "service-durability": "durable" };

/**
 * Everything that leaves its mark at rest: every data model, branches, rewinds, packs, a new base image, erasures, a
 * deletion.
 */
async function tellStory(node: NodeProcess): Promise<void> {
  await ask(node, "PUT", "/v1/namespaces/acme/policy", {
    policy: { audit: { enabled: true }, erasure: { grace_secs: 0 }, memory: { superseded_max_count: 50 } },
  });
  const ingest = (memories: readonly unknown[], profile = memory): Promise<any> =>
    ask(node, "POST", `${profile}/memories`, { memories }, durable);
  await ingest([
    {
      type: "fact",
      topic_key: "theme",
      summary: "Alice prefers the dark theme",
      content: { theme: "dark" },
      session_id: "s-1",
      source: "planner",
      metadata: { n: 1 },
    },
    { type: "event", summary: "Alice moved to Lima", content: null, embedding: [0.1, 0.2, 0.3] },
    { type: "instruction", topic_key: "tone", summary: "Answer briefly", content: ["brief", 18446744073709551000] },
    { type: "task", summary: "Water the ferns", content: {}, session_id: "s-1", ttl: 315_000_000 },
  ]);
  await ingest([
    { type: "fact", topic_key: "theme", summary: "Alice prefers the light theme", content: { theme: "light" } },
  ]);
  const { results } = await ingest([{ type: "event", summary: "Alice said something to be erased", content: {} }]);
  await ask(node, "POST", `${database}/memory/chat/turns`, { role: "user", content: "hello" });
  await ask(node, "POST", `${database}/sql`, {
    stmts: [
      { q: "CREATE TABLE requestMetrics (place TEXT, times INTEGER)" },
      { q: "INSERT INTO requestMetrics VALUES ('Rome', 3), ('Lima', 1)" },
    ],
  });
  await ask(node, "POST", `${database}/docs/notes/insert`, {
    docs: [
      { _id: "a", tags: ["a", "b"], stars: 4 },
      { _id: "b", tags: ["c"] },
    ],
  });
  for (const [id, embedding] of [
    ["f1", [0.1, 0.9]],
    ["f2", [0.9, 0.1]],
  ] as const)
    await ask(node, "POST", `${database}/vectors/faces`, { id, embedding });
  await ask(node, "PUT", `${database}/kv/n/small`, "before", text);
  await ask(node, "POST", `${database}/branches/main/checkpoint`, { name: "before" });
  await ask(node, "PUT", `${database}/kv/n/gone`, "gone with the rewind", text);
  await ask(node, "POST", `${database}/branches/main/rewind`, { to: "before" });
  await ask(node, "POST", `${database}/branches`, { name: "experiment", ttl: 315_000_000 });
  await ask(node, "PUT", `${database}@experiment/kv/n/own`, "only here", { ...text, ...durable });
  await ask(node, "POST", "/v1/databases", { name: "gone" });
  await ask(node, "PUT", "/v1/db/gone/kv/n/k", "gone", { ...text, ...durable });
  await ask(node, "DELETE", "/v1/databases/gone");
  const bob = await ask(
    node,
    "POST",
    "/v1/memory/slow/bob/memories",
    { memories: [{ type: "event", summary: "Bob waits for his grace", content: {} }] },
    durable,
  );
  await ask(node, "POST", "/v1/memory/slow/bob/erasures", { memory_id: bob.results[0].id });
  await ask(node, "DELETE", `${database}/branches/main/checkpoint/before`);
  await ask(node, "DELETE", `${database}/branches/experiment`);
  const erasure = await ask(node, "POST", `${memory}/erasures`, { memory_id: results[0].id });
  for (let wait = 0; (await ask(node, "GET", `${memory}/erasures/${erasure.id}`)).status !== "completed"; wait++) {
    if (wait > 300) throw new Error("the erasure did not complete");
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  // What came after the erasure may be kept and forked again.
  await ask(node, "POST", `${database}/branches/main/checkpoint`, { name: "after" });
  await ask(node, "POST", `${database}/branches`, { name: "experiment", ttl: 315_000_000 });
  await ask(node, "PUT", `${database}@experiment/kv/n/own`, "only here", { ...text, ...durable });
  await ask(node, "PUT", `${database}/kv/n/small`, "after", { ...text, ...durable });
}

/**
 * A database whose history is kept: objects of every shipping, packs of them, a new base image, a rewind, a fork, a
 * checkpoint.
 */
async function tellLongStory(node: NodeProcess): Promise<void> {
  const plain = "/v1/db/plain";
  await ask(node, "POST", "/v1/databases", { name: "plain" });
  for (let n = 1; n <= 20; n++) {
    await ask(node, "PUT", `${plain}/kv/n/large`, String(n).padStart(3, "0").repeat(90_000), text);
    await ask(node, "PUT", `${plain}/kv/n/counter`, String(n), text);
    if (n === 10) await ask(node, "POST", `${plain}/branches/main/checkpoint`, { name: "ten" });
    // Each goes into an object of its own.
    await new Promise((resolve) => setTimeout(resolve, 1_200));
  }
  await ask(node, "POST", `${plain}/branches`, { name: "side" });
  await ask(node, "PUT", `${plain}@side/kv/n/counter`, "side", { ...text, ...durable });
  await ask(node, "POST", `${plain}/branches/main/rewind`, { to: "ten" });
  await ask(node, "PUT", `${plain}/kv/n/after`, "after the rewind", { ...text, ...durable });
}

/**
 * Lets the build of this entry tell its story, kills it while it writes, and keeps what it left and what it answers of
 * that.
 */
async function makeGoldenStore(entry: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "palimpsest-golden-"));
  const variables = { SERVICE_CONTROL_RATE: "1000", SERVICE_GC_GRACE_SECS: "1", SERVICE_NODE_ID: "golden" };
  const first = await startNodeProcess(folder, variables, entry);
  await tellStory(first);
  await tellLongStory(first);
  await first.end("SIGTERM");
  const second = await startNodeProcess(folder, variables, entry);
  for (let n = 0; n < 5; n++) await ask(second, "PUT", `${database}/kv/n/unshipped${n}`, "on this disk only", text);
  await second.end("SIGKILL");
  const archive = packFolder(
    folder,
    (path) => path.startsWith("scratch") || /^(?:node|processes)\.lock\.db/.test(path) || path.endsWith("-shm"),
  );
  const third = await startNodeProcess(folder, variables, entry);
  const answers: GoldenAnswer[] = [];
  for (const { path, body } of reads) {
    const { status, json, text: plain } = await third.call(body === undefined ? "GET" : "POST", path, body);
    answers.push({ path, ...(body === undefined ? {} : { body }), status, answer: json ?? plain });
  }
  await third.end("SIGTERM");
  rmSync(folder, { recursive: true });
  writeFileSync(goldenPath, archive);
  writeFileSync(answersPath, `${JSON.stringify(answers, undefined, 1)}\n`);
}

if (import.meta.main) await makeGoldenStore(process.argv[2]!);
