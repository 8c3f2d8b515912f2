/** Keys and values, and recall by words and vector. */
import { withServers, type PartOf } from "./contest.ts";
import { eventAt, questionsAbout, sentenceAt, vectorPool } from "./memories.ts";
import type { Peer } from "./peer.ts";
import { loopRounds } from "./rounds.ts";
import type { SectionTables } from "./section.ts";
import type { Size } from "./sizes.ts";
import { countOf } from "./writes.ts";

/** Keys of each client, written over in turn; reads find the keys of the first. */
const keysOfClient = 1_000;
const fillBatch = 500;
/** What fills slowly is asked of so much less. */
const slowShare = 5;
/** Sentences are told from each other by what is appended: no key is given the bytes that it has. */
const valueOf = (tag: string, index: number, step: number): string => `${sentenceAt(index * 61 + step)} ${tag}-${step}`;

export const keyValue: PartOf = {
  part: "kv",
  title: "Key-value",
  lead: "Values of about 100 bytes; no put gives a key the bytes that it has.",
  run: ({ peers, size, directory }, tables) =>
    withServers(peers, directory, [], async (running) => {
      for (const clients of size.clients) {
        const figures = await loopRounds(running, clients, size, (client, index, step) =>
          client.put(`k${index}-${step % keysOfClient}`, valueOf(`p${clients}`, index, step)),
        );
        tables.addRates("put", countOf(clients, "client"), figures);
      }
      const keys = size.name === "full" ? keysOfClient : 10;
      for (const { server } of running) {
        const client = await server.open();
        for (let key = 0; key < keys; key++) await client.put(`g-${key}`, valueOf("fill", 0, key));
        await client.close();
      }
      for (const clients of size.clients) {
        const figures = await loopRounds(running, clients, size, async (client, index, step) => {
          const key = (index * 61 + step) % keys;
          const value = await client.get(`g-${key}`);
          if (value !== valueOf("fill", 0, key)) throw new Error(`the value of g-${key} is ${value}`);
        });
        tables.addRates("get", countOf(clients, "client"), figures);
      }
    }),
};

export const recall: PartOf = {
  part: "recall",
  title: "Recall by words and vector",
  lead:
    "Memories with a vector each, the ten that fit best. A question is four words of a memory and its vector with a " +
    "third of noise, so that it is easy: the table says how often that memory was among the ten. Postgres fuses the " +
    "ranks of both in SQL; Chroma looks among what contains one of the words.",
  run: async ({ peers, size, directory }, tables) => {
    const found = new Map<string, { calls: number; found: number }>();
    const fast = peers.filter(({ slow }) => !slow);
    let others = await recallOf(fast, size.recall.memories, size, directory, tables, found);
    // What fills slowly stands beside ours alone.
    const slow = peers.filter((peer, at) => at === 0 || peer.slow);
    if (slow.length > 1) {
      const fewer = Math.ceil(size.recall.memories / slowShare);
      others = Math.max(others, await recallOf(slow, fewer, size, `${directory}-slow`, tables, found));
    }
    tables.tables.push({
      title: "The wanted memory among the ten",
      columns: ["", "of the questions"],
      rows: [...found].map(([name, { calls, found: times }]) => [name, `${((100 * times) / calls).toFixed(1)} %`]),
    });
    return others;
  },
};

/** Fills the peers with so many memories and asks for them; counts how often the wanted one was found. */
function recallOf(
  peers: readonly Peer[],
  count: number,
  size: Size,
  directory: string,
  tables: SectionTables,
  found: Map<string, { calls: number; found: number }>,
): Promise<number> {
  const space = "recall";
  const memories = vectorPool(size.dimension, count).map((vector, at) => eventAt("recall", at, vector));
  const questions = questionsAbout(memories, size.recall.questions);
  return withServers(peers, directory, [space], async (running) => {
    for (const { server } of running) {
      const client = await server.open();
      for (let from = 0; from < count; from += fillBatch)
        await client.ingestAll(space, memories.slice(from, from + fillBatch));
      await client.close();
      await server.settle?.();
    }
    for (const clients of size.recall.clients) {
      const figures = await loopRounds(running, clients, size, async (client, index, step, peer) => {
        const question = questions[(index * 61 + step) % questions.length]!;
        const tags = await client.recall(space, question);
        if (tags.length === 0) throw new Error("nothing was found");
        const before = found.get(peer.name) ?? { calls: 0, found: 0 };
        found.set(peer.name, {
          calls: before.calls + 1,
          found: before.found + Number(tags.includes(question.wanted)),
        });
      });
      const title = `${count.toLocaleString("en")} memories x ${size.dimension}`;
      tables.addRates(title, countOf(clients, "client"), figures);
    }
  });
}
