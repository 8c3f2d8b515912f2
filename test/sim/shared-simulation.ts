/**
 * One run of several nodes that share databases: clients write unique keys through any of them while processes stop,
 * machines sleep, clocks jump, nodes die or lose sight of the coordination store, all from one seed.
 *
 * What must hold: no durable answer is lost; a standard one only when something befell a node around that time; no
 * standard answer leaves a node that another one could have replaced; a primary read sees what was answered before it;
 * a read of whatever copy shows a state of the one history, as new as was asked for and never older than what this
 * process has shown to be durable; and the heads in object storage form one chain (test/sim/store-audit).
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ServiceError } from "../../src/base/errors.ts";
import type { Answer, Target } from "../../src/engine/protocol.ts";
import type { PortCall } from "../../src/engine/engine-port.ts";
import { LeaseTable } from "../support/shared-leases.ts";
import { Violation } from "./branch-model.ts";
import { HostileStore, type StoreBugs, type StoreDose } from "./hostile-store.ts";
import { Scheduler, stream } from "./scheduler.ts";
import { SharedNode } from "./shared-node.ts";
import { soundDisk } from "./sim-disk.ts";
import { ProcessGone, SimNode, turnedClock, type Crash } from "./sim-node.ts";
import { lastLines, type Outcome } from "./simulation.ts";
import { StoreAudit } from "./store-audit.ts";
import { Trial } from "./trial.ts";

/** Planted bugs. */
export interface SharedBugs extends StoreBugs {
  readonly leasesNeverEnd?: boolean;
}

interface Acknowledged {
  readonly key: string;
  readonly uuid: string;
  readonly atMs: number;
  readonly isDurable: boolean;
  readonly txid: number;
}

/** What a read of any copy showed. */
interface Shown {
  readonly uuid: string;
  readonly by: string;
  readonly txid: number;
  readonly keys: ReadonlySet<string>;
}

interface Seen {
  readonly uuid: string;
  readonly begunAtMs: number;
  readonly keys: ReadonlySet<string>;
}

const nodesCount = 3;
const callsPerClient = 100;
const callBudgetMs = 20_000;
/** A standard write is shipped within this of its answer, unless the store is very slow: what was answered longer before a mishap survives it. */
const shippedWithinMs = 60_000;
const storyMsMax = 3_600_000;
const quietMs = 30_000;

class SharedSimulation {
  readonly #seed: number;
  readonly #scheduler: Scheduler;
  readonly #random: () => number;
  readonly #directory = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "palimpsest-shared-"));
  readonly #store: HostileStore;
  readonly #audit: StoreAudit;
  readonly #table: LeaseTable;
  readonly #nodes = new Map<string, SharedNode>();
  readonly #uuids: readonly string[];
  readonly #acknowledged: Acknowledged[] = [];
  readonly #seen: Seen[] = [];
  readonly #shown: Shown[] = [];
  /** How far each process has said that object storage covers each database. */
  readonly #durableTo = new Map<string, number>();
  readonly #copies: () => number;
  /** When something befell a node, the store or the leases, from and to. */
  readonly #mishaps: { readonly fromMs: number; toMs: number }[] = [];
  readonly #counts: Record<string, number> = {};
  #crashes = 0;
  /** Until when leases may be held by two, as the coordination store has failed. */
  #leasesFailedUntilMs = -Infinity;
  readonly #trial: Trial;
  #keys = 0;

