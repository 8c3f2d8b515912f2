/** One branch's manifests in a scripted store, and the chain that they form. */
import { StoreError } from "../../src/base/faults/errors.ts";
import { realWorld } from "../../src/base/world.ts";
import { ManifestWriter, Fenced } from "../../src/engine/history/manifest-writer.ts";
import { decodeManifest, computeSha256, type Manifest } from "../../src/format/history/manifest.ts";
import { manifestKey } from "../../src/format/keys/object-keys.ts";
import { uuidOf } from "./inline-engine.ts";
import type { ScriptedStore } from "./scripted-store.ts";

export const uuid = uuidOf(1);
export const key = manifestKey(uuid, "main");
export const world = realWorld();

export const readWriter = (store: ScriptedStore, nodeId = "a"): Promise<ManifestWriter> =>
  ManifestWriter.read({ store, world, nodeId, uuid, branchId: "main" });
export const readStored = (store: ScriptedStore): Manifest => decodeManifest(store.read(key)!.bytes);
export const describeOutcome = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "done",
    (error: unknown) => (error instanceof Fenced ? "fenced" : error instanceof StoreError ? error.kind : String(error)),
  );

/** A change that covers up to the txid. */
export const covering = (txid: number) => (manifest: Manifest) =>
  manifest.txid >= txid
    ? undefined
    : {
        txid,
        writerEpochs: manifest.writerEpochs.map((writerEpoch, at) =>
          at === manifest.writerEpochs.length - 1 ? { ...writerEpoch, lastTxid: txid } : writerEpoch,
        ),
      };

/** Every version of the manifest that ever stood in the store, in order. */
export function watchChain(store: ScriptedStore): Uint8Array[] {
  const chain: Uint8Array[] = [];
  store.watch = (changed, _, after) => {
    if (changed === key && after) chain.push(after.slice());
  };
  return chain;
}

export function isChain(versions: readonly Uint8Array[]): boolean {
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
