/** Packs and new base images, made while others write: every state stays what it was. */
import { createHash } from "node:crypto";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { readHistory } from "../../../../src/engine/history/branch-history.ts";
import { findRestorePlan } from "../../../../src/engine/history/timelines.ts";
import type { PageSource } from "../../../../src/engine/segments/pool-objects.ts";
import { materialise } from "../../../../src/engine/segments/restore.ts";
import { branchPath } from "../../../../src/engine/local/database-files.ts";
import { segmentKey } from "../../../../src/format/keys/object-keys.ts";
import { makeCanonical, pageBytes } from "../../../../src/format/history/pages.ts";
import { inlinePress } from "../../../../src/format/core/compression.ts";
import { readState } from "../../../../src/model/schema.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { seeded } from "../../../support/random.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import { noise, TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";
import { soundDisk } from "../../../support/sound-disk.ts";
import { packRefsMin } from "../../../../src/engine/compaction/timeline-length.ts";

const KiB = 1024;

function setup(options = {}): { time: VirtualTime; node: TimedEngine } {
  const time = new VirtualTime();
  time.store.audit();
  return { time, node: new TimedEngine(time, { gcGraceMs: 1e12, idleCloseMs: 1e12, ...options }) };
}

/** Standard writes, each shipped as an object of its own. */
async function segments(node: TimedEngine, count: number, bytes = 100, from = 0): Promise<void> {
  for (let n = from; n < from + count; n++) {
    await node.time.of(node.putting(`s${n % 50}`, "main", {}, noise(8 * Math.ceil(bytes / 8), n)));
    await node.time.pass(limits.shipIntervalMs + 20);
  }
}

describe("a pack", () => {
  test("segments-03: keeps the timeline in bounds over hundreds of shipped writes, and every state", async () => {
    const { time, node } = setup();
    let most = 0;
    for (let round = 0; round < 10; round++) {
      await segments(node, 30, 100, round * 30);
      most = Math.max(most, time.manifest(node.uuid).refs.length);
    }
    expect(most).toBeLessThan(3 * packRefsMin);
    for (const to of ["1", "17", "150", "299"])
      expect(await node.branch({ act: "rewind", to })).toMatchObject({ rewoundTo: Number(to) });
    expect(await (await node.again(true)).keys()).toHaveLength(50);
    expect(time.store.violations).toEqual([]);
  });

  test("F71: whose upload got no answer is made anew; nothing but an orphan stays of it", async () => {
    for (const fate of ["answerLost", "requestLost", "refused"] as const) {
      const { time, node } = setup();
      await segments(node, packRefsMin - 1);
      let seen = 0;
      // The segment that makes them enough, then the pack.
      time.store.decideFate = (verb, key) => (verb === "put" && key.includes("/seg/") && ++seen === 2 ? fate : "fine");
      await segments(node, 3, 100, packRefsMin);
      expect(seen).toBeGreaterThan(2);
      expect(time.manifest(node.uuid).refs.length, fate).toBeLessThan(packRefsMin);
      expect(time.store.violations).toEqual([]);
      expect(await (await node.again(true)).keys()).toHaveLength(packRefsMin + 2);
    }
  });

  test("F73: is thrown away when a rewind or a checkpoint came between, or fits all the same", async () => {
    const { time, node } = setup();
    await segments(node, packRefsMin - 1);
    const gate = Promise.withResolvers<void>();
    let seen = 0;
    time.store.decideFate = (verb, key) =>
      verb === "put" && key.includes("/seg/") && ++seen === 2 ? { held: gate.promise } : "fine";
    await segments(node, 1, 100, packRefsMin);
    expect(seen).toBe(2);
    await node.branch({ act: "checkpoint", name: "c" });
    await node.branch({ act: "rewind", to: "7" });
    gate.resolve();
    await time.pass(1_000);
    expect(time.store.violations).toEqual([]);
    await node.branch({ act: "rewind", to: "c" });
    expect(await node.keys()).toHaveLength(packRefsMin);
    await node.branch({ act: "rewind", to: "7" });
    expect(await (await node.again(true)).keys()).toHaveLength(7);
  });

  test("F72: with a rotten input is not made at all; the writer and packing beside it go on", async () => {
    const { time, node } = setup();
    await segments(node, 4);
    const rotten = time.manifest(node.uuid).refs.at(-1)!.id;
    time.store.spoil(segmentKey(node.uuid, rotten), (bytes) => ((bytes[bytes.length >> 1]! ^= 1), bytes));
    await segments(node, 100, 100, 4);
    expect(node.notices.some((notice) => notice.includes(rotten))).toBe(true);
    const { refs, txid } = time.manifest(node.uuid);
    expect(txid).toBe(104);
    expect(refs.some(({ id }) => id === rotten)).toBe(true);
    expect(refs.length).toBeLessThan(3 * packRefsMin);
    expect(node.notices.filter((notice) => notice.includes(rotten)).length).toBeLessThan(20);
    expect(time.store.violations).toEqual([]);
  });
});

describe("a new base image", () => {
  test("follows when the deltas hold as much as the database, and the old timeline stays restorable", async () => {
    const { time, node } = setup();
    await segments(node, 160, 64 * KiB);
    const { refs, fromTxid } = time.manifest(node.uuid);
    const { timelines } = time.history(node.uuid);
    expect(timelines.length).toBeGreaterThan(0);
    expect(refs[0]!.kind).toBe("image");
    expect(fromTxid).toBeGreaterThan(0);
    expect(timelines.at(-1)!.toTxid).toBe(fromTxid);
    for (const to of [1, timelines[0]!.toTxid, timelines[0]!.toTxid + 1, 159])
      expect(await node.branch({ act: "rewind", to: String(to) })).toMatchObject({ rewoundTo: to });
    expect(time.store.violations).toEqual([]);
  });

  test("F72: is never made of rotten objects: it names the object, and the timeline stays as it is", async () => {
    const { time, node } = setup();
    await segments(node, 3, 64 * KiB);
    const rotten = time.manifest(node.uuid).refs.at(-1)!.id;
    time.store.spoil(segmentKey(node.uuid, rotten), (bytes) => bytes.subarray(0, bytes.length - 1));
    await segments(node, 100, 64 * KiB, 3);
    expect(time.history(node.uuid).timelines).toEqual([]);
    expect(time.manifest(node.uuid).refs.filter(({ kind }) => kind === "image")).toHaveLength(1);
    expect(node.notices.some((notice) => notice.includes(rotten))).toBe(true);
    await node.put("on", "main", { durable: true });
    // F36, F37: what needs the object is refused with its name, and what does not is served.
    await expect(node.branch({ act: "rewind", to: "90" })).rejects.toThrow();
    expect(await node.branch({ act: "rewind", to: "2" })).toMatchObject({ rewoundTo: 2 });
  });
});

describe("history that left the window", () => {
  test("segments-06, F77: goes with its objects, except what a checkpoint pins", async () => {
    const { time, node } = setup({ pitrMs: 60_000, gcGraceMs: 30_000 });
    await segments(node, 3, 32 * KiB);
    await node.branch({ act: "checkpoint", name: "kept" });
    for (let round = 1; round <= 4; round++) {
      await segments(node, 20, 8 * KiB, round * 100);
      await node.branch({ act: "rewind", to: String(time.manifest(node.uuid).txid - 1) });
    }
    const before = time.history(node.uuid).timelines.length;
    expect(before).toBeGreaterThan(3);
    await time.pass(10_000);
    await segments(node, 1, 100, 900);
    await time.pass(400_000);
    await segments(node, 1, 100, 901);
    await time.pass(400_000);
    const { timelines } = time.history(node.uuid);
    expect(timelines.length).toBeLessThan(before);
    // A handful of timelines: the pinned one, and what ended last.
    expect(
      timelines
        .filter(({ endedAtMs }) => endedAtMs < time.world().nowMs() - 460_000)
        .every(({ fromTxid, toTxid }) => fromTxid <= 3 && toTxid >= 3),
    ).toBe(true);
    await expect(node.branch({ act: "rewind", to: "20" })).rejects.toMatchObject({ code: "not_found" });
    expect(await node.branch({ act: "rewind", to: "kept" })).toMatchObject({ rewoundTo: 3 });
    expect(await node.keys()).toHaveLength(3);
    expect(time.store.violations).toEqual([]);
    const named = new Set(
      [time.manifest(node.uuid).refs, ...time.history(node.uuid).timelines.map(({ refs }) => refs)]
        .flat()
        .map(({ id }) => id),
    );
    expect(time.store.keys(`db/${node.uuid}/seg/`).length).toBeLessThan(named.size + 20);
  });
});

/** Names the state of a database: its pages, each in its canonical form. */
function computeName(pages: Uint8Array): string {
  for (let at = 0; at < pages.length; at += pageBytes)
    makeCanonical(pages.subarray(at, at + pageBytes), at / pageBytes + 1);
  return createHash("sha1").update(pages).digest("base64");
}

/** A random history of one database with branches, and what each state of each was when it was current. */
class Story {
  readonly node: TimedEngine;
  readonly random: () => number;
  /** By branch id, by txid: the name of the state. */
  readonly states = new Map<string, Map<number, string>>();
  readonly #watchers = new Map<string, Connection>();
  #step = 0;

  constructor(node: TimedEngine, random: () => number) {
    this.node = node;
    this.random = random;
  }

  get count(): number {
    return [...this.states.values()].reduce((sum, states) => sum + states.size, 0);
  }

  below(count: number): number {
    return Math.floor(this.random() * count);
  }

  /** Looks at the branch's file as it is, and notes what it sees. */
  record(branch: string, branchId: string, txid: number): void {
    const path = branchPath(join(this.node.directory, "db"), this.node.uuid, branchId);
    let watcher = this.#watchers.get(branchId);
    if (!watcher)
      this.#watchers.set(branchId, (watcher = new Connection(path, { readonly: true, pageCacheKiB: 2_048 })));
    if (readState(watcher).txid !== txid)
      throw new Error(`${branch} stands at ${readState(watcher).txid}, not at ${txid}`);
    const states = this.states.get(branchId) ?? new Map<number, string>();
    this.states.set(branchId, states.set(txid, computeName(watcher.raw.serialize())));
  }

  /** A file that is exchanged is opened anew. */
  forget(branchId: string): void {
    this.#watchers.get(branchId)?.close();
    this.#watchers.delete(branchId);
  }

  end(): void {
    for (const id of [...this.#watchers.keys()]) this.forget(id);
  }

  /** One write of one of the models. */
  async write(branch: string): Promise<number> {
    const { node } = this;
    const step = this.#step++;
    const target = node.at(branch);
    const options = node.soon({ durable: this.random() < 0.2 });
    const id = `i${this.below(60)}`;
    const text = noise(8 * (1 + this.below(this.random() < 0.05 ? 4_000 : 60)), step);
    const kind = this.below(10);
    const { client, time } = node;
    if (kind < 3)
      return (await time.of(client.write(target, "kv.put", { ns: "n", key: id, value: Buffer.from(text) }, options)))
        .txid;
    if (kind < 4) return (await time.of(client.write(target, "kv.delete", { ns: "n", key: id }, options))).txid;
    if (kind < 6)
      return (
        await time.of(
          client.write(
            target,
            "docs.insert",
            { collection: "c", docs: [JSON.stringify({ _id: `d${step}`, text: text.slice(0, 200), n: step % 7 })] },
            options,
          ),
        )
      ).txid;
    if (kind < 7)
      return (
        await time.of(
          client.write(
            target,
            "docs.delete",
            { collection: "c", filter: JSON.stringify({ n: this.below(7) }), many: this.random() < 0.3 } as never,
            options,
          ),
        )
      ).txid;
    if (kind < 8)
      return (
        await time.of(
          client.write(
            target,
            "memory.ingest",
            {
              memories: [
                {
                  type: "fact",
                  summary: `${id} ${text.slice(0, 40)}`,
                  content: JSON.stringify(text.slice(0, 400)),
                  keywords: id,
                  topicKey: id,
                  source: "t",
                },
              ],
            } as never,
            options,
          ),
        )
      ).txid;
    return (
      await node.sql(
        [
          "CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, body TEXT)",
          this.random() < 0.7
            ? `INSERT INTO t (body) VALUES ('${text}')`
            : `DELETE FROM t WHERE n % 5 = ${this.below(5)}`,
        ],
        branch,
      )
    ).txid;
  }
}

/** Restores every state that was noted, from the store alone, and gives those that are not what they were. */
async function wrongStates(
  time: VirtualTime,
  uuid: string,
  states: Story["states"],
  directory: string,
): Promise<{ readonly wrong: string[]; readonly restored: number; readonly lost: string[] }> {
  const source: PageSource = { store: time.store.calm, uuid, press: inlinePress, disk: soundDisk };
  const path = join(directory, "state.db");
  const wrong: string[] = [];
  const lost: string[] = [];
  let restored = 0;
  for (const [branchId, known] of states) {
    const manifest = time.manifest(uuid, branchId);
    const history = await readHistory(source.store, manifest);
    for (const [txid, name] of known) {
      const plan = findRestorePlan(manifest, history, txid);
      if (!plan) {
        lost.push(`${branchId} ${txid}`);
        continue;
      }
      await materialise(source, plan, path);
      if (computeName(readFileSync(path)) !== name) wrong.push(`${branchId} ${txid}`);
      rmSync(path);
      restored++;
    }
  }
  return { wrong, restored, lost };
}

describe("a long history", () => {
  test(
    "F78: every txid of a random history of 2,000 is restored byte by byte as it was",
    { timeout: 600_000 },
    async () => {
      const { time, node } = setup();
      const story = new Story(node, seeded(20_300));
      const branches = ["main"];
      const findId = (name: string): string =>
        time.catalog(node.uuid).branches.find((branch) => branch.name === name)!.id;
      await node.put("first");
      story.record("main", "main", 1);
      let [rewinds, checkpoints] = [0, 0];
      while (story.count < 2_000) {
        const branch = branches[story.below(branches.length)]!;
        const id = findId(branch);
        const before = story.states.get(id)!;
        const draw = story.random();
        if (draw < 0.01) {
          const states = [...before.keys()];
          const to = states[story.below(states.length)]!;
          await node.sync(branch);
          story.forget(id);
          const { txid } = await node.branch({ act: "rewind", to: String(to) }, branch);
          await node.keys(branch);
          story.record(branch, id, txid);
          rewinds++;
        } else if (draw < 0.015 && branches.length < 4) {
          const name = `b${branches.length}`;
          const states = [...before.keys()];
          const at = states[story.below(states.length)]!;
          await node.branch({ act: "fork", name, at: String(at) }, branch);
          branches.push(name);
          await node.keys(name);
          story.record(name, findId(name), at);
          expect(story.states.get(findId(name))!.get(at)).toBe(before.get(at));
        } else if (draw < 0.03) {
          await node.branch({ act: "checkpoint", name: `c${checkpoints++}` }, branch);
        } else {
          const txid = await story.write(branch);
          if (!before.has(txid)) story.record(branch, id, txid);
          if (story.random() < 0.5) await time.pass(limits.shipIntervalMs / 2);
        }
      }
      for (const branch of branches) await node.sync(branch);
      story.end();
      const ids = branches.map(findId);
      expect(ids.reduce((sum, id) => sum + time.history(node.uuid, id).timelines.length, 0)).toBeGreaterThan(
        rewinds + 2,
      );
      expect(rewinds).toBeGreaterThan(5);
      expect(branches.length).toBe(4);
      const { wrong, lost, restored } = await wrongStates(time, node.uuid, story.states, temporaryDirectory());
      expect(lost).toEqual([]);
      expect(wrong).toEqual([]);
      expect(restored).toBeGreaterThanOrEqual(2_000);
      expect(time.store.violations).toEqual([]);
    },
  );
});
