/**
 * A store that lets each key be written once a second, as some do: durable writes wait for it, and nobody is refused.
 */
import { expect, test } from "vitest";
import { manifestKey } from "../../../../src/format/keys/object-keys.ts";
import { TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";

test(
  "F45: at one manifest a second, twenty durable writes a second are each answered within some manifests",
  { timeout: 120_000 },
  async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, { idleCloseMs: 1e12 });
    let lastManifestMs = -Infinity;
    let refused = 0;
    time.store.decideFate = (verb, key) => {
      if (verb !== "put" || key !== manifestKey(node.uuid, "main")) return "fine";
      if (time.scheduler.nowMs - lastManifestMs < 1_000) {
        refused++;
        return "refused";
      }
      lastManifestMs = time.scheduler.nowMs;
      return "fine";
    };
    const took: number[] = [];
    const writes: Promise<void>[] = [];
    for (let n = 0; n < 600; n++) {
      const begunMs = time.scheduler.nowMs;
      writes.push(
        node
          .putting(`k${String(n).padStart(3, "0")}`, "main", { durable: true })
          .then(() => void took.push(time.scheduler.nowMs - begunMs)),
      );
      await time.pass(50);
    }
    await time.of(Promise.all(writes));
    expect(took).toHaveLength(600);
    expect(refused, "the store has refused manifests, or this shows nothing").toBeGreaterThan(10);
    expect(took.toSorted((a, b) => a - b)[300]).toBeLessThan(3_000);
    // A refusal is tried again after a pause that grows with every further one, and anew from the shortest as soon as
    // any manifest has landed, the compactor's too; a write that comes as one is on its way waits for the next as well.
    expect(Math.max(...took)).toBeLessThan(6_000);
    expect(await node.keys()).toHaveLength(600);
  },
);
