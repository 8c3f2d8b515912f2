/**
 * The manifest as its writer sees it: a chain that one writer at a time makes longer, whatever becomes of the answers.
 */
import { describe, expect, test } from "vitest";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { limits } from "../../../../src/base/limits.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { ManifestWriter, Fenced } from "../../../../src/engine/history/manifest-writer.ts";
import { withUploads } from "../../../../src/engine/history/uploads.ts";
import {
  decodeManifest,
  encodeManifest,
  computeSha256,
  type Manifest,
} from "../../../../src/format/history/manifest.ts";
import { manifestKey, parsePoolId } from "../../../../src/format/keys/object-keys.ts";
import { seeded } from "../../../support/random.ts";
import { uuidOf } from "../../../support/inline-engine.ts";
import { ScriptedStore, type Fate } from "../../../support/scripted-store.ts";

const uuid = uuidOf(1);
const key = manifestKey(uuid, "main");
const world = realWorld();

const read = (store: ScriptedStore, nodeId = "a"): Promise<ManifestWriter> =>
  ManifestWriter.read({ store, world, nodeId, uuid, branchId: "main" });
const stored = (store: ScriptedStore): Manifest => decodeManifest(store.read(key)!.bytes);
const describeOutcome = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "done",
    (error: unknown) => (error instanceof Fenced ? "fenced" : error instanceof StoreError ? error.kind : String(error)),
  );

/** A change that covers up to the txid. */
const covering = (txid: number) => (manifest: Manifest) =>
  manifest.txid >= txid
    ? undefined
    : {
        txid,
        writerEpochs: manifest.writerEpochs.map((writerEpoch, at) =>
          at === manifest.writerEpochs.length - 1 ? { ...writerEpoch, lastTxid: txid } : writerEpoch,
        ),
      };

/** Every version of the manifest that ever stood in the store, in order. */
function watchChain(store: ScriptedStore): Uint8Array[] {
  const chain: Uint8Array[] = [];
  store.watch = (changed, _, after) => {
    if (changed === key && after) chain.push(after.slice());
  };
  return chain;
}

function isChain(versions: readonly Uint8Array[]): boolean {
  return versions.every((bytes, at) => {
    const manifest = decodeManifest(bytes);
    const before = versions[at - 1];
    if (before === undefined) return manifest.seq === 1 && manifest.prevHash.every((byte) => byte === 0);
    const was = decodeManifest(before);
    return (
      manifest.seq === was.seq + 1 &&
      manifest.epoch >= was.epoch &&
      manifest.txid >= was.txid &&
      Buffer.compare(manifest.prevHash, computeSha256(before)) === 0 &&
      Buffer.compare(manifest.nonce, was.nonce) !== 0
    );
  });
}

