/** Which thread makes an fsync. */
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { realWorld } from "../../../src/base/world.ts";
import { loneSyncDisk } from "../../../src/engine/lone-sync.ts";
import { temporaryDirectory } from "../../support/temporary.ts";

/** Whether the fsync was over before anything else could run: made on this thread. */
async function onThread(disk: ReturnType<typeof loneSyncDisk>, descriptor: number): Promise<boolean> {
  let over = false;
  const syncing = disk.fdatasync(descriptor, "").then(() => (over = true));
  // Microtasks only: the pool's answer needs a turn of the loop.
  for (let step = 0; step < 10; step++) await Promise.resolve();
  const early = over;
  await syncing;
  return early;
}

test("a lone write is synced on the thread, except the first, a slow one's next, and beside other work", async () => {
  let nowMs = 0;
  let stepMs = 0.1;
  let alone = true;
  // Each look at the clock moves it on, so every fsync seems to take `stepMs`.
  const world = { ...realWorld(), monotonicMs: () => (nowMs += stepMs) };
  const disk = loneSyncDisk(world, () => alone);
  const descriptor = openSync(join(temporaryDirectory(), "log"), "w");
  onTestFinished(() => closeSync(descriptor));
  expect(await onThread(disk, descriptor)).toBe(false);
  expect(await onThread(disk, descriptor)).toBe(true);
  alone = false;
  expect(await onThread(disk, descriptor)).toBe(false);
  alone = true;
  stepMs = 50;
  expect(await onThread(disk, descriptor)).toBe(true);
  stepMs = 0.1;
  expect(await onThread(disk, descriptor)).toBe(false);
  expect(await onThread(disk, descriptor)).toBe(true);
});
