/**
 * The manifest as its writer sees it: a chain that one writer at a time makes longer, whatever becomes of the answers.
 */
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { ManifestWriter } from "../../../../src/engine/history/manifest-writer.ts";
import { decodeManifest, encodeManifest } from "../../../../src/format/history/manifest.ts";
import { manifestKey } from "../../../../src/format/keys/object-keys.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";
import {
  uuid,
  key,
  world,
  readWriter,
  readStored,
  describeOutcome,
  covering,
  watchChain,
  isChain,
} from "../../../support/manifest-chain.ts";

describe("the chain", () => {
  test("each manifest names the one before, seq grows by one, the nonce is new", async () => {
    const store = new ScriptedStore();
    const chain = watchChain(store);
    const manifest = await readWriter(store);
    expect(manifest.exists).toBe(false);
    await manifest.claim(0, true);
    for (let txid = 1; txid <= 5; txid++) await manifest.update(covering(txid));
    expect(chain).toHaveLength(6);
    expect(isChain(chain)).toBe(true);
    expect(encodeManifest((await readWriter(store)).now)).toEqual(store.read(key)!.bytes);
  });

  test("a change that gives nothing costs no put; changes made at once come one after the other", async () => {
    const store = new ScriptedStore();
    const chain = watchChain(store);
    const manifest = await readWriter(store);
    await manifest.claim(0, true);
    await Promise.all([3, 1, 2, 5, 4].map((txid) => manifest.update(covering(txid))));
    expect(chain.map((bytes) => decodeManifest(bytes).txid)).toEqual([0, 3, 5]);
    expect(isChain(chain)).toBe(true);
  });

  test("a manifest under another's name is corrupt", async () => {
    const store = new ScriptedStore();
    await (await readWriter(store)).claim(0, true);
    await store.calm.put(manifestKey(uuid, "01JABCDEFGHJKMNPQRSTVWXYZ0"), store.read(key)!.bytes, { kind: "absent" });
    expect(
      await describeOutcome(
        ManifestWriter.read({ store, world, nodeId: "a", uuid, branchId: "01JABCDEFGHJKMNPQRSTVWXYZ0" }),
      ),
    ).toBe("corrupt");
  });
});

