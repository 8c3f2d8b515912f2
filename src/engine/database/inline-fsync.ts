/**
 * The disk of an engine thread: a write that is alone on the thread is synced on the thread itself.
 *
 * Why: handing an fsync to libuv's pool costs two wake-ups of sleeping threads, about as much as the fsync of a fast
 * disk itself, and while nothing else is under way the thread would only wait for it. As soon as there is other work,
 * or the last fsync was slow, the pool does it and the thread goes on.
 */
import { fdatasyncSync } from "node:fs";
import type { World } from "../../base/world.ts";
import { realDisk, type Disk } from "../../base/disk.ts";

/** A lone write is synced on its engine thread while fsyncs are faster than this; slower ones go to the pool. */
const loneSyncMs = 1;

/** `alone` says whether the engine has nothing else to do than the write that is being synced. */
export function inlineFsyncDisk(world: World, alone: () => boolean): Disk {
  let lastMs = Infinity;
  return {
    ...realDisk,
    fdatasync(descriptor, path) {
      const startedMs = world.monotonicMs();
      const note = (): void => void (lastMs = world.monotonicMs() - startedMs);
      if (!alone() || lastMs >= loneSyncMs) return realDisk.fdatasync(descriptor, path)?.then(note);
      try {
        fdatasyncSync(descriptor);
        note();
        return undefined;
      } catch (error) {
        return Promise.reject(error as Error);
      }
    },
  };
}
