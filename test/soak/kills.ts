/**
 * kill -9 again and again on one data directory, each time after the log was folded in and begun anew at least once: no
 * acknowledged write is lost, on this disk or on one that has nothing but the object store.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { cpSync, mkdtempSync, openSync, readSync, closeSync, existsSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { seeded } from "../support/random.ts";

const clients = 8;
/** With what else a put logs, some 600 of them fill a log that is to be folded in. */
const valueBytes = 24_000;
const keysOfClient = 64;
const roundMsMax = 20_000;

/** What one client knows: the newest step of each of its keys that was acknowledged, and the newest that was tried. */
interface Known {
  readonly acknowledged: Map<string, number>;
  readonly tried: Map<string, number>;
}

const buildValue = (key: string, step: number): string =>
  `${key} ${step} `.repeat(Math.ceil(valueBytes / `${key} ${step} `.length));
const text = { "content-type": "text/plain" };

/** Puts steps until the node dies under it. */
async function write(node: NodeProcess, client: number, start: number, known: Known): Promise<void> {
  for (let step = start; ; step++) {
    const key = `c${client}-${step % keysOfClient}`;
    known.tried.set(key, step);
    try {
      const { status } = await node.call(
        "PUT",
        `/v1/db/kills/kv/n/${key}`,
        buildValue(key, step),
        step % 7 === 0 ? { ...text, "service-durability": "durable" } : text,
      );
      if (status === 200) known.acknowledged.set(key, step);
    } catch {
      return;
    }
  }
}

/** What tells the log of the database from the one before: it is begun anew when it was folded in. */
function logGeneration(directory: string): string {
  const databases = join(directory, "db");
  const salts = Buffer.alloc(8);
  for (const uuid of existsSync(databases) ? readdirSync(databases) : []) {
    const path = join(databases, uuid, "main.db-wal");
    if (!existsSync(path)) continue;
    const descriptor = openSync(path, "r");
    readSync(descriptor, salts, 0, salts.length, 16);
    closeSync(descriptor);
  }
  return salts.toString("hex");
}

/** Every acknowledged step, or one that was tried after it, is there whole. */
async function inspect(node: NodeProcess, known: Known): Promise<void> {
  for (const [key, acknowledged] of known.acknowledged) {
    const { status, text: value } = await node.call("GET", `/v1/db/kills/kv/n/${key}`);
    assert.equal(status, 200, `${key} is gone, which was acknowledged at step ${acknowledged}`);
    const step = Number(value.split(" ")[1]);
    assert(
      step >= acknowledged && step <= known.tried.get(key)!,
      `${key} stands at step ${step}, acknowledged at ${acknowledged}`,
    );
    assert.equal(computeHash(value), computeHash(buildValue(key, step)), `${key} is torn`);
  }
  const { json } = await node.call("POST", "/v1/db/kills/sql", { stmts: [{ q: "PRAGMA integrity_check" }] });
  assert.deepEqual(json.results[0].rows, [["ok"]]);
}

function computeHash(value: string): string {
  return createHash("sha256").update(value).digest("hex");
}

/** Runs the rounds; throws at the first write that is lost. */
export async function soakKills(rounds: number, seed: number): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), "palimpsest-kills-"));
  const directory = join(root, "data");
  const random = seeded(seed);
  const known: Known = { acknowledged: new Map(), tried: new Map() };
  let [puts, folds] = [0, 0];
  let node = await startNodeProcess(directory, { SERVICE_LOG_LEVEL: "warn" });
  await node.call("POST", "/v1/databases", { name: "kills" });
  const startedMs = performance.now();
  for (let round = 1; round <= rounds; round++) {
    const before = logGeneration(directory);
    const writing = Promise.all(
      Array.from({ length: clients }, (_, client) => write(node, client, round * 1_000_000, known)),
    );
    // At least one log is folded in, and then the kill comes at any moment of the next one.
    for (
      const untilMs = performance.now() + roundMsMax;
      logGeneration(directory) === before && performance.now() < untilMs;
    )
      await new Promise((resolve) => setTimeout(resolve, 20));
    if (logGeneration(directory) !== before) folds++;
    await new Promise((resolve) => setTimeout(resolve, random() * 700));
    await node.end("SIGKILL");
    await writing;
    puts = [...known.acknowledged.values()].reduce((sum, step) => sum + (step % 1_000_000), 0);
    node = await startNodeProcess(directory, { SERVICE_LOG_LEVEL: "warn" });
    if (round % 20 === 0 || round === rounds) {
      await inspect(node, known);
      console.log(
        `${round} rounds, ${folds} of them over a log that was folded ` +
          `in, ${((performance.now() - startedMs) / 1_000).toFixed(0)} s; the last round's steps: ${puts}`,
      );
    }
  }
  assert((await node.call("POST", "/v1/db/kills/sync")).status < 300);
  await node.end("SIGTERM");
  // The object store alone.
  const elsewhere = join(root, "elsewhere");
  cpSync(join(directory, "objects"), join(elsewhere, "objects"), { recursive: true });
  node = await startNodeProcess(elsewhere, { SERVICE_LOG_LEVEL: "warn" });
  await inspect(node, known);
  await node.end("SIGTERM");
  rmSync(root, { recursive: true, force: true });
  console.log(`${rounds} rounds of kill -9, ${folds} over a log that was folded in: no acknowledged write lost`);
}
