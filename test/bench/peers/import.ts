/** Many memories at once, in batches, by one client; each round into a space of its own. */
import { withServers, type PartOf } from "./contest.ts";
import { eventAt, vectorPool } from "./memories.ts";
import type { Memory } from "./peer.ts";
import { cpuMsOf } from "../process-tree.ts";
import { pairedRounds, type Round, type Running } from "./rounds.ts";

async function importInto({ server }: Running, space: string, batches: readonly (readonly Memory[])[]): Promise<Round> {
  await server.prepare([space]);
  const client = await server.open();
  const latenciesMs: number[] = [];
  const cpuBefore = cpuMsOf(server.pids);
  const startedAt = performance.now();
  try {
    for (const batch of batches) {
      const sentAt = performance.now();
      await client.ingestAll(space, batch);
      latenciesMs.push(performance.now() - sentAt);
    }
    const seconds = (performance.now() - startedAt) / 1_000;
    const units = batches.reduce((sum, batch) => sum + batch.length, 0);
    return { units, seconds, latenciesMs, cpuMs: cpuMsOf(server.pids) - cpuBefore, errors: [] };
  } finally {
    await client.close();
  }
}

export const bulk: PartOf = {
  part: "import",
  title: "Bulk import",
  lead:
    "Events in batches, one client. A rate is of memories, p50 and p99 are of batches, processor time of a memory. " +
    "Postgres inserts a batch by one statement (words and duplicates, no topics), naive by one transaction, Redis " +
    "by commands that go out together. A round fills a new profile, schema or collection, or the same table further.",
  run: async ({ peers, size, directory }, tables) => {
    const { memories, batch, rounds } = size.import;
    const count = memories / batch;
    let others = 0;
    for (const kind of ["words", "vectors"] as const) {
      const own = peers.filter(({ vectors }) => vectors === "some" || (vectors === "all") === (kind === "vectors"));
      const vectors = kind === "vectors" ? vectorPool(size.dimension, memories) : undefined;
      const took = await withServers(own, `${directory}-${kind}`, [], async (running) => {
        const figures = await pairedRounds(running, rounds, (one, round) => {
          const space = `import-${round}`;
          const batches = Array.from({ length: count }, (_, at) =>
            Array.from({ length: batch }, (__, offset) => {
              const index = at * batch + offset;
              return eventAt(space, index, vectors?.[index]);
            }),
          );
          return importInto(one, space, batches);
        });
        const title = `${memories.toLocaleString("en")} memories${vectors ? ` x ${size.dimension}` : ""}`;
        tables.addRates(title, "", figures);
      });
      others = Math.max(others, took);
    }
    return others;
  },
};
