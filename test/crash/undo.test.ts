/**
 * A node dies in the middle of an undo of several things, at each crash point that one reaches: it is done wholly or
 * not at all, and a repetition with its key does it once.
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { CallOptions } from "../../src/engine/api/engine-port.ts";
import type { EngineClient } from "../../src/engine/threads/client.ts";
import type { Answer } from "../../src/engine/api/protocol.ts";
import type { CrashPoint } from "../../src/base/world.ts";
import { HostileStore, noFaults } from "../sim/hostile-store.ts";
import { Scheduler } from "../sim/scheduler.ts";
import { soundDisk } from "../sim/sim-disk.ts";
import { type Crash, SimNode } from "../sim/sim-node.ts";
import { uuidOf } from "../support/inline-engine.ts";

const target = { uuid: uuidOf(1), branch: "main" };
const keys = ["a", "b", "c", "d"];
const fates = ["kill", "power", "loss"] as const;
/** Until everything that an undo sets off is over, in virtual time. */
const settleMs = 10_000;
const storyMsMax = 600_000;

interface Plan {
  readonly point: CrashPoint;
  readonly nth: number;
  readonly fate: Crash;
}

interface Told {
  /** Points that were reached from the undo on, in their order. */
  readonly reached: readonly CrashPoint[];
  readonly crashed: boolean;
}

type Act<Value> = (client: EngineClient, options: CallOptions) => Promise<Answer<Value>>;

/** Plays an undo, durable or not, up to its end or to the crash and what comes after; throws for a broken promise. */
class Story {
  readonly #scheduler: Scheduler;
  readonly #directory = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "palimpsest-undo-"));
  readonly #node: SimNode;
  readonly #durable: boolean;
  readonly #plan: Plan | undefined;
  readonly #reached: CrashPoint[] = [];
  #crashed = false;
  #armed = false;

  constructor(seed: number, durable: boolean, plan?: Plan) {
    this.#scheduler = new Scheduler(seed, 50);
    this.#durable = durable;
    this.#plan = plan;
    const store = new HostileStore(this.#scheduler, seed, noFaults, {}, () => {});
    this.#node = new SimNode("a", {
      ...{ scheduler: this.#scheduler, seed, store, directory: this.#directory },
      ...{ disk: () => soundDisk, diskLies: false, engine: {} },
    });
    this.#node.atCrashPoint = (point) => this.#at(point as CrashPoint);
  }

  async play(): Promise<Told> {
    let failure: unknown;
    let ended = false;
    this.#tell().then(
      () => (ended = true),
      (error: unknown) => ([failure, ended] = [error, true]),
    );
    try {
      const isOver = await this.#scheduler.run(() => ended, storyMsMax);
      if (failure) throw failure as Error;
      expect(isOver, "the story ends").toBe(true);
      return { reached: this.#reached, crashed: this.#crashed };
    } finally {
      this.#node.crash("loss");
      await this.#scheduler.run(() => false, this.#scheduler.nowMs + 1);
      this.#node.dispose();
      rmSync(this.#directory, { recursive: true, force: true });
    }
  }

  #at(point: CrashPoint): void {
    if (!this.#armed || this.#crashed) return;
    this.#reached.push(point);
    const plan = this.#plan;
    if (plan?.point !== point || this.#reached.filter((one) => one === point).length !== plan.nth) return;
    this.#crashed = true;
    this.#node.crash(plan.fate);
  }

  #call<Value>(act: Act<Value>, more: Partial<CallOptions> = {}): Promise<Answer<Value>> {
    return this.#node.call((client, world) => act(client, { deadlineMs: world.monotonicMs() + 60_000, ...more }));
  }

  #put(text: string): Promise<Answer> {
    const items = keys.map((key) => ({ key, value: Buffer.from(text) }));
    return this.#call((client, options) => client.write(target, "kv.put_many", { ns: "n", items }, options), {
      durable: true,
    });
  }

  async #values(): Promise<ReadonlySet<string>> {
    const { value } = await this.#patiently(() =>
      this.#call((client, options) => client.read(target, "kv.get_many", { ns: "n", keys }, options)),
    );
    return new Set(value.entries.map((entry) => Buffer.from(entry.value!).toString()));
  }

  /** As the service does it: what was there is read at two states of the past, and put back in one write. */
  async #undo(txid: number): Promise<Answer> {
    const { value: undoable } = await this.#call((client, options) =>
      client.read(target, "undo.changes", { txid }, { ...options, at: String(txid) }),
    );
    const { afterTxid, left } = undoable;
    const { value: before } = await this.#call((client, options) =>
      client.read(target, "undo.before", { txid, left }, { ...options, at: String(afterTxid) }),
    );
    const idempotency = { take: () => ({ key: Buffer.alloc(32, 1), request: Buffer.alloc(32, 2) }) };
    return this.#call(
      (client, options) => client.write(target, "undo.apply", { txid, things: before.things }, options),
      { durable: this.#durable, idempotency },
    );
  }

  /** Right after a crash a request of the dead may still land, and then a claim is lost once. */
  async #patiently<Value>(act: () => Promise<Value>): Promise<Value> {
    for (let tries = 0; ; tries++) {
      try {
        return await act();
      } catch (error) {
        if ((error as { code?: unknown }).code !== "unavailable" || tries > 60) throw error;
      }
      await this.#scheduler.sleep(1_000);
    }
  }

  async #tell(): Promise<void> {
    this.#node.start();
    await this.#put("old");
    const { txid } = await this.#put("new");
    let answered = false;
    this.#armed = true;
    try {
      await this.#undo(txid);
      answered = true;
      await this.#scheduler.sleep(settleMs);
    } catch (error) {
      if (!this.#crashed) throw error;
    }
    this.#armed = false;
    if (this.#crashed) this.#node.start();
    const seen = await this.#values();
    expect([["old"], ["new"]], "all of it or nothing").toContainEqual([...seen]);
    const mustBeThere = answered && (this.#durable || this.#plan?.fate !== "loss");
    if (mustBeThere) expect([...seen], "what was answered is there").toEqual(["old"]);
    // Repeated with its key it is carried out once, whatever became of the first.
    const again = await this.#patiently(() => this.#undo(txid));
    expect([...(await this.#values())]).toEqual(["old"]);
    expect(again.isRepeat ?? false).toBe([...seen][0] === "old");
    const third = await this.#patiently(() => this.#undo(txid));
    expect([third.txid, third.isRepeat]).toEqual([again.txid, true]);
    const { value: page } = await this.#call((client, options) =>
      client.read(target, "changes.list", { after: txid, limit: 10 }, options),
    );
    expect(
      page.entries.map((entry) => entry.txid),
      "told once",
    ).toEqual([again.txid]);
  }
}

describe.each([false, true])("an undo whose node dies (durable: %s)", (durable) => {
  test("is done wholly or not at all, at every crash point that it reaches", { timeout: 600_000 }, async () => {
    const { reached, crashed } = await new Story(1, durable).play();
    expect(crashed).toBe(false);
    expect(reached).toEqual(expect.arrayContaining(["committed", "synced", "answered", "head-put", "head-landed"]));
    for (const point of new Set(reached)) {
      const times = reached.filter((one) => one === point).length;
      for (let nth = 1; nth <= times; nth++)
        for (const fate of fates)
          expect((await new Story(1, durable, { point, nth, fate }).play()).crashed, `${point} ${nth} ${fate}`).toBe(
            true,
          );
    }
  });
});
