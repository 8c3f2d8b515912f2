/** Cutting history: what goes, and that everything else is restored exactly as before. */
import { describe, expect, test } from "vitest";
import { realWorld } from "../../../../src/base/world.ts";
import { ManifestWriter } from "../../../../src/engine/history/manifest-writer.ts";
import {
  cleanObjects,
  cutBranch,
  cutTxid,
  firstStateFrom,
  isCut,
  restoringTimelines,
  type Beginnings,
  type CuttingParts,
  type Past,
} from "../../../../src/engine/erasure/history-truncation.ts";
import { readHistory, putHistory } from "../../../../src/engine/history/branch-history.ts";
import { findRestorePlan } from "../../../../src/engine/history/timelines.ts";
import { uploadImages } from "../../../../src/engine/compaction/compaction.ts";
import { fetchObject, joined, putObject } from "../../../../src/engine/segments/pool-objects.ts";
import { materialise } from "../../../../src/engine/segments/restore.ts";
import type { CatalogBranch } from "../../../../src/format/history/catalog.ts";
import { encodeManifest } from "../../../../src/format/history/manifest.ts";
import { manifestKey } from "../../../../src/format/keys/object-keys.ts";
import { readSegmentIndexes } from "../../../../src/format/history/segment.ts";
import { BranchModel } from "../../../support/branch-model.ts";
import { withStore } from "../../../support/model-source.ts";
import { seeded } from "../../../support/random.ts";

/** The model's branch as its writer holds it, in the model's store. */
async function held(model: BranchModel): Promise<{ manifest: ManifestWriter; past: Past }> {
  const { store } = model.source;
  const history = await putHistory(store, model.history, model.newId());
  const key = manifestKey(model.manifest.uuid, model.manifest.branchId);
  const before = await store.get(key);
  await store.put(
    key,
    encodeManifest({ ...model.manifest, history }),
    before ? { kind: "version", version: before.version } : { kind: "absent" },
  );
  const manifest = await ManifestWriter.read({
    store,
    world: realWorld(),
    nodeId: "node",
    uuid: model.manifest.uuid,
    branchId: model.manifest.branchId,
  });
  return { manifest, past: { manifest: manifest.now, history: model.history } };
}

function buildParts(model: BranchModel, source = model.source): CuttingParts & { readonly put: () => number } {
  let put = 0;
  return {
    source,
    world: realWorld(),
    putImages: async (plan, newId) => {
      const path = model.path();
      await materialise(source, plan, path);
      const { refs } = await uploadImages(
        source,
        path,
        { txid: plan.txid, committedAtMs: 1_000 },
        model.manifest.branchId,
        newId,
      );
      return refs;
    },
    check: async (plan) => void (await materialise(source, plan, model.path())),
    bytesPut: (bytes) => void (put += bytes),
    put: () => put,
  };
}

async function readPast(model: BranchModel, manifest: ManifestWriter): Promise<Past> {
  return { manifest: manifest.now, history: await readHistory(model.source.store, manifest.now) };
}

/** What each state that the past can restore is like, by its transaction id. */
async function readStates(model: BranchModel, past: Past): Promise<Map<number, string>> {
  const found = new Map<number, string>();
  for (let txid = 0; txid <= past.manifest.txid; txid++) {
    const plan = findRestorePlan(past.manifest, past.history, txid);
    if (!plan) continue;
    const path = model.path();
    await materialise(model.source, plan, path);
    found.set(txid, model.compare(txid, path).found);
  }
  return found;
}

/**
 * Transaction ids of the groups that the timelines' objects hold and the timelines do not: what a cut must not leave.
 */
async function strays(model: BranchModel, past: Past): Promise<string[]> {
  const found: string[] = [];
  for (const timeline of restoringTimelines(past)) {
    for (const ref of timeline.refs) {
      const { indexes } = await fetchObject(model.source, ref);
      const txids = indexes.flatMap(({ groups }) => groups.map(({ txid }) => txid));
      for (const txid of txids)
        if (txid < timeline.fromTxid || txid > timeline.toTxid)
          found.push(`${txid} in ${timeline.fromTxid}-${timeline.toTxid}`);
    }
  }
  const tail = past.manifest.tail.flatMap(({ bytes }) =>
    readSegmentIndexes(bytes).flatMap(({ groups }) => groups.map(({ txid }) => txid)),
  );
  for (const txid of tail) if (txid <= past.manifest.fromTxid) found.push(`${txid} in the tail`);
  return found;
}

