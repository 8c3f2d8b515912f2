/** Recall in Chinese, Japanese, Korean and Thai, all in one database. */
import { expect, test } from "vitest";
import { ingest } from "../../../../src/model/memory/memory-ingest.ts";
import { recall } from "../../../../src/model/recall.ts";
import { unspacedPairs } from "../../../eval/unspaced.ts";
import { ModelDatabase } from "../../../support/model-database.ts";

test("95 % of each language's questions are answered in the first five; words of none find nothing", () => {
  const database = new ModelDatabase();
  const pairs = Object.values(unspacedPairs).flat();
  expect(pairs.length).toBeGreaterThanOrEqual(100);
  database.write((tx) =>
    ingest(tx, { memories: pairs.map(([summary]) => ({ type: "event", summary, content: "null" })) }),
  );
  const find = (query: string): string[] =>
    recall(database.view(), { query, k: 5 }).memories.map(({ summary }) => summary);
  for (const [language, some] of Object.entries(unspacedPairs)) {
    const missed = some
      .filter(([memory, question]) => !find(question).includes(memory))
      .map(([, question]) => question);
    expect(missed.length / some.length, `${language}: ${missed.join("; ")}`).toBeLessThanOrEqual(0.05);
  }
  for (const query of ["量子力学", "火山爆発", "잠수함", "ภูเขาไฟระเบิด"]) expect(find(query), query).toEqual([]);
  database.close();
});
