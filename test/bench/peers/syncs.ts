/** That an answered write is on disk: fsyncs that the system counts while one client writes, one memory at a time. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { withServers, type PartOf } from "./contest.ts";
import { findOnPath } from "./launched.ts";
import { memoryAt, vectorPool } from "./memories.ts";
import type { PeerClient } from "./peer.ts";
import { listPids } from "../process-tree.ts";
import { figure } from "./section.ts";

const space = "one";
const calls = ["fsync", "fdatasync"] as const;
const unproven = "unproven: no strace, or it may not look";

type Counts = Readonly<Record<(typeof calls)[number], number>>;

/**
 * Counts the syncs of all processes, threads and children of the server while the writes are made; undefined where the
 * system does not let it look.
 */
export async function countSyncs(
  strace: string,
  pids: readonly number[],
  file: string,
  write: () => Promise<void>,
): Promise<Counts | undefined> {
  const attached = listPids(pids);
  const flags = ["-f", "-c", "-e", `trace=${calls.join(",")}`, "-o", file];
  const tracer = spawn(strace, [...flags, ...attached.flatMap((pid) => ["-p", String(pid)])], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = new Promise<void>((resolve) => {
    tracer.once("exit", () => resolve());
    tracer.once("error", () => resolve());
  });
  let said = "";
  const looks = await new Promise<boolean>((resolve) => {
    void ended.then(() => resolve(false));
    tracer.stderr.setEncoding("utf8").on("data", (chunk: string) => {
      said += chunk;
      if (attached.every((pid) => said.includes(`Process ${pid} attached`))) resolve(true);
    });
  });
  try {
    await write();
  } finally {
    tracer.kill("SIGINT");
    await ended;
  }
  if (!looks) return undefined;
  const summary = readFileSync(file, "utf8");
  const count = (name: string): number =>
    Number(new RegExp(`^\\s*[\\d.]+\\s+[\\d.]+\\s+\\d+\\s+(\\d+)\\s.*\\b${name}$`, "m").exec(summary)?.[1] ?? 0);
  return { fsync: count("fsync"), fdatasync: count("fdatasync") };
}

export const syncs: PartOf = {
  part: "syncs",
  title: "Every answered write is on disk",
  lead:
    "One client writes one memory after the other while `strace` counts the calls of all processes and threads of " +
    "the server: at least one sync a write. Checkpoints and segments add theirs.",
  run: ({ peers, size, directory }, tables) =>
    withServers(peers, directory, [space], async (running) => {
      const strace = findOnPath("strace");
      const [vector] = vectorPool(size.dimension, 1);
      const rows: string[][] = [];
      for (const [turn, { peer, server }] of running.entries()) {
        const client: PeerClient = await server.open();
        const embedding = peer.vectors === "all" ? vector : undefined;
        // Equal memories are not written: none of these is.
        const writes = async (from: number, count: number): Promise<void> => {
          for (let at = from; at < from + count; at++) await client.ingest(space, memoryAt("s", at, 1, embedding));
        };
        await writes(0, 5);
        const write = (): Promise<void> => writes(5, size.syncedWrites);
        const counts = strace
          ? await countSyncs(strace, server.pids, join(directory, `syncs-${turn}`), write)
          : undefined;
        if (!strace) await write();
        await client.close();
        tables.count(peer.name, size.syncedWrites);
        const sum = counts && counts.fsync + counts.fdatasync;
        rows.push([
          peer.name,
          String(size.syncedWrites),
          ...(counts ? calls.map((name) => String(counts[name])) : ["", ""]),
          sum === undefined ? "" : figure(sum / size.syncedWrites),
          sum === undefined ? unproven : sum >= size.syncedWrites ? "yes" : "**no**",
        ]);
      }
      tables.tables.push({ columns: ["", "writes", ...calls, "a write", "proven"], rows });
    }),
};