describe("the chain", () => {
  test("each manifest names the one before, seq grows by one, the nonce is new", async () => {
    const store = new ScriptedStore();
    const chain = watchChain(store);
    const manifest = await read(store);
    expect(manifest.exists).toBe(false);
    await manifest.claim(0, true);
    for (let txid = 1; txid <= 5; txid++) await manifest.update(covering(txid));
    expect(chain).toHaveLength(6);
    expect(isChain(chain)).toBe(true);
    expect(encodeManifest((await read(store)).now)).toEqual(store.read(key)!.bytes);
  });

  test("a change that gives nothing costs no put; changes made at once come one after the other", async () => {
    const store = new ScriptedStore();
    const chain = watchChain(store);
    const manifest = await read(store);
    await manifest.claim(0, true);
    await Promise.all([3, 1, 2, 5, 4].map((txid) => manifest.update(covering(txid))));
    expect(chain.map((bytes) => decodeManifest(bytes).txid)).toEqual([0, 3, 5]);
    expect(isChain(chain)).toBe(true);
  });

  test("a manifest under another's name is corrupt", async () => {
    const store = new ScriptedStore();
    await (await read(store)).claim(0, true);
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
    const first = await read(store);
    expect(await first.claim(0, true)).toMatchObject({ epoch: 1, firstTxid: 1, lastTxid: 0 });
    await first.update(covering(7));
    expect(await (await read(store, "b")).claim(7, true)).toMatchObject({ epoch: 2, firstTxid: 8 });
    expect(stored(store)).toMatchObject({ node: "b", lost: [], reservedTo: 7 + limits.txidReserve });
  });

  test("by a writer that may have missed some goes above all reserved and records the gap as lost", async () => {
    const store = new ScriptedStore();
    const first = await read(store);
    await first.claim(0, true);
    await first.update(covering(7));
    const writerEpoch = await (await read(store, "b")).claim(7, false);
    expect(writerEpoch.firstTxid).toBe(limits.txidReserve + 1);
    expect(stored(store)).toMatchObject({
      lost: [{ firstTxid: 8, lastTxid: limits.txidReserve }],
      reservedTo: 2 * limits.txidReserve,
    });
  });

  test("by the writer that holds it already changes nothing; several at once are one", async () => {
    const store = new ScriptedStore();
    const chain = watchChain(store);
    const manifest = await read(store);
    const [one, two] = await Promise.all([manifest.claim(0, true), manifest.claim(0, true)]);
    expect(one).toBe(two);
    expect(await manifest.claim(0, true)).toBe(one);
    expect(chain).toHaveLength(1);
  });

  test("keeps bounded lists of writer epochs and of lost ranges, however many claims there were", async () => {
    const store = new ScriptedStore();
    for (let n = 0; n < limits.manifestLostMax + 20; n++)
      await (await read(store, `n${n}`)).claim(n === 0 ? 0 : stored(store).txid, n === 0);
    const { writerEpochs, lost, epoch } = stored(store);
    expect(epoch).toBe(limits.manifestLostMax + 20);
    expect(writerEpochs).toHaveLength(limits.manifestWriterEpochsMax);
    expect(lost.length).toBeLessThanOrEqual(limits.manifestLostMax);
    // Nothing that was lost is forgotten.
    expect(lost[0]!.firstTxid).toBe(1);
    expect(Math.max(...lost.map(({ lastTxid }) => lastTxid))).toBe(writerEpochs.at(-1)!.firstTxid - 1);
  });

  test("F53: of two at once one wins, the other is fenced for good", async () => {
    const store = new ScriptedStore();
    const [a, b] = [await read(store, "a"), await read(store, "b")];
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
    const a = await read(store, "a");
    await a.claim(0, true);
    await a.update(covering(1));
    const b = await read(store, "b");
    await b.claim(1, false);
    expect(await describeOutcome(a.update(covering(2)))).toBe("fenced");
    expect(await describeOutcome(a.update(covering(3)))).toBe("fenced");
    await b.update(covering(b.writerEpoch!.firstTxid));
    expect(stored(store).node).toBe("b");
    expect(isChain(chain)).toBe(true);
  });

  test("F67: a manifest that was deleted fences its writer, which does not bring it back", async () => {
    const store = new ScriptedStore();
    const manifest = await read(store);
    await manifest.claim(0, true);
    await store.delete(key);
    expect(await describeOutcome(manifest.update(covering(1)))).toBe("fenced");
    expect(store.read(key)).toBeUndefined();
  });

  test("F40: a manifest that was put back to an older version fences its writer", async () => {
    const store = new ScriptedStore();
    const manifest = await read(store);
    await manifest.claim(0, true);
    await manifest.update(covering(1));
    const older = store.read(key)!.bytes;
    await manifest.update(covering(2));
    store.spoil(key, () => older);
    expect(await describeOutcome(manifest.update(covering(3)))).toBe("fenced");
    expect(stored(store).txid).toBe(1);
  });

  test("F39: a manifest that was damaged and put back during a refused change is gone on from", async () => {
    const store = new ScriptedStore();
    const chain = watchChain(store);
    const manifest = await read(store);
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
    expect(stored(store).txid).toBe(1);
    expect(manifest.fenced).toBe(false);
    expect(isChain(chain)).toBe(true);
  });
});

