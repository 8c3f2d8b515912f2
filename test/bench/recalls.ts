/** Recall over REST by size and dimension, beside its floor: the bare FTS5 query, the bare SIMD scan, one bare echo. */
import { join } from "node:path";
import { startNodeProcess } from "../support/node-process.ts";
import { nearestRows } from "./scan.ts";
import { rawMemory, startEcho } from "./floors.ts";
import { load, median } from "./raw-client.ts";
import { report, type Row } from "./report.ts";
import { texts } from "./words.ts";

const sizes = [1_000, 10_000, 100_000];
const dimensions = [256, 768];
const queries = 200;

async function one(directory: string, size: number, dimension: number, echoPort: number): Promise<Row> {
  const source = texts(size + dimension);
  const node = await startNodeProcess(join(directory, `recall-${size}-${dimension}`), {
    SERVICE_MAX_BODY_BYTES: String(64 * 1024 * 1024),
  });
  const raw = rawMemory(join(directory, `recall-raw-${size}-${dimension}.db`));
  const matrix = new Float32Array(size * dimension);
  raw.database.exec("BEGIN");
  for (let from = 0; from < size; from += 500) {
    const memories = Array.from({ length: Math.min(500, size - from) }, (_, offset) => {
      const summary = source.sentence(12);
      const embedding = source.vector(dimension);
      matrix.set(embedding, (from + offset) * dimension);
      raw.insert(summary, "null");
      return { type: "event", summary, content: null, embedding };
    });
    const { status, text } = await node.call("POST", "/v1/memory/bench/r/memories", { memories });
    if (status !== 201) throw new Error(text);
  }
  raw.database.exec("COMMIT");
  const asked = Array.from({ length: queries }, () => ({
    query: source.sentence(5),
    embedding: source.vector(dimension),
  }));
  const match = raw.database.prepare(
    "SELECT rowid, bm25(text) AS score FROM text WHERE text MATCH ? ORDER BY score LIMIT 50",
  );
  const ftsTimes: number[] = [];
  const scanTimes: number[] = [];
  for (const { query, embedding } of asked) {
    const startedAt = performance.now();
    match.all(
      query
        .split(" ")
        .map((word) => `"${word}"`)
        .join(" OR "),
    );
    const scannedAt = performance.now();
    nearestRows(matrix, Float32Array.from(embedding), 50);
    scanTimes.push(performance.now() - scannedAt);
    ftsTimes.push(scannedAt - startedAt);
  }
  const bodies = asked.map((body) => JSON.stringify({ ...body, k: 8 }));
  await load(node.port, 1, 4_000, (_, step) => ["POST", "/v1/memory/bench/r/recall", bodies[step % queries]]);
  const recall = await load(node.port, 1, 4_000, (_, step) => [
    "POST",
    "/v1/memory/bench/r/recall",
    bodies[step % queries],
  ]);
  const echo = await load(echoPort, 1, 1_000, (_, step) => ["POST", "/", bodies[step % queries]]);
  await node.end("SIGTERM");
  raw.database.close();
  const floor = median(ftsTimes) + median(scanTimes) + echo.p50Ms;
  const note =
    `${(recall.p50Ms / floor).toFixed(2)} times the floor ${floor.toFixed(2)} ms ` +
    `(FTS5 ${median(ftsTimes).toFixed(2)} + scan ${median(scanTimes).toFixed(2)} + echo ${echo.p50Ms.toFixed(2)})`;
  return {
    what: `${size} memories x ${dimension}`,
    perSecond: recall.perSecond,
    p50Ms: recall.p50Ms,
    p99Ms: recall.p99Ms,
    note,
  };
}

/** `only` narrows the run to some numbers of memories. */
export async function benchRecalls(directory: string, only: readonly number[] = []): Promise<void> {
  const echo = await startEcho();
  const rows: Row[] = [];
  for (const size of only.length > 0 ? only : sizes)
    for (const dimension of dimensions) rows.push(await one(directory, size, dimension, echo.port));
  echo.stop();
  report("Recall over REST, keyword and vector, one client", rows);
}
