/**
 * `npm run soak -- [--minutes 10] [--outage-minutes 0] [--cluster-minutes 0] [--kills 0] [--disk] [--seed 1]`: a real
 * node on a real S3 server (PALIMPSEST_S3_SERVER) under steady writes, with random outages of the store and kills of
 * the node, with and without its disk. Prints every ten seconds what the node holds; at the end everything drains and
 * is proven, once more after the loss of the disk.
 *
 * With `--outage-minutes` it is one long outage instead, after a minute of peace; with `--cluster-minutes` it is three
 * nodes and a real etcd, with trouble of every kind; with `--kills 1000` so many rounds of kill -9 on one disk, no
 * server needed; with `--disk` it is a disk that fills up, turns read-only, fails and is slow (30 minutes when none are
 * given).
 */
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { realWorld } from "../../src/base/world.ts";
import { openStore } from "../../src/store/open-store.ts";
import { countingClients, expectSound, prepareCounting, syncCounting } from "../support/counting-clients.ts";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { seeded } from "../support/random.ts";
import { startS3Server } from "../support/s3-server.ts";
import { soakCluster } from "./cluster.ts";
import { soakDisk } from "./disk.ts";
import { soakKills } from "./kills.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string" },
    disk: { type: "boolean", default: false },
    "outage-minutes": { type: "string", default: "0" },
    "cluster-minutes": { type: "string", default: "0" },
    kills: { type: "string", default: "0" },
    seed: { type: "string", default: "1" },
  },
});
const durationMs = Number(values.minutes ?? (values.disk ? 30 : 10)) * 60_000;
const outageMs = Number(values["outage-minutes"]) * 60_000;
const random = seeded(Number(values.seed));
if (Number(values["cluster-minutes"]) > 0) {
  await soakCluster(Number(values["cluster-minutes"]) * 60_000, Number(values.seed));
  process.exit();
}
if (Number(values.kills) > 0) {
  await soakKills(Number(values.kills), Number(values.seed));
  process.exit();
}
if (values.disk) {
  await soakDisk(durationMs, Number(values.seed));
  process.exit();
}

const sampleMs = 10_000;

const server = await startS3Server();
Object.assign(process.env, server.variables);
const store = await openStore(server.buildLocation("soak"), realWorld());
const root = mkdtempSync(join(tmpdir(), "palimpsest-soak-"));
const directory = join(root, "data");
// History and garbage go after a minute or so, that a run of minutes shows what stays.
const variables = {
  ...server.variables,
  SERVICE_OBJECT_STORE: server.buildUrl("soak"),
  SERVICE_PITR_SECS: "60",
  SERVICE_GC_GRACE_SECS: "30",
  SERVICE_LOG_LEVEL: "warn",
};

const clients = countingClients();
const counts = { acknowledged: 0, durable: 0, shed: 0, late: 0, unavailable: 0, kills: 0, wipes: 0, outages: 0 };
let node: NodeProcess = await startNodeProcess(directory, variables);
let storeIsUp = true;
/** Set while the node is down or its state is looked at: nobody writes then. */
let held = false;
let ended = false;
let underWay = 0;

async function write(client: (typeof clients)[number]): Promise<void> {
  while (!ended) {
    if (held) {
      await pause(20);
      continue;
    }
    underWay++;
    const wasUp = storeIsUp;
    const outcome = await client.advance(node.call).finally(() => underWay--);
    if (outcome.kind === "acknowledged") {
      counts[client.durable ? "durable" : "acknowledged"]++;
      assert(wasUp || storeIsUp || !client.durable, `${client.name}: a durable write was acknowledged in an outage`);
      await pause(5);
    } else {
      if (outcome.kind === "refused") {
        assert([408, 429, 503].includes(outcome.status), `${client.name}: ${outcome.text}`);
        counts[outcome.status === 429 ? "shed" : outcome.status === 408 ? "late" : "unavailable"]++;
      }
      await pause(100);
    }
  }
}

async function quiet(): Promise<void> {
  held = true;
  while (underWay > 0) await pause(10);
}

