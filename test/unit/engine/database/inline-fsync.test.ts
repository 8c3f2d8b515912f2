/** Which thread makes an fsync. */
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { realWorld } from "../../../../src/base/world.ts";
import { inlineFsyncDisk } from "../../../../src/engine/database/inline-fsync.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

/** Whether the fsync was over before anything else could run: made on this thread. */
async function onThread(disk: ReturnType<typeof inlineFsyncDisk>, descriptor: number): Promise<boolean> {
  const syncing = disk.fdatasync(descriptor, "");
  await syncing;
  return syncing === undefined;
}

test("a lone write is synced on the thread, except the first, a slow one's next, and beside other work", async () => {
  let nowMs = 0;
  let stepMs = 0.1;
  let alone = true;
  // Each look at the clock moves it on, so every fsync seems to take `stepMs`.
  const world = { ...realWorld(), monotonicMs: () => (nowMs += stepMs) };
  const disk = inlineFsyncDisk(world, () => alone);
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

test("a failure on the thread is the caller's to await", async () => {
  const disk = inlineFsyncDisk({ ...realWorld(), monotonicMs: () => 0 }, () => true);
  const path = join(temporaryDirectory(), "log");
  const descriptor = openSync(path, "w");
  await disk.fdatasync(descriptor, path);
  closeSync(descriptor);
  const failing = disk.fdatasync(descriptor, path);
  expect(failing).toBeInstanceOf(Promise);
  await expect(failing).rejects.toMatchObject({ code: "EBADF" });
});
