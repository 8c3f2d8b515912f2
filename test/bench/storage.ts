/** What object storage costs and gives, over REST and a store of files: forks, cold opens, shipping, durable writes. */
import { createHash } from "node:crypto";
import { closeSync, fdatasyncSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { limits } from "../../src/base/limits.ts";
import { realWorld } from "../../src/base/world.ts";
import { branchPath } from "../../src/engine/local/database-files.ts";
import { decodeManifest } from "../../src/format/history/manifest.ts";
import { manifestKey, segmentKey } from "../../src/format/keys/object-keys.ts";
import { threadedPress } from "../../src/format/core/compression.ts";
import { decodeFrame, readSegmentIndexes } from "../../src/format/history/segment.ts";
import { createSchema } from "../../src/model/schema.ts";
import { Connection } from "../../src/sqlite/connection/connection.ts";
import { FileStore } from "../../src/store/file/file-store.ts";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { fsyncMs, startEcho } from "./floors.ts";
import { load, median, type LoadResult } from "./raw-client.ts";
import { report, type Row } from "./report.ts";
import { benchPuts } from "./storage-puts.ts";
import { texts } from "./words.ts";

const source = texts(7);
const sentences = Array.from({ length: 4_096 }, () => source.sentence(12));
/** Text to cut rows from; made once, as making a gigabyte of it takes longer than everything else. */
const prose = sentences.join(". ");
const rowBytes = 1_000;
const variables = { SERVICE_REQUEST_TIMEOUT: "600", SERVICE_CONTROL_RATE: "100000", SERVICE_LOG_LEVEL: "info" };

async function must(
  node: NodeProcess,
  method: string,
  path: string,
  body?: unknown,
  headers?: Record<string, string>,
): Promise<any> {
  const { status, text, json } = await node.call(method, path, body, headers);
  if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`);
  return json;
}

/**
 * Makes a database of about so many MiB: a file that the node finds at the first use, and ships with its first write.
 */
async function makeDatabase(node: NodeProcess, directory: string, name: string, mib: number): Promise<string> {
  const { uuid } = await must(node, "POST", "/v1/databases", { name });
  const path = branchPath(join(directory, "db"), uuid, "main");
  mkdirSync(dirname(path), { recursive: true });
  const connection = new Connection(path, { readonly: false, pageCacheKiB: limits.pageCacheKiB });
  createSchema(connection);
  connection.exec("CREATE TABLE prose (n INTEGER PRIMARY KEY, text TEXT); BEGIN");
  const rows = Math.max(1, Math.floor((mib * 2 ** 20 - 160 * 1_024) / (rowBytes * 1.03)));
  for (let row = 0; row < rows; row++) {
    const at = (row * 7_919) % (prose.length - rowBytes);
    connection.run("INSERT INTO prose VALUES (?, ?)", row, prose.slice(at, at + rowBytes));
  }
  connection.exec("COMMIT");
  connection.close();
  await must(node, "PUT", `/v1/db/${name}/kv/n/k`, "v", { "content-type": "text/plain" });
  await must(node, "POST", `/v1/db/${name}/sync`, {});
  return uuid;
}

async function timed(act: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await act();
  return performance.now() - startedAt;
}

async function benchForks(directory: string): Promise<Row[]> {
  const data = join(directory, "forks");
  const node = await startNodeProcess(data, variables);
  for (const mib of [1, 1_024]) await makeDatabase(node, data, `db${mib}`, mib);
  const fork = (mib: number, name: string): Promise<number> =>
    timed(() => must(node, "POST", `/v1/db/db${mib}/branches`, { name }));
  const times: Record<number, number[]> = { 1: [], 1_024: [] };
  for (const mib of [1, 1_024]) for (let round = 0; round < 3; round++) await fork(mib, `warm${round}`);
  for (let round = 0; round < 20; round++) for (const mib of [1, 1_024]) times[mib]!.push(await fork(mib, `f${round}`));
  await node.end("SIGTERM");
  rmSync(data, { recursive: true });
  const [small, large] = [median(times[1]!), median(times[1_024]!)];
  return [
    { what: "fork of 1 MiB", p50Ms: small, p99Ms: Math.max(...times[1]!) },
    {
      what: "fork of 1 GiB",
      p50Ms: large,
      p99Ms: Math.max(...times[1_024]!),
      note: `${(large / small).toFixed(2)} times that of 1 MiB`,
    },
  ];
}

/** The same objects from the same store: fetched, hashed, decompressed, their pages written in place and synced. */
async function restoreFloor(store: FileStore, uuid: string, path: string): Promise<void> {
  const manifest = decodeManifest((await store.get(manifestKey(uuid, "main")))!.bytes);
  const descriptor = openSync(path, "w");
  for (const { id, sha256 } of manifest.refs) {
    const { bytes } = (await store.get(segmentKey(uuid, id)))!;
    if (createHash("sha256").update(bytes).digest().compare(sha256) !== 0)
      throw new Error("the floor reads something else");
    for (const index of readSegmentIndexes(bytes)) {
      let page = 0;
      for (const number of index.frames.keys()) {
        const raw = await decodeFrame(bytes, index, number, threadedPress);
        writeSync(descriptor, raw, 0, raw.length, page * 4_096);
        page += index.frames[number]!.rawPages;
      }
    }
  }
  fdatasyncSync(descriptor);
  closeSync(descriptor);
  rmSync(path);
}

async function benchColdOpens(directory: string): Promise<Row[]> {
  const sizes = [1, 16, 256];
  const data = join(directory, "cold");
  let node = await startNodeProcess(data, variables);
  const uuids = new Map<number, string>();
  for (const mib of sizes) uuids.set(mib, await makeDatabase(node, data, `db${mib}`, mib));
  await makeDatabase(node, data, "warm", 1);
  await node.end("SIGTERM");
  const store = await FileStore.open(join(data, "objects"), realWorld());
  const times = new Map(sizes.map((mib) => [mib, { open: [] as number[], floor: [] as number[] }]));
  for (let round = 0; round < 5; round++) {
    rmSync(join(data, "db"), { recursive: true });
    node = await startNodeProcess(data, variables);
    await must(node, "GET", "/v1/db/warm/kv/n/k");
    for (const mib of sizes) {
      const { open, floor } = times.get(mib)!;
      open.push(await timed(() => must(node, "GET", `/v1/db/db${mib}/kv/n/k`)));
      floor.push(await timed(() => restoreFloor(store, uuids.get(mib)!, join(data, "floor.db"))));
    }
    await node.end("SIGTERM");
  }
  rmSync(data, { recursive: true });
  return sizes.map((mib) => {
    const { open, floor } = times.get(mib)!;
    const note =
      `${(median(open) / median(floor)).toFixed(2)} times the floor ${median(floor).toFixed(1)} ms (get, ` +
      "hash, decompress, write, sync of the same objects)";
    return { what: `cold open of ${mib} MiB, to the first read`, p50Ms: median(open), note };
  });
}

const warmMs = 3_000;
const roundMs = 2_000;
const rounds = 7;

const ingest = (client: number, step: number): readonly [string, string, string] => {
  const text = sentences[(client * 61 + step) % sentences.length]!;
  const memories = [
    {
      type: "event",
      summary: `${text} ${client}-${step}`,
      content: { text, tag: `${client}-${step}` },
      session_id: "bench",
    },
  ];
  return ["POST", "/v1/memory/bench/one/memories", JSON.stringify({ memories })];
};

/** Two nodes in turn, round by round after a warm-up; the round with the median ratio speaks. */
async function against(
  node: NodeProcess,
  other: NodeProcess,
  clients: number,
): Promise<{ one: LoadResult; other: LoadResult; ratio: number }> {
  let step = 0;
  const next = (client: number): ReturnType<typeof ingest> => ingest(client, step++);
  for (const { port } of [node, other]) await load(port, clients, warmMs, next, "node");
  const pairs: { one: LoadResult; other: LoadResult; ratio: number }[] = [];
  for (let round = 0; round < rounds; round++) {
    const one = await load(node.port, clients, roundMs, next, "node");
    const reference = await load(other.port, clients, roundMs, next, "node");
    pairs.push({ one, other: reference, ratio: one.perSecond / reference.perSecond });
  }
  return pairs.sort((a, b) => a.ratio - b.ratio)[Math.floor(rounds / 2)]!;
}

async function benchShipping(directory: string): Promise<Row[]> {
  const shipping = await startNodeProcess(join(directory, "on"), variables);
  const unshipped = await startNodeProcess(
    join(directory, "off"),
    variables,
    join(import.meta.dirname, "unshipped-node.ts"),
  );
  const { one, other, ratio } = await against(shipping, unshipped, 64);
  await Promise.all([shipping.end("SIGTERM"), unshipped.end("SIGTERM")]);
  return [
    { what: "ingest, 64 node clients, shipping off", ...other },
    {
      what: "ingest, 64 node clients, shipping on",
      ...one,
      note: `${ratio.toFixed(2)} of the throughput without (target 0.85), median of ${rounds} paired rounds`,
    },
  ];
}

async function benchDurable(directory: string): Promise<Row[]> {
  const rows: Row[] = [];
  for (const clients of [1, 16]) {
    const durable = await startNodeProcess(join(directory, `durable-${clients}`), {
      ...variables,
      SERVICE_DURABILITY: "durable",
    });
    const standard = await startNodeProcess(join(directory, `standard-${clients}`), variables);
    const { one, other } = await against(durable, standard, clients);
    await Promise.all([durable.end("SIGTERM"), standard.end("SIGTERM")]);
    rows.push({ what: `ingest, ${clients} node clients, standard`, ...other });
    rows.push({
      what: `ingest, ${clients} node clients, durable`,
      ...one,
      note: `p50 is ${(one.p50Ms / other.p50Ms).toFixed(2)} times that of standard`,
    });
  }
  return rows;
}

/** `only` narrows the run to some of its parts. */
export async function benchStorage(directory: string, only: readonly string[] = []): Promise<void> {
  const parts: Record<string, () => Promise<Row[]>> = {
    forks: () => benchForks(directory),
    cold: () => benchColdOpens(directory),
    shipping: () => benchShipping(directory),
    durable: () => benchDurable(directory),
  };
  const asked = (part: string): boolean =>
    !only.some((name) => name === "puts" || name in parts) || only.includes(part);
  const echo = await startEcho();
  const floor = await load(echo.port, 1, 1_000, () => ["POST", "/", "{}"], "node");
  echo.stop();
  console.log(
    `bare echo, 1 node client: p50 ${floor.p50Ms.toFixed(2)} ms; median fdatasync of a 4 KiB ` +
      `append ${fsyncMs(directory).toFixed(3)} ms`,
  );
  const rows: Row[] = [];
  for (const [part, run] of Object.entries(parts)) if (asked(part)) rows.push(...(await run()));
  report("Object storage on local files, over REST", rows);
  if (asked("puts")) await benchPuts(directory);
}
