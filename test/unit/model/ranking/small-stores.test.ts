/** Small stores of short facts: what belongs is found, and what does not is left out; on the half that is tuned on. */
import { expect, test } from "vitest";
import { askStores, byKind, measureSmall } from "../../../eval/small/evaluate.ts";
import { smallStores } from "../../../eval/small/stores.ts";
import { directTarget } from "../../../eval/targets.ts";

test("aliases among filler, typing errors, several at once, and nothing where nothing is asked", async () => {
  const target = directTarget();
  const outcomes = await askStores(target, smallStores.development);
  await target.close();
  const { precision, recall } = measureSmall(outcomes);
  expect([precision, recall].every((value) => value >= 0.9)).toBe(true);
  const kinds = byKind(outcomes);
  expect(kinds.get("nothing")!.exact).toBeGreaterThanOrEqual(0.9);
  expect(kinds.get("filler")!.recall).toBeGreaterThanOrEqual(0.9);
  expect(kinds.get("typo")!.recall).toBeGreaterThanOrEqual(0.8);
  const asked = Object.values(smallStores).flatMap((stores) => stores.flatMap(({ cases }) => cases));
  expect(asked.length).toBeGreaterThanOrEqual(150);
  expect(new Set(asked.map(({ query, filter }) => query + JSON.stringify(filter))).size).toBeGreaterThan(
    asked.length - 15,
  );
});
