/** What proves that a node still makes progress. */
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Progress } from "../../../../src/server/observability/progress.ts";
import { openInlineEngine } from "../../../support/inline-engine.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

test("F57 progress is proven by a byte on disk and an answer of the engine, and not without the latter", async () => {
  const directory = temporaryDirectory();
  const { client, world } = openInlineEngine(join(directory, "a"));
  const progress = await Progress.open(directory, client, world);
  onTestFinished(() => progress.close());
  for (let times = 0; times < 3; times++) await progress.prove();
  await client.close();
  await expect(progress.prove()).rejects.toThrow("shutting down");
});
