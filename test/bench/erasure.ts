/**
 * What an erasure costs: beside a durable ingest when it is asked for, beside the size of the database when history is
 * cut.
 */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { limits } from "../../src/base/limits.ts";
import { realWorld } from "../../src/base/world.ts";
import type { ErasedCoupon, Expunged } from "../../src/engine/api/protocol.ts";
import { databasePrefix } from "../../src/format/keys/object-keys.ts";
import type { WriteOutput } from "../../src/model/commands.ts";
import { FileStore } from "../../src/store/file/file-store.ts";
import type {
  ListPage,
  ObjectStore,
  PutCondition,
  PutOutcome,
  StoredObject,
  VersionPurge,
} from "../../src/store/port/object-store.ts";
import { openInlineEngine, uuidOf, type InlineEngine } from "../support/inline-engine.ts";
import { startNodeProcess } from "../support/node-process.ts";
import { seeded } from "../support/random.ts";
import { median, quantile } from "./raw-client.ts";
import { report, type Row } from "./report.ts";
import { texts } from "./words.ts";

const source = texts(11);
const sentences = Array.from({ length: 4_096 }, () => source.sentence(12));
const random = seeded(12);
const mib = 2 ** 20;
/** Of text to a memory; with its index it takes about 11 KiB of the file. */
const contentBytes = 3_400;
const memoriesPerMib = 90;
const batch = 300;

/** Half of it words, half of it noise that no press makes smaller. */
function buildContent(number: number): object {
  const noise = Array.from({ length: contentBytes / 2 / 8 }, () =>
    Math.floor(random() * 2 ** 32)
      .toString(16)
      .padStart(8, "0"),
  ).join("");
  let words = "";
  for (let at = number; words.length < contentBytes / 2; at++) words += `${sentences[(at * 61) % sentences.length]!}. `;
  return { words, noise };
}

function buildSummary(number: number): string {
  return `${sentences[number % sentences.length]!} ${number}`;
}

/** Size of the databases' files in MiB. */
function filesMib(directory: string): string {
  const paths = readdirSync(directory, { recursive: true, encoding: "utf8" }).map((name) => join(directory, name));
  const bytes = paths.map((path) => statSync(path)).reduce((sum, stats) => sum + (stats.isFile() ? stats.size : 0), 0);
  return (bytes / mib).toFixed(0);
}

const pairs = 100;
const warmPairs = 5;

/** Erasures of one memory and durable ingests of one, in turn, on one database. */
async function benchLatency(directory: string, sizeMib: number): Promise<Row[]> {
  const data = join(directory, "latency");
  const node = await startNodeProcess(data, { SERVICE_REQUEST_TIMEOUT: "600" });
  const must = async (path: string, body: object, headers: Record<string, string> = {}): Promise<any> => {
    const { status, text, json } = await node.call("POST", path, body, headers);
    if (status >= 300) throw new Error(`POST ${path}: ${status} ${text}`);
    return json;
  };
  const ids: string[] = [];
  for (let number = 0; number < sizeMib * memoriesPerMib; number += batch) {
    const memories = Array.from({ length: batch }, (_, offset) => ({
      type: "fact",
      summary: buildSummary(number + offset),
      content: buildContent(number + offset),
    }));
    ids.push(
      ...(await must("/v1/memory/bench/one/memories", { memories })).results.map(({ id }: { id: string }) => id),
    );
  }
  await must("/v1/db/bench--one/sync", {});
  const times: Record<"ingest" | "erasure", number[]> = { ingest: [], erasure: [] };
  const timed = async (
    what: keyof typeof times,
    path: string,
    body: object,
    headers?: Record<string, string>,
  ): Promise<void> => {
    const startedAt = performance.now();
    await must(`/v1/memory/bench/one/${path}`, body, headers);
    times[what].push(performance.now() - startedAt);
  };
  for (let pair = 0; pair < warmPairs + pairs; pair++) {
    if (pair === warmPairs) for (const what of ["ingest", "erasure"] as const) times[what] = [];
    await timed(
      "ingest",
      "memories",
      { memories: [{ type: "fact", summary: buildSummary(1e6 + pair), content: buildContent(pair) }] },
      { "Service-Durability": "durable" },
    );
    await timed("erasure", "erasures", { memory_id: ids[Math.floor(random() * ids.length)] });
  }
  const size = filesMib(join(data, "db"));
  await node.end("SIGTERM");
  const row = (what: string, of: readonly number[]): Row => ({
    what,
    p50Ms: median(of),
    p99Ms: quantile(
      [...of].sort((a, b) => a - b),
      0.99,
    ),
  });
  const ratio = median(times.erasure) / median(times.ingest);
  return [
    row("ingest of one memory, durable", times.ingest),
    {
      ...row("erasure of one memory", times.erasure),
      note:
        `${ratio.toFixed(1)} times the durable ingest (target 10); a database ` +
        `of ${ids.length} memories, ${size} MiB`,
    },
  ];
}