/** A branch after a random life. */
async function lived(seed: number, steps = 40): Promise<BranchModel> {
  const model = new BranchModel(seeded(seed));
  model.commit();
  await model.ship(false);
  for (let step = 0; step < steps; step++) {
    const chance = model.random();
    if (chance < 0.5) model.commit();
    else if (chance < 0.75) await model.ship(model.random() < 0.5);
    else if (chance < 0.82) await model.pack();
    else if (chance < 0.88 && model.baseTxid !== undefined) model.rebase(await model.images(model.baseTxid));
    else if (chance < 0.93) await rewindAnywhere(model);
    else if (chance < 0.95) await model.failOver();
    else if (chance < 0.97) nameAndTrim(model, step);
  }
  await model.ship(model.random() < 0.5);
  return model;
}

/** Leaves of the past what one checkpoint needs: timelines that end in the middle of an object. */
function nameAndTrim(model: BranchModel, step: number): void {
  const txids = [...model.states.keys()].filter((txid) => findRestorePlan(model.manifest, model.history, txid));
  model.checkpoint(`c${step}`, txids[model.below(txids.length)]!);
  model.trim(model.nowMs + 1);
}

async function rewindAnywhere(model: BranchModel): Promise<void> {
  const txids = [...model.states.keys()].filter((txid) => findRestorePlan(model.manifest, model.history, txid));
  await model.rewind(txids[model.below(txids.length)]!);
}

/**
 * Beginnings for a cut at `cut`, some timelines of the past left out and some begun later, as whoever looks into states
 * would decide.
 */
function beginningsAt(model: BranchModel, past: Past, cut: number): Beginnings {
  const timelines = restoringTimelines(past);
  return timelines.map((timeline, index) => {
    const first = firstStateFrom(past.manifest, timeline, cut);
    if (first === undefined || model.random() < 0.7) return first;
    if (index < timelines.length - 1) return undefined;
    return past.manifest.txid;
  });
}

describe("cutTxid", () => {
  const branch = (id: string, parent?: readonly [string, number]): CatalogBranch => ({
    name: id,
    id,
    createdAtMs: 1,
    ttlAtMs: undefined,
    parent: parent && { name: parent[0], id: parent[0], forkTxid: parent[1] },
  });
  const branches = [branch("main"), branch("a", ["main", 10]), branch("b", ["a", 20]), branch("orphan", ["gone", 30])];
  const at = (branchId: string, txid: number): { branch: string; branchId: string; txid: number } => ({
    branch: branchId,
    branchId,
    txid,
  });

  test("is the erasure's own point where it happened, and the fork where that branch came from", () => {
    expect(["main", "a", "b", "orphan"].map((id) => cutTxid(branches, [at("a", 25)], id))).toEqual([10, 25, 0, 0]);
    expect(["main", "a", "b", "orphan"].map((id) => cutTxid(branches, [at("b", 25)], id))).toEqual([10, 20, 25, 0]);
    expect(["main", "a", "b", "orphan"].map((id) => cutTxid(branches, [at("main", 25)], id))).toEqual([25, 0, 0, 0]);
  });

  test("is the largest of several", () => {
    expect(cutTxid(branches, [at("main", 5), at("a", 25)], "main")).toBe(10);
    expect(cutTxid(branches, [at("main", 15), at("a", 25), at("main", 12)], "main")).toBe(15);
  });

  test("takes any branch for the ancestor of one that is gone", () => {
    expect(["main", "a", "b", "orphan"].map((id) => cutTxid(branches, [at("orphan", 40)], id))).toEqual([
      30, 30, 30, 40,
    ]);
    expect(["main", "b"].map((id) => cutTxid(branches, [at("gone", 40)], id))).toEqual([40, 40]);
  });
});