  constructor(seed: number, bugs: SharedBugs, linesMax: number) {
    this.#seed = seed;
    const random = (this.#random = stream(seed, "shared story"));
    this.#scheduler = new Scheduler(seed, linesMax);
    this.#trial = new Trial(this.#scheduler);
    this.#copies = stream(seed, "reads of copies");
    const scheduler = this.#scheduler;
    this.#audit = new StoreAudit(() => this.#store, () => {});
    this.#audit.mayJump = true;
    const dose: StoreDose = { latencyMsMax: 5 + random() * 60, slow: this.#isMild ? 0 : 0.01, requestLost: random() * 0.03, answerLost: random() * 0.03, late: random() * 0.03, refused: random() * 0.05, damagedGet: 0, staleList: 0, rot: 0 };
    this.#store = new HostileStore(scheduler, seed, dose, bugs, (key, before, after) => this.#audit.changed(key, before, after));
    this.#table = new LeaseTable({ monotonicMs: () => scheduler.nowMs });
    this.#uuids = Array.from({ length: 2 }, (_, index) => `00000000-0000-4000-8000-${String(index + 1).padStart(12, "0")}`);
    const nodeOptions = { scheduler, seed, store: this.#store, directory: this.#directory, disk: () => ({ ...soundDisk, fsyncMsMax: 3 }), diskLies: false, engine: { coordinated: true } };
    const parts = {
      scheduler, table: this.#table, random: stream(seed, "hops"), nodes: this.#nodes, leasesNeverEnd: bugs.leasesNeverEnd ?? false,
      // Object storage did not answer for longer than a node that stops can wait.
      handedOverShort: () => void this.#mishaps.push({ fromMs: scheduler.nowMs, toMs: scheduler.nowMs }),
      answered: (node: SharedNode, target: Target, call: PortCall, answer: Answer) => this.#answered(node, target, call, answer),
    };
    for (let index = 0; index < nodesCount; index++) {
      const name = "abc"[index]!;
      this.#nodes.set(name, new SharedNode(new SimNode(name, nodeOptions), parts));
    }
  }

  async run(): Promise<Outcome> {
    await this.#trial.run(() => this.#story(), storyMsMax, () => {
      for (const node of this.#nodes.values()) node.crash("loss");
    });
    for (const node of this.#nodes.values()) node.sim.dispose();
    rmSync(this.#directory, { recursive: true, force: true });
    const { traceHash, steps, nowMs, lines } = this.#scheduler;
    return { seed: this.#seed, failure: this.#trial.failure, traceHash, steps, virtualMs: nowMs, crashes: this.#crashes, lines, counts: { ...this.#counts, ...this.#store.counts } };
  }

  async #story(): Promise<void> {
    for (const node of this.#nodes.values()) node.start();
    await this.#scheduler.sleep(100);
    let acting = 0;
    for (const uuid of this.#uuids) {
      for (let client = 0; client < 2; client++) {
        acting++;
        this.#client(uuid).then(
          () => acting--,
          this.#trial.fail,
        );
      }
    }
    while (acting > 0) {
      await this.#scheduler.sleep(this.#random() * 15_000);
      if (acting > 0) await this.#mishap();
    }
    this.#store.calmDown();
    await this.#scheduler.sleep(quietMs);
    for (const node of this.#nodes.values()) if (!node.sim.up) node.start();
    await this.#scheduler.sleep(quietMs);
    for (const uuid of this.#uuids) await this.#lastLook(uuid);
  }

  async #client(uuid: string): Promise<void> {
    for (let call = 0; call < callsPerClient; call++) {
      await this.#scheduler.sleep(this.#random() * 3_000);
      const node = this.#anyUp();
      if (!node) continue;
      if (this.#random() < 0.3) await this.#read(node, uuid);
      else await this.#write(node, uuid, this.#random() < 0.3);
      const other = this.#anyUp(this.#copies);
      if (other && this.#copies() < 0.4) await this.#readCopy(other, uuid);
    }
  }

  async #write(node: SharedNode, uuid: string, durable: boolean): Promise<boolean> {
    const key = `k${String(this.#keys++).padStart(5, "0")}`;
    const call: PortCall = { kind: "write", command: "kv.put", input: { ns: "n", key, value: Buffer.from(key) } };
    const answer = await this.#ask(`write${durable ? " durably" : ""} ${key}`, node, uuid, call, { durable });
    if (!answer) return false;
    this.#acknowledged.push({ key, uuid, atMs: this.#scheduler.nowMs, isDurable: durable || answer.durableTxid >= answer.txid, txid: answer.txid });
    return true;
  }

  async #read(node: SharedNode, uuid: string): Promise<ReadonlySet<string> | undefined> {
    const begunAtMs = this.#scheduler.nowMs;
    const answer = await this.#ask("read", node, uuid, { kind: "read", command: "kv.list", input: { ns: "n", limit: 1_000 } }, { consistency: "primary" });
    if (!answer) return undefined;
    const keys = new Set((answer.value as { keys: readonly string[] }).keys);
    this.#seen.push({ uuid, begunAtMs, keys });
    const missing = this.#acknowledged.find((one) => one.uuid === uuid && one.isDurable && one.atMs < begunAtMs && !keys.has(one.key));
    if (missing) throw new Violation(`a primary read at ${node.name} misses ${missing.key}, which was durable before`);
    return keys;
  }

  /** Reads wherever the node likes, half of the time at least the newest state that is durable. */
  async #readCopy(node: SharedNode, uuid: string): Promise<void> {
    const process = `${node.name}${node.sim.incarnation}`;
    const floor = this.#durableTo.get(`${process} ${uuid}`) ?? 0;
    const durable = this.#acknowledged.filter((one) => one.uuid === uuid && one.isDurable).map(({ txid }) => txid);
    const minTxid = this.#copies() < 0.5 ? Math.max(0, ...durable) : 0;
    const consistency = this.#copies() < 0.3 ? { consistency: "cached" as const } : {};
    const answer = await this.#ask("copy", node, uuid, { kind: "read", command: "kv.list", input: { ns: "n", limit: 1_000 } }, { ...consistency, minTxid });
    if (!answer) return;
    const { txid, durableTxid } = answer;
    if (txid < minTxid) throw new Violation(`${process} was asked for ${minTxid} and shows ${txid}`);
    // A cached read asks for no more than what was looked after within half a minute, and one that names a transaction id for that one.
    const isPlain = !("consistency" in consistency) && minTxid === 0;
    if (isPlain && txid < floor) throw new Violation(`${process} shows ${txid} after it had shown that ${floor} is durable`);
    const key = `${process} ${uuid}`;
    this.#durableTo.set(key, Math.max(this.#durableTo.get(key) ?? 0, Math.min(txid, durableTxid)));
    this.#shown.push({ uuid, by: process, txid, keys: new Set((answer.value as { keys: readonly string[] }).keys) });
  }

  async #ask(what: string, node: SharedNode, uuid: string, call: PortCall, given: { readonly durable?: boolean; readonly consistency?: "primary" | "cached"; readonly minTxid?: number }): Promise<Answer | undefined> {
    const end = (how: string): void => {
      const verb = `${what.split(" ")[0]} ${how.split(" ")[0]}`;
      this.#counts[verb] = (this.#counts[verb] ?? 0) + 1;
      this.#scheduler.note("client", `${uuid.slice(-2)} at ${node.name}: ${what}: ${how}`);
    };
    try {
      const answer = await node.run({ uuid, branch: "main" }, call, (world) => ({ deadlineMs: world.monotonicMs() + callBudgetMs, ...given }));
      end(`done ${answer.txid} ${answer.durableTxid}`);
      return answer;
    } catch (error) {
      if (error instanceof Violation) throw error;
      if (error instanceof ProcessGone) end("gone");
      else if (error instanceof ServiceError && ["unavailable", "request_timeout", "overloaded"].includes(error.code)) end(`${error.code} ${error.message}`);
      else throw new Violation(`${what} at ${node.name} ended in ${error instanceof Error ? error.stack : String(error)}`);
      return undefined;
    }
  }

  /** What a node answers as done on its own disk alone it must hold alone, whatever it believes. */
  #answered(node: SharedNode, { uuid }: Target, call: PortCall, { txid, durableTxid }: Answer): void {
    if (call.kind !== "write" || durableTxid >= txid) return;
    const { nowMs } = this.#scheduler;
    const { holder } = this.#table.holding(uuid);
    // An answer on its way through the process is stopped together with it.
    if (holder?.nodeId === node.sim.nodeId || nowMs < this.#leasesFailedUntilMs || nowMs - node.resumedAtMs < 2) return;
    this.#trial.fail(new Violation(`${node.name} answered a write (txid ${txid}, durable ${durableTxid}) from its own disk, but ${holder?.nodeId ?? "nobody"} holds the database`));
  }

  /** In every third run nodes end in order only, and object storage answers soon: nothing at all may be lost. */
  get #isMild(): boolean {
    return this.#seed % 3 === 0;
  }

  async #mishap(): Promise<void> {
    const nodes = [...this.#nodes.values()];
    const node = nodes[Math.floor(this.#random() * nodes.length)]!;
    const mishap = { fromMs: this.#scheduler.nowMs, toMs: this.#scheduler.nowMs };
    if (!node.sim.up) return node.start();
    const draw = this.#random();
    // An orderly end is none: nothing may be lost by it.
    if (draw < 0.12 || this.#isMild) return this.#stop(node);
    this.#mishaps.push(mishap);
    await this.#befall(node, draw);
    mishap.toMs = this.#scheduler.nowMs;
  }

  async #befall(node: SharedNode, draw: number): Promise<void> {
    const world = node.sim.world!;
    const { nodeId } = node.sim;
    const note = (what: string): void => {
      this.#counts[what] = (this.#counts[what] ?? 0) + 1;
      this.#scheduler.note(world.name, what);
    };
    if (draw < 0.3) {
      const crash: Crash = draw < 0.18 ? "kill" : draw < 0.24 ? "power" : "loss";
      note("crash");
      this.#crashes++;
      node.crash(crash);
      return this.#scheduler.sleep(this.#random() * 30_000).then(() => node.start());
    }
    if (draw < 0.6) {
      const isSuspended = draw < 0.45;
      note(isSuspended ? "suspended" : "paused");
      world.pause();
      const forMs = this.#random() * 60_000;
      await this.#scheduler.sleep(forMs);
      if (isSuspended) world.suspendedMs += forMs;
      node.resumedAtMs = this.#scheduler.nowMs;
      note("resumed");
      return world.resume();
    }
    if (draw < 0.7) {
      note("clock jumps");
      return node.sim.turnClock(turnedClock(this.#random, world.skewMs, 3_600_000));
    }
    if (draw < 0.85) {
      note("cut off from the leases");
      this.#table.cut(nodeId);
      await this.#scheduler.sleep(this.#random() * 60_000);
      return this.#table.mend(nodeId);
    }
    if (draw < 0.93) {
      note("lease revoked");
      this.#leasesFailedUntilMs = this.#scheduler.nowMs + quietMs;
      return this.#table.revoke(nodeId);
    }
    note("leases lost");
    this.#leasesFailedUntilMs = this.#scheduler.nowMs + quietMs;
    this.#table.wipe();
  }

  async #stop(node: SharedNode): Promise<void> {
    this.#counts["stopped"] = (this.#counts["stopped"] ?? 0) + 1;
    await node.stop();
    await this.#scheduler.sleep(this.#random() * 10_000);
    node.start();
  }

  #anyUp(random = this.#random): SharedNode | undefined {
    const up = [...this.#nodes.values()].filter(({ sim }) => sim.up && sim.world?.fate === "alive");
    return up[Math.floor(random() * up.length)];
  }

  /** Once everything is at rest: what was answered is there, and every read saw a state of the one history. */
  async #lastLook(uuid: string): Promise<void> {
    const keys = await this.#patiently(() => this.#read(this.#anyUp()!, uuid));
    await this.#patiently(async () => (await this.#write(this.#anyUp()!, uuid, true)) || undefined);
    for (const { key, atMs, isDurable } of this.#acknowledged.filter((one) => one.uuid === uuid)) {
      if (keys.has(key) || atMs > this.#scheduler.nowMs - quietMs) continue;
      if (isDurable) throw new Violation(`${key} was durable and is lost`);
      this.#counts["standard lost"] = (this.#counts["standard lost"] ?? 0) + 1;
      if (!this.#isExcused(atMs)) throw new Violation(`${key} was answered at ${atMs.toFixed(0)} and is lost, though nothing befell anybody around that time`);
    }
    for (const seen of this.#seen.filter((one) => one.uuid === uuid)) {
      // What a node had not shipped when it went down is shipped when it comes back, unless somebody has claimed the branch.
      const missed = this.#acknowledged.find((one) => one.uuid === uuid && one.atMs < seen.begunAtMs && keys.has(one.key) && !seen.keys.has(one.key) && !this.#isExcused(one.atMs));
      if (missed) throw new Violation(`a primary read at ${seen.begunAtMs.toFixed(0)} did not see ${missed.key}, which was answered at ${missed.atMs.toFixed(0)} and is there`);
    }
    for (const shown of this.#shown.filter((one) => one.uuid === uuid)) {
      const wrong = this.#acknowledged.find((one) => one.uuid === uuid && keys.has(one.key) && one.txid <= shown.txid !== shown.keys.has(one.key));
      if (wrong) throw new Violation(`${shown.by} showed a state ${shown.txid} ${shown.keys.has(wrong.key) ? "with" : "without"} ${wrong.key}, which is of ${wrong.txid}`);
    }
    this.#audit.whole(uuid);
  }

  /** Whether something befell a node before a standard write of this time was surely shipped. */
  #isExcused(atMs: number): boolean {
    return this.#mishaps.some(({ fromMs, toMs }) => atMs >= fromMs - shippedWithinMs && atMs <= toMs + shippedWithinMs);
  }

  async #patiently<Value>(act: () => Promise<Value | undefined>): Promise<Value> {
    for (let tries = 0; tries < 60; tries++) {
      const value = await act();
      if (value !== undefined) return value;
      await this.#scheduler.sleep(1_000);
    }
    throw new Violation("a minute after everything was at rest there is no answer yet");
  }
}

/** Runs a seed. */
export function simulateShared(seed: number, given: { readonly bugs?: SharedBugs; readonly keepTrace?: boolean } = {}): Promise<Outcome> {
  return new SharedSimulation(seed, given.bugs ?? {}, given.keepTrace ? Infinity : lastLines).run();
}
