/**
 * A node on virtual time whose memories are erased: what was erased, what is left of it, and every state that can be
 * restored.
 */
import { readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { computeSha256 } from "../../src/format/history/manifest.ts";
import { catalogKey, databasePrefix } from "../../src/format/keys/object-keys.ts";
import { inlinePress } from "../../src/format/core/compression.ts";
import { decodeSegments, readSegmentIndexes } from "../../src/format/history/segment.ts";
import type { BranchAct, EngineOptions, ErasedCoupon, Expunged } from "../../src/engine/api/protocol.ts";
import { findRestorePlan } from "../../src/engine/history/timelines.ts";
import { materialise } from "../../src/engine/segments/restore.ts";
import { noise, TimedEngine, VirtualTime } from "./timed-engine.ts";
import { temporaryDirectory } from "./temporary.ts";
import { soundDisk } from "./sound-disk.ts";

export const collectGraceMs = 600_000;

type Erase = Extract<BranchAct, { act: "erase" }>["erase"];

export class ErasingNode {
  readonly time: VirtualTime;
  node: TimedEngine;
  readonly #options: Partial<EngineOptions>;
  #coupons = 0;

  constructor(options = {}) {
    this.time = new VirtualTime();
    this.time.store.audit();
    this.#options = { gcGraceMs: collectGraceMs, pitrMs: 1e12, idleCloseMs: 1e12, ...options };
    this.node = new TimedEngine(this.time, this.#options);
  }

  get uuid(): string {
    return this.node.uuid;
  }

  /** Another run on the same disk; the one before may have died. */
  restart(): void {
    this.node.kill();
    this.node = new TimedEngine(this.time, this.#options, this.node.directory);
  }

  /** Takes in a memory that says this, and gives its id. */
  async remember(summary: string, branch = "main", more: object = {}): Promise<string> {
    const memories = [{ type: "fact", summary, content: "{}", ...more }];
    const { value } = await this.time.of(
      this.node.client.write(this.node.at(branch), "memory.ingest", { memories }, this.node.soon()),
    );
    return value.results[0]!.id;
  }

  async forget(id: string, branch = "main"): Promise<void> {
    await this.time.of(this.node.client.write(this.node.at(branch), "memory.forget", { id }, this.node.soon()));
  }

  async holds(id: string, branch = "main"): Promise<boolean> {
    const { value } = await this.time.of(
      this.node.client.read(this.node.at(branch), "memory.held", { memoryIds: [id] }, this.node.soon()),
    );
    return value.held.length > 0;
  }

  /** Erases the memory of this id, or another target; a coupon that is due. */
  async erase(what: string | Erase, branch = "main"): Promise<ErasedCoupon & { readonly txid: number }> {
    const couponId = `ers_${++this.#coupons}`;
    const erase: Erase = typeof what === "string" ? { kind: "memory", memoryId: what } : what;
    const { memoryIds, traces, branchId, ancestors, txid, found } = await this.node.branch(
      { act: "erase", couponId, erase, traceKey: new Uint8Array(32).fill(this.#coupons) },
      branch,
    );
    expect(found).toBe(true);
    return { id: couponId, memoryIds, traces, points: [{ branch, branchId, txid, ancestors }], isDue: true, txid };
  }

  async expunge(...coupons: readonly ErasedCoupon[]): Promise<Expunged> {
    const { value } = await this.time.of(
      this.node.client.branch(this.node.at("main"), { act: "expunge", coupons }, { deadlineMs: Infinity }),
      1e7,
    );
    return value as Expunged;
  }

  /** Asks until nothing is waited for, with the grace of the collection between. */
  async complete(...coupons: readonly ErasedCoupon[]): Promise<Expunged> {
    for (let round = 0; ; round++) {
      const outcome = await this.expunge(...coupons);
      if (outcome.waitingFor !== "the collection of old objects") return outcome;
      expect(round).toBeLessThan(5);
      await this.time.pass(collectGraceMs + 1_000);
    }
  }

  /** Writes that have nothing to do with anything, each shipped as an object of its own. */
  async fill(count: number, branch = "main", bytes = 16): Promise<void> {
    for (let n = 0; n < count; n++) {
      await this.time.of(this.node.putting(`f${n % 7}`, branch, {}, noise(bytes, this.#coupons * 1_000 + n)));
      await this.time.pass(1_100);
    }
    await this.node.sync(branch);
  }

  branchId(branch: string): string {
    return this.time.catalog(this.uuid).branches.find(({ name }) => name === branch)!.id;
  }

  /** Hash of the file of every state of the branch that can be restored, by transaction id. */
  async states(branch = "main"): Promise<Map<number, string>> {
    const branchId = this.branchId(branch);
    const [manifest, history] = [this.time.manifest(this.uuid, branchId), this.time.history(this.uuid, branchId)];
    const source = { store: this.time.store.calm, uuid: this.uuid, press: inlinePress, disk: soundDisk };
    const path = join(temporaryDirectory(), "state.db");
    const states = new Map<number, string>();
    for (let txid = 0; txid <= manifest.txid; txid++) {
      const plan = findRestorePlan(manifest, history, txid);
      if (!plan) continue;
      await materialise(source, plan, path);
      states.set(txid, Buffer.from(computeSha256(readFileSync(path))).toString("hex"));
      rmSync(path);
    }
    return states;
  }

  /** Keys and local files that hold the text, as it is or within page data. */
  async residue(text: string): Promise<string[]> {
    const found: string[] = [];
    for (const key of this.time.store.keys(databasePrefix(this.uuid))) {
      const { bytes } = this.time.store.read(key)!;
      const inside = key.includes("/seg/")
        ? [bytes]
        : key.includes("/head/")
          ? this.time.manifest(this.uuid, key.slice(key.lastIndexOf("/") + 1)).tail.map((tail) => tail.bytes)
          : [];
      const pages = (await Promise.all(inside.map((segments) => decodeSegments(segments, inlinePress))))
        .flat()
        .flatMap(({ groups }) => groups.flatMap(({ images }) => images));
      if ([bytes, ...pages.map((page) => page.bytes)].some((one) => Buffer.from(one).includes(text))) found.push(key);
    }
    for (const name of readdirSync(this.node.directory, { recursive: true, encoding: "utf8" })) {
      const path = join(this.node.directory, name);
      if (statSync(path).isFile() && readFileSync(path).includes(text)) found.push(name);
    }
    return found;
  }

  /** Bytes of all the database's objects. */
  get storedBytes(): number {
    return this.time.store
      .keys(databasePrefix(this.uuid))
      .filter((key) => key !== catalogKey(this.uuid))
      .reduce((sum, key) => sum + this.time.store.read(key)!.bytes.length, 0);
  }

  /** The first object that holds the text, as it was put. */
  async objectWith(text: string): Promise<{ readonly key: string; readonly bytes: Uint8Array }> {
    const key = (await this.residue(text)).find((one) => one.includes("/seg/"))!;
    const { bytes } = this.time.store.read(key)!;
    expect(readSegmentIndexes(bytes).length).toBeGreaterThan(0);
    return { key, bytes };
  }
}
