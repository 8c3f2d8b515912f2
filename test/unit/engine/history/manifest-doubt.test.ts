/** Manifests and uploads whose answers never came: the chain stays one, and nothing acknowledged is taken back. */
import { describe, expect, test } from "vitest";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import type { ManifestWriter } from "../../../../src/engine/history/manifest-writer.ts";
import { Fenced } from "../../../../src/engine/history/manifest-writer.ts";
import { withUploads } from "../../../../src/engine/history/uploads.ts";
import { decodeManifest, encodeManifest } from "../../../../src/format/history/manifest.ts";
import { manifestKey, parsePoolId } from "../../../../src/format/keys/object-keys.ts";
import { seeded } from "../../../support/random.ts";
import { ScriptedStore, type Fate } from "../../../support/scripted-store.ts";
import {
  uuid,
  readWriter,
  readStored,
  describeOutcome,
  covering,
  watchChain,
  isChain,
} from "../../../support/manifest-chain.ts";

describe("doubt", () => {
  /** The manifest after a claim, and a store of which the next put of a manifest has the fate. */
  async function claimed(fate: Fate): Promise<{ store: ScriptedStore; manifest: ManifestWriter; chain: Uint8Array[] }> {
    const store = new ScriptedStore();
    const chain = watchChain(store);
    const manifest = await readWriter(store);
    await manifest.claim(0, true);
    let left = 1;
    store.decideFate = (verb) => (verb === "put" && left-- > 0 ? fate : "fine");
    return { store, manifest, chain };
  }

  test("F30: an answer that was lost is settled by reading back, within the same change", async () => {
    const { store, manifest, chain } = await claimed("answerLost");
    expect(await describeOutcome(manifest.update(covering(1)))).toBe("done");
    expect(readStored(store).txid).toBe(1);
    expect(chain).toHaveLength(2);
  });

  test("F30: a body in doubt is offered again, byte by byte, before another one is made", async () => {
    const { store, manifest, chain } = await claimed("requestLost");
    expect(await describeOutcome(manifest.update(covering(1)))).toBe("unknown_outcome");
    expect(manifest.now.txid).toBe(0);
    await manifest.update(covering(2));
    expect(chain.map((bytes) => decodeManifest(bytes).txid)).toEqual([0, 1, 2]);
    expect(isChain(chain)).toBe(true);
    expect(readStored(store).txid).toBe(2);
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
    expect(readStored(store).txid).toBe(3);
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
      const other = await readWriter(store, "b");
      expect(other.now.txid).toBe(landsFirst ? 1 : 0);
      await other.claim(other.now.txid, false);
      late.resolve();
      await new Promise((resolve) => setImmediate(resolve));
      expect(await describeOutcome(manifest.update(covering(2)))).toBe("fenced");
      expect(readStored(store)).toMatchObject({ node: "b", txid: landsFirst ? 1 : 0 });
      expect(isChain(chain)).toBe(true);
    }
  });

  test("a claim in doubt is settled before it is made again, and what is told is what stands there", async () => {
    const store = new ScriptedStore();
    const chain = watchChain(store);
    const manifest = await readWriter(store);
    let left = 1;
    store.decideFate = (verb) => (verb === "put" && left-- > 0 ? "requestLost" : "fine");
    expect(await describeOutcome(manifest.claim(0, true))).toBe("unknown_outcome");
    const writerEpoch = await manifest.claim(0, true);
    expect(Buffer.compare(readStored(store).writerEpochs.at(-1)!.id, writerEpoch.id)).toBe(0);
    expect(isChain(chain)).toBe(true);
    expect(chain.length).toBeLessThanOrEqual(2);
    expect(readStored(store).lost).toEqual([]);
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
            const fresh = await readWriter(store, node);
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
    const writer = await readWriter(store);
    await writer.claim(0, true);
    await writer.update(covering(1));
    // The next process of the same node, which has work to do before anything is written.
    const manifest = await readWriter(store);
    await withUploads(manifest, async (uploads) => {
      const id = uploads.newId();
      expect(uploads.isOver).toBe(false);
      await uploads.update(() => ({ committedAtMs: 1 }));
      await manifest.claim(1, true);
      expect(parsePoolId(id)!.epoch).toBeLessThan(readStored(store).epoch);
      expect(uploads.isOver).toBe(true);
      expect(await describeOutcome(uploads.update(() => ({ committedAtMs: 2 })))).toBe("unavailable");
    });
    expect(readStored(store).committedAtMs).toBe(1);
    await withUploads(manifest, async (uploads) => {
      expect(parsePoolId(uploads.newId())!.epoch).toBe(readStored(store).epoch);
      await uploads.update(() => ({ committedAtMs: 3 }));
    });
    expect(readStored(store).committedAtMs).toBe(3);
  });

  test("F65: holds the mark of what is settled below it, until it is published or given up", async () => {
    const store = new ScriptedStore();
    const manifest = await readWriter(store);
    await manifest.claim(0, true);
    const id = manifest.beginUpload();
    await manifest.update(covering(1));
    expect(readStored(store).garbageBelowUlid <= id.slice(-26)).toBe(true);
    await manifest.update(covering(2));
    expect(readStored(store).garbageBelowUlid <= id.slice(-26)).toBe(true);
    manifest.endUpload(id);
    await manifest.update(covering(3));
    expect(readStored(store).garbageBelowUlid > id.slice(-26)).toBe(true);
  });

  test("F65: is named above what is settled, also after a restart under a clock that went back", async () => {
    const store = new ScriptedStore();
    const manifest = await readWriter(store);
    await manifest.claim(0, true);
    await manifest.update(() => ({ txid: 1, garbageBelowUlid: "7ZZZZZZZZZ0000000000000000" }));
    const { garbageBelowUlid } = readStored(store);
    const again = await readWriter(store);
    const ids = [again.beginUpload(), again.beginUpload()].map((id) => id.slice(-26));
    expect(ids[0]! > garbageBelowUlid && ids[1]! > ids[0]!).toBe(true);
  });

  test("F42: what a clock ahead named is settled when it is over; what is being uploaded is not", async () => {
    const store = new ScriptedStore();
    const manifest = await readWriter(store);
    await manifest.claim(0, true);
    await manifest.update(() => ({ txid: 1 }));
    const future = "7ZZZZZZZZZ0000000000000000";
    store.spoil(manifestKey(uuid, "main"), (bytes) =>
      encodeManifest({ ...decodeManifest(bytes), garbageBelowUlid: future }),
    );
    const again = await readWriter(store);
    const [garbage, fresh] = [again.beginUpload(), again.beginUpload()];
    again.endUpload(garbage);
    await again.update(covering(2));
    expect(readStored(store).garbageBelowUlid > garbage.slice(-26)).toBe(true);
    expect(readStored(store).garbageBelowUlid <= fresh.slice(-26)).toBe(true);
    again.endUpload(fresh);
    await again.update(covering(3));
    expect(readStored(store).garbageBelowUlid > fresh.slice(-26)).toBe(true);
    // A claim's own names are its own matter.
    const next = await readWriter(store);
    await next.claim(3, true);
    expect(readStored(store).garbageBelowUlid < future).toBe(true);
  });
});