/** A store of files that counts what passes. */
class CountingStore implements ObjectStore {
  readonly #store: ObjectStore;
  putBytes = 0;
  gotBytes = 0;

  constructor(store: ObjectStore) {
    this.#store = store;
  }

  async get(key: string): Promise<StoredObject | undefined> {
    const found = await this.#store.get(key);
    this.gotBytes += found?.bytes.length ?? 0;
    return found;
  }

  put(key: string, bytes: Uint8Array, condition: PutCondition): Promise<PutOutcome> {
    this.putBytes += bytes.length;
    return this.#store.put(key, bytes, condition);
  }

  delete(key: string): Promise<void> {
    return this.#store.delete(key);
  }

  list(prefix: string, options: { readonly after?: string | undefined; readonly limit: number }): Promise<ListPage> {
    return this.#store.list(prefix, options);
  }

  purgeVersions(prefix: string): Promise<VersionPurge> {
    return this.#store.purgeVersions(prefix);
  }

  /** Bytes of all current objects under the prefix. */
  async bytesUnder(prefix: string): Promise<number> {
    let bytes = 0;
    for (let after: string | undefined; ;) {
      const { objects, next } = await this.#store.list(prefix, { after, limit: limits.storeListMax });
      for (const object of objects) bytes += object.bytes;
      if (next === undefined) return bytes;
      after = next;
    }
  }

  /** Waits until nothing has passed for a while. */
  async quiet(): Promise<void> {
    for (let before = -1; before !== this.putBytes + this.gotBytes;) {
      before = this.putBytes + this.gotBytes;
      await pause(quietMs);
    }
  }
}

const gcGraceMs = 1_000;
const quietMs = 3_000;

const target = { uuid: uuidOf(1), branch: "main" };

/** Erases the memory; a coupon that is due. */
async function erased({ client, soon }: InlineEngine, memoryId: string): Promise<ErasedCoupon> {
  const id = "ers_00000000000000000000000001";
  const act = {
    act: "erase",
    couponId: id,
    erase: { kind: "memory", memoryId },
    traceKey: new Uint8Array(32).fill(1),
  } as const;
  const { value, txid } = await client.branch(target, act, { ...soon(), durable: true });
  const { memoryIds, traces, branchId } = value;
  return { id, memoryIds, traces, points: [{ branch: target.branch, branchId, txid }], isDue: true };
}

/** What passes between the engine and the store until the erasure is proven, its grace being over. */
async function rewriteRow(directory: string, sizeMib: number): Promise<Row> {
  const data = join(directory, `rewrite-${sizeMib}`);
  const store = new CountingStore(await FileStore.open(join(data, "objects"), realWorld()));
  const engine = openInlineEngine(data, { store, options: { gcGraceMs } });
  const { client, soon } = engine;
  let middle = "";
  for (let number = 0; number < sizeMib * memoriesPerMib; number += batch) {
    const memories = Array.from({ length: batch }, (_, offset) => ({
      type: "fact",
      summary: buildSummary(number + offset),
      content: JSON.stringify(buildContent(number + offset)),
    }));
    const { value } = await client.write(target, "memory.ingest", { memories }, soon());
    if (number >= (sizeMib * memoriesPerMib) / 2 && middle === "")
      middle = (value as WriteOutput<"memory.ingest">).results[0]!.id;
  }
  await client.sync(target, soon());
  const coupon = await erased(engine, middle);
  await store.quiet();
  const before = { put: store.putBytes, got: store.gotBytes };
  let ms = 0;
  let expunged: Expunged;
  for (;;) {
    const startedAt = performance.now();
    expunged = (await client.branch(target, { act: "expunge", coupons: [coupon] }, { deadlineMs: Infinity }))
      .value as Expunged;
    ms += performance.now() - startedAt;
    if (expunged.clean.length > 0) break;
    // Objects that were cut off stay for their grace, which is nobody's work.
    await pause(gcGraceMs + 100);
  }
  const [put, got] = [store.putBytes - before.put, store.gotBytes - before.got];
  const live = await store.bytesUnder(databasePrefix(target.uuid));
  const size = filesMib(join(data, "db"));
  await client.close();
  const times = (bytes: number): string => `${(bytes / mib).toFixed(1)} MiB (${(bytes / live).toFixed(2)})`;
  return {
    what: `history of a file of ${size} MiB, live objects ${(live / mib).toFixed(1)} MiB`,
    note:
      `put ${times(put)}, got ${times(got)}, in brackets per live byte; ${(ms / 1_000).toFixed(1)} s at ` +
      `work, ${((ms / live) * mib).toFixed(0)} ms per live MiB`,
  };
}

export async function benchErasure(directory: string): Promise<void> {
  report("Erasure over REST, on local files", await benchLatency(directory, 100));
  const rows: Row[] = [];
  for (const sizeMib of [10, 100]) rows.push(await rewriteRow(directory, sizeMib));
  report("From the end of an erasure's grace to its receipt (engine in process, store of files)", rows);
}
