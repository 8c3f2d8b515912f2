/**
 * `npm run bench -- [writes|lone|tail|tenants|turns|fsync|sql|auth|builds [commit]|cluster|embed|erasure|fairness [1
 * …]|feed|growth [10000 …]|grpc|mcp|past|recalls [10000 …]|vectors|memory|scale|start|storage
 * [forks|cold|shipping|durable|puts …]]`: every figure beside its floor, in the same run. `peers [part …] [--size
 * small] [--write docs/peers.md]` starts servers that others make, when asked alone.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { benchAuth } from "./auth.ts";
import { benchBuilds } from "./builds.ts";
import { benchCluster } from "./cluster.ts";
import { benchEmbed } from "./embed.ts";
import { benchErasure } from "./erasure.ts";
import { benchFairness } from "./fairness.ts";
import { benchFeed } from "./feed.ts";
import { benchGrowth } from "./growth.ts";
import { benchGrpc } from "./grpc.ts";
import { benchMcp } from "./mcp.ts";
import { benchMemory } from "./memory.ts";
import { benchPast } from "./past.ts";
import { benchPeers } from "./peers/peers.ts";
import { benchRecalls } from "./recalls.ts";
import { benchScale } from "./scale.ts";
import { benchSql } from "./sql.ts";
import { benchStorage } from "./storage.ts";
import { benchStart } from "./start.ts";
import { benchTail } from "./tail.ts";
import { benchTenants } from "./tenants.ts";
import { benchTurns } from "./turns.ts";
import { benchVectors } from "./vectors.ts";
import { benchFsync, benchLone, benchWrites } from "./writes.ts";

const asked = process.argv.slice(2);
const numbers = asked.map(Number).filter((number) => number > 0);
const benches: Record<string, (directory: string) => Promise<void>> = {
  writes: benchWrites,
  lone: benchLone,
  tail: benchTail,
  tenants: benchTenants,
  fsync: benchFsync,
  sql: benchSql,
  recalls: (directory) => benchRecalls(directory, numbers),
  vectors: benchVectors,
  mcp: benchMcp,
  memory: benchMemory,
  auth: benchAuth,
  builds: (directory) =>
    benchBuilds(
      directory,
      asked.find((word) => /^[0-9a-f]{7,40}$/.test(word)),
    ),
  cluster: benchCluster,
  embed: benchEmbed,
  erasure: benchErasure,
  fairness: (directory) => benchFairness(directory, numbers),
  feed: benchFeed,
  growth: (directory) => benchGrowth(directory, numbers),
  grpc: benchGrpc,
  past: benchPast,
  scale: benchScale,
  start: benchStart,
  turns: benchTurns,
  storage: (directory) => benchStorage(directory, asked),
  peers: (directory) => benchPeers(directory, asked),
};
/** After `peers` come its own parts, of which some have names of benches here; it runs alone, and only when asked. */
const isAsked = (name: string): boolean =>
  asked[0] === "peers" || name === "peers" ? name === asked[0] : asked.length === 0 || asked.includes(name);
console.log(
  `Node ${process.version}, ${cpus().length} cores (${cpus()[0]?.model ?? "unknown"}); load and servers share them`,
);
for (const [name, bench] of Object.entries(benches)) {
  if (!isAsked(name)) continue;
  const directory = mkdtempSync(join(process.cwd(), ".bench-"));
  try {
    await bench(directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
