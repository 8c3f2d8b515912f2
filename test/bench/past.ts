/** Reads of an earlier state beside reads of the newest one, in the same run: cold once, and then from the cache. */
import { join } from "node:path";
import { startNodeProcess } from "../support/node-process.ts";
import { load, median } from "./raw-client.ts";
import { report, type Row } from "./report.ts";
import { texts } from "./words.ts";

const memories = 10_000;
const dimension = 256;
const windowMs = 3_000;
const rounds = 3;

/** Each window of a plain read beside one of the same read at a state: a busy machine is busy for both. */
export async function benchPast(directory: string): Promise<void> {
  const node = await startNodeProcess(join(directory, "past"), { SERVICE_MAX_BODY_BYTES: String(64 * 1024 * 1024) });
  const source = texts(7);
  const [memory, database] = ["/v1/memory/bench/past", "/v1/db/bench--past"];
  for (let stored = 0; stored < memories; stored += 500) {
    const batch = Array.from({ length: 500 }, () => ({
      type: "event",
      summary: source.sentence(12),
      content: null,
      embedding: source.vector(dimension),
    }));
    const { status, text } = await node.call("POST", `${memory}/memories`, { memories: batch });
    if (status !== 201) throw new Error(text);
  }
  await node.call("PUT", `${database}/kv/n/k`, "value");
  const { json } = await node.call("POST", `${database}/sync`, {});
  const at = `?at=${json.txid}`;
  await node.call("PUT", `${database}/kv/n/k`, "other");
  await node.call("POST", `${database}/sync`, {});
  const startedAt = performance.now();
  await node.call("GET", `${database}/kv/n/k${at}`);
  const rows: Row[] = [{ what: `first read of a state of ${memories} memories`, p50Ms: performance.now() - startedAt }];
  const bodies = Array.from({ length: 100 }, () =>
    JSON.stringify({ query: source.sentence(5), embedding: source.vector(dimension), k: 8 }),
  );
  const sql = JSON.stringify({ stmts: [{ q: "SELECT 1" }] });
  const reads: readonly (readonly [what: string, method: string, path: string, body: (step: number) => string])[] = [
    ["a value", "GET", `${database}/kv/n/k`, () => ""],
    ["a list of 100 memories", "GET", `${memory}/memories`, () => ""],
    ["recall by words and vector", "POST", `${memory}/recall`, (step) => bodies[step % bodies.length]!],
    ["SQL, SELECT 1", "POST", `${database}/sql`, () => sql],
  ];
  for (const [what, method, path, body] of reads) {
    const ofPath = async (full: string): Promise<Row> => ({
      what,
      ...(await load(node.port, 1, windowMs, (_, step) => [method, full, body(step) || undefined])),
    });
    const pathAt = `${path}${at}`;
    const [plain, past]: [Row[], Row[]] = [[], []];
    await ofPath(path);
    await ofPath(pathAt);
    for (let round = 0; round < rounds; round++) {
      plain.push(await ofPath(path));
      past.push(await ofPath(pathAt));
    }
    const p50 = (rounded: readonly Row[]): number => median(rounded.map((row) => row.p50Ms!));
    const times = p50(past) / p50(plain);
    rows.push(
      { ...plain[0]!, what, p50Ms: p50(plain) },
      {
        ...past[0]!,
        what: `${what}, at a state`,
        p50Ms: p50(past),
        note: `${times.toFixed(2)} times a plain read (target 2)`,
      },
    );
  }
  await node.end("SIGTERM");
  report("Reads of an earlier state, one client over REST", rows);
}
