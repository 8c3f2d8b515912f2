/** Durable writes that nobody can cover for now: what they keep from others. */
import { expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { MemoryStore } from "../../../../src/store/memory-store.ts";
import type { PutCondition, PutOutcome } from "../../../../src/store/port/object-store.ts";
import { openInlineEngine, uuidOf } from "../../../support/inline-engine.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

class FailingStore extends MemoryStore {
  failing = false;
  override async put(key: string, bytes: Uint8Array, condition: PutCondition): Promise<PutOutcome> {
    if (this.failing) throw new StoreError("unavailable", "nobody is there");
    return super.put(key, bytes, condition);
  }
}

test(
  "F33: durable writes that wait for object storage keep nobody from reading, and are bounded " + "themselves",
  async () => {
    const store = new FailingStore(realWorld());
    const { client, soon } = openInlineEngine(temporaryDirectory(), { store });
    const target = { uuid: uuidOf(1), branch: "main" };
    const put = (key: number) =>
      client.write(
        target,
        "kv.put",
        { ns: "n", key: `k${key % 50}`, value: Buffer.from(String(key)) },
        { ...soon(), durable: true },
      );
    await put(0);
    store.failing = true;
    const waiting: Promise<unknown>[] = [];
    const outcomes = { shed: 0, covered: 0 };
    for (let key = 1; key <= limits.parkedAnswersMax + 300; key++) {
      waiting.push(
        put(key).then(
          () => outcomes.covered++,
          (error: { code: string }) => {
            expect(error.code).toBe("overloaded");
            outcomes.shed++;
          },
        ),
      );
      // Behind this one the queue is empty again: what is shed below is not shed for its sake.
      if (key % 50 === 0)
        await client.write(target, "kv.put", { ns: "n", key: "standard", value: Buffer.from(String(key)) }, soon());
    }
    expect((await client.read(target, "kv.get", { ns: "n", key: "k1" }, soon())).txid).toBeGreaterThan(1);
    store.failing = false;
    await Promise.all(waiting);
    expect(outcomes.covered).toBeGreaterThanOrEqual(limits.parkedAnswersMax);
    expect(outcomes.shed).toBeGreaterThan(0);
    await client.close();
  },
);