describe("a claim", () => {
  test("without loss goes on at the next txid; what was reserved and never given is not lost", async () => {
    const store = new ScriptedStore();
    const first = await readWriter(store);
    expect(await first.claim(0, true)).toMatchObject({ epoch: 1, firstTxid: 1, lastTxid: 0 });
    await first.update(covering(7));
    expect(await (await readWriter(store, "b")).claim(7, true)).toMatchObject({ epoch: 2, firstTxid: 8 });
    expect(readStored(store)).toMatchObject({ node: "b", lost: [], reservedTo: 7 + limits.txidReserve });
  });

  test("by a writer that may have missed some goes above all reserved and records the gap as lost", async () => {
    const store = new ScriptedStore();
    const first = await readWriter(store);
    await first.claim(0, true);
    await first.update(covering(7));
    const writerEpoch = await (await readWriter(store, "b")).claim(7, false);
    expect(writerEpoch.firstTxid).toBe(limits.txidReserve + 1);
    expect(readStored(store)).toMatchObject({
      lost: [{ firstTxid: 8, lastTxid: limits.txidReserve }],
      reservedTo: 2 * limits.txidReserve,
    });
  });

  test("by the writer that holds it already changes nothing; several at once are one", async () => {
    const store = new ScriptedStore();
    const chain = watchChain(store);
    const manifest = await readWriter(store);
    const [one, two] = await Promise.all([manifest.claim(0, true), manifest.claim(0, true)]);
    expect(one).toBe(two);
    expect(await manifest.claim(0, true)).toBe(one);
    expect(chain).toHaveLength(1);
  });

  test("keeps bounded lists of writer epochs and of lost ranges, however many claims there were", async () => {
    const store = new ScriptedStore();
    for (let n = 0; n < limits.manifestLostMax + 20; n++)
      await (await readWriter(store, `n${n}`)).claim(n === 0 ? 0 : readStored(store).txid, n === 0);
    const { writerEpochs, lost, epoch } = readStored(store);
    expect(epoch).toBe(limits.manifestLostMax + 20);
    expect(writerEpochs).toHaveLength(limits.manifestWriterEpochsMax);
    expect(lost.length).toBeLessThanOrEqual(limits.manifestLostMax);
    // Nothing that was lost is forgotten.
    expect(lost[0]!.firstTxid).toBe(1);
    expect(Math.max(...lost.map(({ lastTxid }) => lastTxid))).toBe(writerEpochs.at(-1)!.firstTxid - 1);
  });

  test("F53: of two at once one wins, the other is fenced for good", async () => {
    const store = new ScriptedStore();
    const [a, b] = [await readWriter(store, "a"), await readWriter(store, "b")];
    const outcomes = await Promise.all([describeOutcome(a.claim(0, true)), describeOutcome(b.claim(0, true))]);
    expect(outcomes.toSorted()).toEqual(["done", "fenced"]);
    const loser = outcomes[0] === "fenced" ? a : b;
    expect(loser.fenced).toBe(true);
    expect(loser.writerEpoch).toBeUndefined();
    const requests = store.count("put");
    expect(await describeOutcome(loser.claim(0, true))).toBe("fenced");
    expect(await describeOutcome(loser.update(() => ({ txid: 1 })))).toBe("fenced");
    expect(store.count("put")).toBe(requests);
  });

  test("fences the writer before: its next change fails, and every later one", async () => {
    const store = new ScriptedStore();
    const chain = watchChain(store);
    const a = await readWriter(store, "a");
    await a.claim(0, true);
    await a.update(covering(1));
    const b = await readWriter(store, "b");
    await b.claim(1, false);
    expect(await describeOutcome(a.update(covering(2)))).toBe("fenced");
    expect(await describeOutcome(a.update(covering(3)))).toBe("fenced");
    await b.update(covering(b.writerEpoch!.firstTxid));
    expect(readStored(store).node).toBe("b");
    expect(isChain(chain)).toBe(true);
  });

  test("F67: a manifest that was deleted fences its writer, which does not bring it back", async () => {
    const store = new ScriptedStore();
    const manifest = await readWriter(store);
    await manifest.claim(0, true);
    await store.delete(key);
    expect(await describeOutcome(manifest.update(covering(1)))).toBe("fenced");
    expect(store.read(key)).toBeUndefined();
  });

  test("F40: a manifest that was put back to an older version fences its writer", async () => {
    const store = new ScriptedStore();
    const manifest = await readWriter(store);
    await manifest.claim(0, true);
    await manifest.update(covering(1));
    const older = store.read(key)!.bytes;
    await manifest.update(covering(2));
    store.spoil(key, () => older);
    expect(await describeOutcome(manifest.update(covering(3)))).toBe("fenced");
    expect(readStored(store).txid).toBe(1);
  });

  test("F39: a manifest that was damaged and put back during a refused change is gone on from", async () => {
    const store = new ScriptedStore();
    const chain = watchChain(store);
    const manifest = await readWriter(store);
    await manifest.claim(0, true);
    const whole = store.read(key)!.bytes.slice();
    store.spoil(key, (bytes) => bytes.toReversed());
    let isPutBack = false;
    store.decideFate = (verb) => {
      if (verb === "get" && !isPutBack) {
        isPutBack = true;
        store.spoil(key, () => whole);
      }
      return "fine";
    };
    expect(await describeOutcome(manifest.update(covering(1)))).toBe("done");
    expect(isPutBack).toBe(true);
    expect(readStored(store).txid).toBe(1);
    expect(manifest.fenced).toBe(false);
    expect(isChain(chain)).toBe(true);
  });
});
