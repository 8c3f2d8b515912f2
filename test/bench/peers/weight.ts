/** What is there when nobody asks: memory and bytes on disk by tenant, and how long a start takes with that data. */
import { withServers, type PartOf } from "./contest.ts";
import { memoryAt } from "./memories.ts";
import type { PeerServer } from "./peer.ts";
import { diskBytesOf, memoryMiBOf } from "../process-tree.ts";
import { spreadOf, type Running } from "./rounds.ts";
import { figure, spread } from "./section.ts";
import type { Size } from "./sizes.ts";

const fillers = 16;

function spacesOf({ weight }: Size): readonly string[] {
  return Array.from({ length: weight.tenants }, (_, at) => `tenant-${at}`);
}

/** Every tenant gets its memories, one by one. */
async function fill(server: PeerServer, spaces: readonly string[], memories: number): Promise<void> {
  await Promise.all(
    Array.from({ length: Math.min(fillers, spaces.length) }, async (_, filler) => {
      const client = await server.open();
      for (let at = filler; at < spaces.length; at += fillers)
        for (let step = 0; step < memories; step++) await client.ingest(spaces[at]!, memoryAt("w", at, step));
      await client.close();
    }),
  );
}

export const weight: PartOf = {
  part: "weight",
  title: "Memory and disk by tenant",
  lead:
    "Resident memory of all processes (shared pages divided), before the first memory, right after the last, and a " +
    "minute later; bytes that the data directory has grown by, logs and segments with it.",
  run: ({ peers, size, directory }, tables) => {
    const spaces = spacesOf(size);
    const { tenants: count, memories, settleMs } = size.weight;
    return withServers(peers, directory, spaces, async (running) => {
      const empty = running.map(({ server }) => memoryMiBOf(server.pids));
      const bytes = running.map((one) => diskBytesOf(one.directory));
      const filled: number[] = [];
      for (const { peer, server } of running) {
        await fill(server, spaces, memories);
        filled.push(memoryMiBOf(server.pids));
        tables.count(peer.name, count * memories);
      }
      await new Promise((resolve) => setTimeout(resolve, settleMs));
      const later = running.map(({ server }) => memoryMiBOf(server.pids));
      const perTenant = filled.map((mib, at) => ((mib - empty[at]!) * 1024) / count);
      const perMemory = running.map((one, at) => (diskBytesOf(one.directory) - bytes[at]!) / (count * memories));
      tables.tables.push({
        title: `${count} tenants x ${memories} memories`,
        columns: ["", "MiB empty", "filled", "later", "KiB a tenant", "disk bytes a memory"],
        rows: running.map(({ peer }, at) => [
          peer.name,
          ...[empty[at]!, filled[at]!, later[at]!, perTenant[at]!, perMemory[at]!].map(figure),
        ]),
      });
      for (const [what, values] of [
        ["memory filled", filled],
        ["disk", perMemory],
      ] as const)
        for (const [at, { peer }] of running.entries())
          if (at > 0) tables.bars.push({ label: `${peer.name}, ${what}`, ratio: spreadOf([values[at]! / values[0]!]) });
    });
  },
};

/** From the start of the program to the first answer, and the time of all that. */
async function startMs({ peer, directory }: Running, space: string): Promise<{ ms: number; server: PeerServer }> {
  const startedAt = performance.now();
  const server = await peer.start(directory);
  const client = await server.open();
  await client.read(space);
  const ms = performance.now() - startedAt;
  await client.close();
  return { ms, server };
}

export const start: PartOf = {
  part: "start",
  title: "Start to the first answer",
  lead:
    "A server that was ended as an operator would is started on its data and asked for a memory. Ratios are its time " +
    "over ours, so that above 1 Palimpsest is sooner.",
  run: async ({ peers, size, directory }, tables) => {
    const spaces = spacesOf(size);
    const stopped: Running[] = [];
    const others = await withServers(peers, directory, spaces, async (running) => {
      for (const { server } of running) await fill(server, spaces, size.weight.memories);
      stopped.push(...running);
    });
    const times = stopped.map((): number[] => []);
    for (let round = 0; round < size.starts; round++)
      for (let turn = 0; turn < stopped.length; turn++) {
        const at = (round + turn) % stopped.length;
        const { ms, server } = await startMs(stopped[at]!, spaces[round % spaces.length]!);
        await server.stop();
        times[at]!.push(ms);
        tables.count(stopped[at]!.peer.name, 1);
      }
    const ratios = times.map((own) => spreadOf(own.map((ms, round) => ms / times[0]![round]!)));
    tables.tables.push({
      title: `${spaces.length} tenants x ${size.weight.memories} memories`,
      columns: ["", "ms", "its time over ours"],
      rows: stopped.map(({ peer }, at) => [
        peer.name,
        spread(spreadOf(times[at]!)),
        at === 0 ? "" : spread(ratios[at]!, true),
      ]),
    });
    for (const [at, { peer }] of stopped.entries())
      if (at > 0) tables.bars.push({ label: peer.name, ratio: ratios[at]! });
    return others;
  },
};
