/** Numbers of deletions: always greater than before, whatever the clock does and whoever races. */
import { expect, test } from "vitest";
import { DeletionCounts } from "../../../../src/control/databases/deletion-counts.ts";
import { deletionCountKey } from "../../../../src/format/keys/object-keys.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";
import { setWorld } from "../../../support/set-world.ts";

test("each deletion has a greater number than the one before and than the time, by namespace", async () => {
  const clock = setWorld(1_700_000_000_000);
  const store = new ScriptedStore(() => clock.now);
  const [here, elsewhere] = [new DeletionCounts(store, clock.world), new DeletionCounts(store, clock.world)];
  expect(await here.of("acme")).toBe(0);
  const first = await here.next("acme");
  expect(first).toBe(clock.now);
  // Within one millisecond, and by another node.
  expect(await elsewhere.next("acme")).toBe(first + 1);
  expect(await here.of("acme")).toBe(first + 1);
  expect(await here.of("other")).toBe(0);
  clock.now -= 3_600_000;
  expect(await here.next("acme")).toBe(first + 2);
  // A counter that is lost goes on above every number that it has told, once the clock is right.
  clock.now += 3_600_010;
  await store.delete(deletionCountKey("acme"));
  expect(await here.next("acme")).toBeGreaterThan(first + 2);
});

test("deletions that race have numbers that no token of before can have", async () => {
  const clock = setWorld(1_700_000_000_000);
  const counts = new DeletionCounts(new ScriptedStore(() => clock.now), clock.world);
  const before = await counts.next("acme");
  const raced = await Promise.all(Array.from({ length: 8 }, () => counts.next("acme")));
  expect(Math.min(...raced)).toBeGreaterThan(before);
  expect(await counts.of("acme")).toBe(Math.max(...raced));
});