describe("a cut", () => {
  test("keeps every state from the cut on as it was, and no object holds a group of another", async () => {
    let cuts = 0;
    for (let seed = 1; seed <= 40; seed++) {
      const model = await lived(seed);
      const { manifest, past } = await held(model);
      const before = await readStates(model, past);
      const beginnings = beginningsAt(model, past, model.below(past.manifest.txid + 1));
      const clean = new Set(cleanObjects(past, beginnings));
      const due = !isCut(past, beginnings, clean);
      expect(await cutBranch(buildParts(model), manifest, past, beginnings, clean), `seed ${seed}`).toBe(true);
      cuts += due ? 1 : 0;
      const after = await readPast(model, manifest);
      const kept = restoringTimelines(past).flatMap((timeline, index) =>
        beginnings[index] === undefined ? [] : [{ from: beginnings[index], to: timeline.toTxid }],
      );
      const expected = [...before].filter(([txid]) => kept.some(({ from, to }) => txid >= from && txid <= to));
      expect([...(await readStates(model, after))], `seed ${seed}`).toEqual(expected);
      expect(
        expected.every(([txid, state]) => model.states.get(txid) === undefined || model.states.get(txid) === state),
      ).toBe(true);
      expect(await strays(model, after), `seed ${seed}`).toEqual([]);
      const same = restoringTimelines(after).map(({ fromTxid }) => fromTxid);
      expect(isCut(after, same, new Set(cleanObjects(after, same))), `seed ${seed}`).toBe(true);
    }
    expect(cuts).toBeGreaterThan(25);
  });

  test("of a fork leaves nothing of its parent's groups in the child, and the child's states stay", async () => {
    for (let seed = 1; seed <= 15; seed++) {
      const parent = await lived(seed);
      const txids = [...parent.states.keys()].filter((txid) => findRestorePlan(parent.manifest, parent.history, txid));
      const child = await parent.fork(txids[parent.below(txids.length)]!);
      for (let n = 0; n < 5; n++) {
        child.commit();
        await child.ship(child.random() < 0.5);
      }
      const { manifest, past } = await held(child);
      const before = await readStates(child, past);
      const beginnings = [past.manifest.fromTxid];
      expect(
        await cutBranch(buildParts(child), manifest, past, beginnings, new Set(cleanObjects(past, beginnings))),
      ).toBe(true);
      const after = await readPast(child, manifest);
      expect(await readStates(child, after), `seed ${seed}`).toEqual(before);
      expect(await strays(child, after), `seed ${seed}`).toEqual([]);
    }
  });

  test("of a fork leaves what is clean anyway where it is, though the parent wrote it", async () => {
    const parent = await lived(3);
    await parent.ship(false);
    const { manifest, past } = await held(parent);
    const beginnings = restoringTimelines(past).map((_, index, timelines) =>
      index === timelines.length - 1 ? past.manifest.txid : undefined,
    );
    await cutBranch(buildParts(parent), manifest, past, beginnings, new Set());
    const after = await readPast(parent, manifest);
    parent.manifest = after.manifest;
    parent.history = after.history;
    for (let n = 0; n < 3; n++) parent.commit();
    await parent.ship(false);
    const child = await parent.fork(parent.manifest.txid - 1);
    const [one, other] = [
      { manifest: parent.manifest, history: parent.history },
      { manifest: child.manifest, history: child.history },
    ];
    const clean = new Set(cleanObjects(one, [one.manifest.fromTxid]));
    expect(child.manifest.refs.at(-1)!.cut).toBe(true);
    expect(isCut(other, [other.manifest.fromTxid], clean)).toBe(true);
    expect(isCut(other, [other.manifest.fromTxid], new Set())).toBe(false);
  });

  test("restores a beginning that lies in the tail, also when another branch cleaned every object", async () => {
    const model = new BranchModel(seeded(4));
    model.commit();
    await model.ship(false);
    model.commit();
    model.commit();
    await model.ship(true);
    const { manifest, past } = await held(model);
    const at = past.manifest.txid - 1;
    expect(
      await cutBranch(buildParts(model), manifest, past, [at], new Set(past.manifest.refs.map(({ id }) => id))),
    ).toBe(true);
    expect([...(await readStates(model, await readPast(model, manifest)))]).toEqual([...model.states].slice(-2));
  });

  test("writes only what must be written: whole objects above it stay as they are", async () => {
    const model = new BranchModel(seeded(5));
    model.commit({ size: 20 });
    for (let n = 0; n < 12; n++) {
      model.commit({ size: 20, pages: [3, 4] });
      await model.ship(false);
    }
    const { manifest, past } = await held(model);
    const at = past.manifest.refs[4]!.lastTxid;
    const parts = buildParts(model);
    await cutBranch(parts, manifest, past, [at], new Set(cleanObjects(past, [at])));
    const whole = past.manifest.refs.slice(5).map(({ id }) => id);
    expect(manifest.now.refs.slice(-whole.length).map(({ id }) => id)).toEqual(whole);
    expect(manifest.now.refs.slice(0, -whole.length).map(({ kind }) => kind)).toEqual(["image"]);
    expect([manifest.now.fromTxid, manifest.now.floorTxid]).toEqual([at, at]);
    const images = manifest.now.refs[0]!.bytes;
    expect(parts.put()).toBe(images);
  });
});