describe("doubt", () => {
  /** The manifest after a claim, and a store of which the next put of a manifest has the fate. */
  async function claimed(fate: Fate): Promise<{ store: ScriptedStore; manifest: ManifestWriter; chain: Uint8Array[] }> {
    const store = new ScriptedStore();
    const chain = watchChain(store);
    const manifest = await read(store);
    await manifest.claim(0, true);
    let left = 1;
    store.decideFate = (verb) => (verb === "put" && left-- > 0 ? fate : "fine");
    return { store, manifest, chain };
  }

  test("F30: an answer that was lost is settled by reading back, within the same change", async () => {
    const { store, manifest, chain } = await claimed("answerLost");
    expect(await describeOutcome(manifest.update(covering(1)))).toBe("done");
    expect(stored(store).txid).toBe(1);
    expect(chain).toHaveLength(2);
  });

  test("F30: a body in doubt is offered again, byte by byte, before another one is made", async () => {
    const { store, manifest, chain } = await claimed("requestLost");
    expect(await describeOutcome(manifest.update(covering(1)))).toBe("unknown_outcome");
    expect(manifest.now.txid).toBe(0);
    await manifest.update(covering(2));
    expect(chain.map((bytes) => decodeManifest(bytes).txid)).toEqual([0, 1, 2]);
    expect(isChain(chain)).toBe(true);
    expect(stored(store).txid).toBe(2);
  });

  test("F31: a body that lands late, after its retry and a newer one, changes nothing", async () => {
    const late = Promise.withResolvers<void>();
    const { store, manifest, chain } = await claimed({ late: late.promise });
    expect(await describeOutcome(manifest.update(covering(1)))).toBe("unknown_outcome");
    await manifest.update(covering(2));
    late.resolve();
    await new Promise((resolve) => setImmediate(resolve));
    await manifest.update(covering(3));
    expect(chain.map((bytes) => decodeManifest(bytes).txid)).toEqual([0, 1, 2, 3]);
    expect(stored(store).txid).toBe(3);
  });

  test("F31: a body that lands late, before its retry, counts once", async () => {
    const late = Promise.withResolvers<void>();
    const { manifest, chain } = await claimed({ late: late.promise });
    expect(await describeOutcome(manifest.update(covering(1)))).toBe("unknown_outcome");
    late.resolve();
    await new Promise((resolve) => setImmediate(resolve));
    await manifest.update(covering(2));
    expect(chain.map((bytes) => decodeManifest(bytes).txid)).toEqual([0, 1, 2]);
  });

  test("F31: of a body in doubt and another's claim one is true, and both sides see the same", async () => {
    for (const landsFirst of [true, false]) {
      const late = Promise.withResolvers<void>();
      const { store, manifest, chain } = await claimed({ late: late.promise });
      expect(await describeOutcome(manifest.update(covering(1)))).toBe("unknown_outcome");
      if (landsFirst) late.resolve();
      await new Promise((resolve) => setImmediate(resolve));
      const other = await read(store, "b");
      expect(other.now.txid).toBe(landsFirst ? 1 : 0);
      await other.claim(other.now.txid, false);
      late.resolve();
      await new Promise((resolve) => setImmediate(resolve));
      expect(await describeOutcome(manifest.update(covering(2)))).toBe("fenced");
      expect(stored(store)).toMatchObject({ node: "b", txid: landsFirst ? 1 : 0 });
      expect(isChain(chain)).toBe(true);
    }
  });

  test("a claim in doubt is settled before it is made again, and what is told is what stands there", async () => {
    const store = new ScriptedStore();
    const chain = watchChain(store);
    const manifest = await read(store);
    let left = 1;
    store.decideFate = (verb) => (verb === "put" && left-- > 0 ? "requestLost" : "fine");
    expect(await describeOutcome(manifest.claim(0, true))).toBe("unknown_outcome");
    const writerEpoch = await manifest.claim(0, true);
    expect(Buffer.compare(stored(store).writerEpochs.at(-1)!.id, writerEpoch.id)).toBe(0);
    expect(isChain(chain)).toBe(true);
    expect(chain.length).toBeLessThanOrEqual(2);
    expect(stored(store).lost).toEqual([]);
  });

  test("F29-F31, F53: of two nodes that claim at random the manifests form one chain that keeps all", async () => {
    for (let seed = 1; seed <= 60; seed++) {
      const random = seeded(seed);
      const store = new ScriptedStore();
      const chain = watchChain(store);
      const landings: PromiseWithResolvers<void>[] = [];
      const late = (): Fate => {
        const landing = Promise.withResolvers<void>();
        landings.push(landing);
        return { late: landing.promise };
      };
      store.decideFate = (verb) => {
        if (random() < 0.6) return "fine";
        const fates: Fate[] = verb === "put" ? ["answerLost", "requestLost", "refused"] : ["refused"];
        return verb === "put" && random() < 0.4 ? late() : fates[Math.floor(random() * fates.length)]!;
      };
      const acknowledged: { readonly node: string; readonly txid: number }[] = [];
      const writers = new Map<string, ManifestWriter>();
      for (let step = 0; step < 60; step++) {
        const node = random() < 0.5 ? "a" : "b";
        const manifest = writers.get(node);
        try {
          if (!manifest || manifest.fenced) {
            const fresh = await read(store, node);
            await fresh.claim(fresh.now.txid, false);
            writers.set(node, fresh);
          } else {
            const txid = Math.max(manifest.now.txid, manifest.writerEpoch!.firstTxid - 1) + 1;
            await manifest.update(covering(txid));
            acknowledged.push({ node, txid });
          }
        } catch (error) {
          if (!(error instanceof StoreError) && !(error instanceof Fenced)) throw error;
        }
        if (random() < 0.3) landings.splice(Math.floor(random() * landings.length), 1)[0]?.resolve();
        await new Promise((resolve) => setImmediate(resolve));
      }
      expect(isChain(chain), `seed ${seed}`).toBe(true);
      for (const { node, txid } of acknowledged) {
        const at = chain.map((bytes) => decodeManifest(bytes)).filter((manifest) => manifest.txid === txid);
        expect(
          new Set(
            at.map(
              (manifest) =>
                manifest.writerEpochs.findLast(
                  (writerEpoch) => writerEpoch.firstTxid <= txid && txid <= writerEpoch.lastTxid,
                )?.epoch,
            ),
          ).size,
          `seed ${seed}: txid ${txid} of ${node}`,
        ).toBe(1);
      }
    }
  });
});

