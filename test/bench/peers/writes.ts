/** Memories one by one: of one tenant, with a vector each, and over many tenants. */
import { withServers, type PartOf } from "./contest.ts";
import { memoryAt, vectorPool } from "./memories.ts";
import { loopRounds } from "./rounds.ts";

const space = "one";

export const ingest: PartOf = {
  part: "ingest",
  title: "Ingest, one tenant",
  lead:
    "One memory a call. `remember` and `words` do what an ingest does: they index its words, keep one of two equal " +
    "memories and let a new fact supersede the old one. Redis and both `plain` only keep what they are given.",
  run: ({ peers, size, directory }, tables) =>
    withServers(peers, directory, [space], async (running) => {
      for (const clients of size.clients) {
        const figures = await loopRounds(running, clients, size, (client, index, step) =>
          client.ingest(space, memoryAt(`i${clients}`, index, step)),
        );
        tables.addRates("", countOf(clients, "client"), figures);
      }
    }),
};

export const embedded: PartOf = {
  part: "embedded",
  title: "Ingest with a vector",
  lead: "The same with a vector each, which the caller brings.",
  run: ({ peers, size, directory }, tables) =>
    withServers(peers, directory, [space], async (running) => {
      const vectors = vectorPool(size.dimension);
      for (const clients of size.clients) {
        const figures = await loopRounds(running, clients, size, (client, index, step) =>
          client.ingest(space, memoryAt(`v${clients}`, index, step, vectors[(index * 31 + step) % vectors.length])),
        );
        tables.addRates(`${size.dimension} dimensions`, countOf(clients, "client"), figures);
      }
    }),
};

export const tenants: PartOf = {
  part: "tenants",
  title: "Ingest over many tenants",
  lead: "One memory a call, each for the next tenant. Every tenant has a memory before the clock runs.",
  run: async ({ peers, size, directory }, tables) => {
    let others = 0;
    for (const count of size.tenants) {
      const spaces = Array.from({ length: count }, (_, at) => `tenant-${at}`);
      const of = `${directory}-${count}`;
      const took = await withServers(peers, of, spaces, async (running) => {
        for (const { server } of running) {
          const client = await server.open();
          for (const [at, one] of spaces.entries()) await client.ingest(one, memoryAt("first", at, 1));
          await client.close();
        }
        for (const clients of size.clients) {
          const figures = await loopRounds(running, clients, size, (client, index, step) =>
            client.ingest(spaces[(index * 17 + step) % count]!, memoryAt(`t${clients}`, index, step)),
          );
          tables.addRates(`${count} tenants`, countOf(clients, "client"), figures);
        }
      });
      others = Math.max(others, took);
    }
    return others;
  },
};

export function countOf(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
