/** An engine thread's own folder for files that are of no use beyond it. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { silentLog } from "../../../src/base/log.ts";
import { realWorld } from "../../../src/base/world.ts";
import { EngineClient } from "../../../src/engine/threads/client.ts";
import { engineLane } from "../../../src/engine/threads/thread-spawner.ts";
import { inlineOptions, uuidOf } from "../../support/inline-engine.ts";
import { temporaryDirectory } from "../../support/temporary.ts";

test("a thread removes what one before it was making when it was lost, and leaves nothing itself", async () => {
  const options = inlineOptions(temporaryDirectory(), { lane: 1, lanes: 2 });
  const own = join(options.scratchDirectory, "lane-1");
  const others = join(options.scratchDirectory, "lane-0");
  for (const path of [options.databasesDirectory, own, others]) mkdirSync(path, { recursive: true });
  for (const path of [own, others]) writeFileSync(join(path, "state.db"), "pages of a state that may be erased by now");
  const world = realWorld();
  const client = new EngineClient(1, () => engineLane(options), undefined, world, silentLog);
  await client.write(
    { uuid: uuidOf(1), branch: "main" },
    "kv.put",
    { ns: "n", key: "k", value: Buffer.from("v") },
    { deadlineMs: world.monotonicMs() + 30_000 },
  );
  expect(existsSync(join(own, "state.db"))).toBe(false);
  expect(existsSync(own)).toBe(true);
  await client.close();
  expect([existsSync(own), existsSync(join(others, "state.db"))]).toEqual([false, true]);
});