describe("what is uploaded and not published", () => {
  test("F65: of an older epoch is put again, not published, as collectors take it for garbage", async () => {
    const store = new ScriptedStore();
    const writer = await read(store);
    await writer.claim(0, true);
    await writer.update(covering(1));
    // The next process of the same node, which has work to do before anything is written.
    const manifest = await read(store);
    await withUploads(manifest, async (uploads) => {
      const id = uploads.newId();
      expect(uploads.isOver).toBe(false);
      await uploads.update(() => ({ committedAtMs: 1 }));
      await manifest.claim(1, true);
      expect(parsePoolId(id)!.epoch).toBeLessThan(stored(store).epoch);
      expect(uploads.isOver).toBe(true);
      expect(await describeOutcome(uploads.update(() => ({ committedAtMs: 2 })))).toBe("unavailable");
    });
    expect(stored(store).committedAtMs).toBe(1);
    await withUploads(manifest, async (uploads) => {
      expect(parsePoolId(uploads.newId())!.epoch).toBe(stored(store).epoch);
      await uploads.update(() => ({ committedAtMs: 3 }));
    });
    expect(stored(store).committedAtMs).toBe(3);
  });

  test("F65: holds the mark of what is settled below it, until it is published or given up", async () => {
    const store = new ScriptedStore();
    const manifest = await read(store);
    await manifest.claim(0, true);
    const id = manifest.beginUpload();
    await manifest.update(covering(1));
    expect(stored(store).garbageBelowUlid <= id.slice(-26)).toBe(true);
    await manifest.update(covering(2));
    expect(stored(store).garbageBelowUlid <= id.slice(-26)).toBe(true);
    manifest.endUpload(id);
    await manifest.update(covering(3));
    expect(stored(store).garbageBelowUlid > id.slice(-26)).toBe(true);
  });

  test("F65: is named above what is settled, also after a restart under a clock that went back", async () => {
    const store = new ScriptedStore();
    const manifest = await read(store);
    await manifest.claim(0, true);
    await manifest.update(() => ({ txid: 1, garbageBelowUlid: "7ZZZZZZZZZ0000000000000000" }));
    const { garbageBelowUlid } = stored(store);
    const again = await read(store);
    const ids = [again.beginUpload(), again.beginUpload()].map((id) => id.slice(-26));
    expect(ids[0]! > garbageBelowUlid && ids[1]! > ids[0]!).toBe(true);
  });

  test("F42: what a clock ahead named is settled when it is over; what is being uploaded is not", async () => {
    const store = new ScriptedStore();
    const manifest = await read(store);
    await manifest.claim(0, true);
    await manifest.update(() => ({ txid: 1 }));
    const future = "7ZZZZZZZZZ0000000000000000";
    store.spoil(manifestKey(uuid, "main"), (bytes) =>
      encodeManifest({ ...decodeManifest(bytes), garbageBelowUlid: future }),
    );
    const again = await read(store);
    const [garbage, fresh] = [again.beginUpload(), again.beginUpload()];
    again.endUpload(garbage);
    await again.update(covering(2));
    expect(stored(store).garbageBelowUlid > garbage.slice(-26)).toBe(true);
    expect(stored(store).garbageBelowUlid <= fresh.slice(-26)).toBe(true);
    again.endUpload(fresh);
    await again.update(covering(3));
    expect(stored(store).garbageBelowUlid > fresh.slice(-26)).toBe(true);
    // A claim's own names are its own matter.
    const next = await read(store);
    await next.claim(3, true);
    expect(stored(store).garbageBelowUlid < future).toBe(true);
  });
});
