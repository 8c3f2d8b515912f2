/** Small stores with the optional package's vectors: they add what words miss, and do not fill answers up. */
import { describe, expect, test } from "vitest";
import { findTraits } from "../../../src/ai/embedding-models.ts";
import { askStores, measureSmall } from "../../eval/small/evaluate.ts";
import { smallStores } from "../../eval/small/stores.ts";
import { directTarget } from "../../eval/targets.ts";
import { localModelMissing, openedModel } from "../../support/local-model.ts";

describe.skipIf(localModelMissing)(`small stores with the local model${localModelMissing ?? ""}`, () => {
  test.each(["development", "held-out"] as const)("%s", async (half) => {
    const model = await openedModel();
    const name = "all-MiniLM-L6-v2";
    const maker = { name, floor: findTraits(name).floor };
    const target = directTarget({ maker, embed: (text) => model.embed(text) });
    const outcomes = await askStores(target, smallStores[half]);
    await target.close();
    const { precision, recall } = measureSmall(outcomes);
    expect(precision).toBeGreaterThanOrEqual(0.85);
    expect(recall).toBeGreaterThanOrEqual(0.9);
  });
});