async function kill(wipe: boolean): Promise<void> {
  counts.kills++;
  if (wipe) counts.wipes++;
  await node.end("SIGKILL");
  await quiet();
  if (wipe) rmSync(random() < 0.5 ? directory : join(directory, "db"), { recursive: true, force: true });
  node = await startNodeProcess(directory, variables);
  for (const client of clients) await (wipe ? client.expectCut(node.call) : client.expectAll(node.call));
  await expectSound(node.call);
  held = false;
}

async function outage(lastingMs: number): Promise<void> {
  counts.outages++;
  const silent = random() < 0.5;
  if (silent) server.freeze();
  else await server.stop();
  // What had reached the server may still be on its way back.
  await pause(200);
  storeIsUp = false;
  await pause(lastingMs);
  storeIsUp = true;
  if (silent) server.awaken();
  else await server.start();
}

function bytesBelow(path: string): number {
  let bytes = 0;
  for (const entry of readdirSync(path, { recursive: true, withFileTypes: true })) {
    try {
      if (entry.isFile()) bytes += statSync(join(entry.parentPath, entry.name)).size;
    } catch {
      // Removed between the listing and the look.
    }
  }
  return bytes;
}

async function objects(): Promise<{ count: number; bytes: number } | undefined> {
  if (!storeIsUp) return undefined;
  let [count, bytes] = [0, 0];
  try {
    for (let after: string | undefined; ;) {
      const page = await store.list("", { after, limit: 1_000 });
      count += page.objects.length;
      bytes += page.objects.reduce((sum, object) => sum + object.bytes, 0);
      if (page.next === undefined) return { count, bytes };
      after = page.next;
    }
  } catch {
    // An outage has begun meanwhile; the row goes without.
    return undefined;
  }
}

const startedMs = performance.now();
const mib = (bytes: number): string => (bytes / 2 ** 20).toFixed(1);

async function sample(): Promise<void> {
  const seen = await objects();
  const cells: (string | number)[] = [((performance.now() - startedMs) / 1_000).toFixed(0), storeIsUp ? "up" : "down"];
  try {
    const resident =
      Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${node.child.pid}/status`, "utf8"))?.[1]) * 1_024;
    cells.push(mib(resident), readdirSync(`/proc/${node.child.pid}/fd`).length, mib(bytesBelow(directory)));
  } catch {
    // The node is being started anew.
    cells.push("", "", "");
  }
  cells.push(seen?.count ?? "", seen ? mib(seen.bytes) : "", ...Object.values(counts));
  console.log(`| ${cells.join(" | ")} |`);
}

async function sampleOn(): Promise<void> {
  while (!ended) {
    await sample();
    await pause(sampleMs);
  }
}

/** Random trouble until the time is over, or one long outage. */
async function trouble(): Promise<void> {
  if (outageMs > 0) {
    await pause(60_000);
    return outage(outageMs);
  }
  while (performance.now() - startedMs < durationMs) {
    await pause(2_000 + random() * 15_000);
    const draw = random();
    if (draw < 0.4) await outage(1_000 + random() ** 2 * 30_000);
    else await kill(draw > 0.7);
  }
}

try {
  await prepareCounting(node.call, clients);
  const columns = [
    "seconds",
    "store",
    "RSS MiB",
    "descriptors",
    "local MiB",
    "objects",
    "stored MiB",
    ...Object.keys(counts),
  ];
  console.log(`| ${columns.join(" | ")} |\n|${columns.map(() => "---:|").join("")}`);
  const sampling = sampleOn();
  const writing = Promise.all(clients.map(write));
  await Promise.race([trouble(), writing]);
  ended = true;
  await writing;
  const drainedFromMs = performance.now();
  await syncCounting(node.call, 120_000);
  console.log(
    `\neverything is in object storage ${((performance.now() - drainedFromMs) / 1_000).toFixed(1)} s after the end`,
  );
  for (const client of clients) await client.expectAll(node.call);
  await sampling;
  await sample();
  await node.end("SIGKILL");
  rmSync(directory, { recursive: true });
  node = await startNodeProcess(directory, variables);
  for (const client of clients) await client.expectAll(node.call);
  await expectSound(node.call);
  console.log("nothing that was acknowledged is lost, with the disk and without it");
} finally {
  await node.end("SIGKILL");
  await server.end();
  rmSync(root, { recursive: true, force: true });
}