describe("a cut beside a writer", () => {
  /** A branch with four objects and a tail, held. */
  async function written(): Promise<{ model: BranchModel; manifest: ManifestWriter; past: Past }> {
    const model = new BranchModel(seeded(9));
    for (let n = 0; n < 4; n++) {
      model.commit();
      await model.ship(false);
    }
    for (let n = 0; n < 3; n++) {
      model.commit();
      await model.ship(true);
    }
    return { model, ...(await held(model)) };
  }

  /**
   * The parts, with something that happens when the history is put: after all the work, right before the manifest
   * moves.
   */
  function withEvent(model: BranchModel, event: () => Promise<void>): CuttingParts {
    let once = true;
    const source = withStore(model.source, {
      put: async (key, bytes, condition) => {
        if (once && key.includes("/seg/")) {
          once = false;
          await event();
        }
        return model.source.store.put(key, bytes, condition);
      },
    });
    return buildParts(model, source);
  }

  test("keeps what is shipped meanwhile, within the manifest or together with the tail as an object", async () => {
    for (const inline of [true, false]) {
      const { model, manifest, past } = await written();
      // A tail that is to go in part must stay a tail; one that lies above the cut may become an object.
      const at = inline ? past.manifest.tail[1]!.lastTxid : past.manifest.refs.at(-1)!.lastTxid;
      const shipMore = async (): Promise<void> => {
        model.commit();
        await model.ship(true);
        const { txid, writerEpochs, pages, tail } = model.manifest;
        const ref = inline
          ? undefined
          : await putObject(model.source, { ...joined(tail), kind: "delta", id: manifest.beginUpload() });
        await manifest.update((now) => ({
          txid,
          writerEpochs,
          pages,
          ...(ref ? { refs: [...now.refs, ref], tail: [] } : { tail }),
        }));
      };
      expect(await cutBranch(withEvent(model, shipMore), manifest, past, [at], new Set())).toBe(true);
      const after = await readPast(model, manifest);
      const found = await readStates(model, after);
      expect([Math.min(...found.keys()), Math.max(...found.keys())]).toEqual([at, past.manifest.txid + 1]);
      for (const [txid, state] of found) expect(model.states.get(txid), `at ${txid}`).toBe(state);
      expect(await strays(model, after)).toEqual([]);
    }
  });

  test("gives up when groups that are to go were pressed together with new ones meanwhile", async () => {
    const { model, manifest, past } = await written();
    const at = past.manifest.tail.at(-1)!.firstTxid;
    const [kept, newest] = [past.manifest.tail.slice(0, -1), past.manifest.tail.at(-1)!];
    const press = async (): Promise<void> => {
      model.commit();
      await model.ship(true);
      const { txid, writerEpochs, pages, tail } = model.manifest;
      await manifest.update(() => ({ txid, writerEpochs, pages, tail: [...kept, joined([newest, tail.at(-1)!])] }));
    };
    expect(await cutBranch(withEvent(model, press), manifest, past, [at], new Set())).toBe(false);
    const again = await readPast(model, manifest);
    expect(await cutBranch(buildParts(model), manifest, again, [at], new Set(cleanObjects(again, [at])))).toBe(true);
    const after = await readPast(model, manifest);
    expect(await strays(model, after)).toEqual([]);
    expect([...(await readStates(model, after))]).toEqual([...model.states].slice(-2));
  });

  test("gives up when groups that are to go have become part of a new object, and can be begun again", async () => {
    const { model, manifest, past } = await written();
    const at = past.manifest.tail[1]!.lastTxid;
    const spill = async (): Promise<void> => {
      const ref = await putObject(model.source, {
        ...joined(past.manifest.tail),
        kind: "delta",
        id: manifest.beginUpload(),
      });
      await manifest.update((now) => ({ refs: [...now.refs, ref], tail: [] }));
    };
    expect(await cutBranch(withEvent(model, spill), manifest, past, [at], new Set())).toBe(false);
    const again = await readPast(model, manifest);
    expect(again.manifest.fromTxid).toBe(past.manifest.fromTxid);
    expect(await cutBranch(buildParts(model), manifest, again, [at], new Set(cleanObjects(again, [at])))).toBe(true);
    expect(await strays(model, await readPast(model, manifest))).toEqual([]);
    expect([...(await readStates(model, await readPast(model, manifest))).keys()]).toEqual([at, at + 1]);
  });
});
