/**
 * One run of several nodes that share databases: clients write unique keys through any of them, fork, rewind and delete
 * branches, delete databases and take their names anew, while processes stop, machines sleep, clocks jump, nodes die or
 * lose sight of the coordination store, all from one seed.
 *
 * What must hold: no durable answer is lost; a standard one only when something befell a node around that time; no
 * standard answer leaves a node that another one could have replaced; a primary read sees what was answered before it;
 * a read of whatever copy shows a state of the branch's one history, as new as was asked for and never older than what
 * this process has shown to be durable; what is deleted stays deleted, and what takes its name shows nothing of it; and
 * the manifests in object storage form one chain (test/sim/store-audit).
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Answer, Target } from "../../src/engine/api/protocol.ts";
import type { PortCall } from "../../src/engine/api/engine-port.ts";
import { CopyRecords } from "../../src/control/databases/copy-records.ts";
import { databasePrefix, purgeKey } from "../../src/format/keys/object-keys.ts";
import { LeaseTable } from "../support/shared-leases.ts";
import type { DatabaseModel } from "./branch-model.ts";
import { Violation } from "./asks.ts";
import { HostileStore, type StoreBugs, type StoreDose } from "./hostile-store.ts";
import { Mishaps } from "./mishaps.ts";
import { NamesModel } from "./names-model.ts";
import { Scheduler, stream } from "./scheduler.ts";
import { SharedClients } from "./shared-clients.ts";
import { planActs } from "./acts-dose.ts";
import { SharedNode } from "./shared-node.ts";
import { soundDisk } from "./sim-disk.ts";
import { SimNode, turnedClock, type Crash } from "./sim-node.ts";
import { StoreAudit } from "./store-audit.ts";
import { lastLines, Trial, type Outcome } from "./trial.ts";

/** Planted bugs. */
export interface SharedBugs extends StoreBugs {
  readonly leasesNeverEnd?: boolean;
}

const nodesCount = 3;
const names = ["x", "y"];
const clientsPerName = 2;
const callsPerClient = 100;
const storyMsMax = 7_200_000;
const quietMs = 30_000;
/** By then everything of a deleted database is gone: it goes after a grace, and what comes late within six more. */
const purgedWithinMs = 1_800_000;

class SharedSimulation {
  readonly #seed: number;
  readonly #scheduler: Scheduler;
  readonly #random: () => number;
  readonly #directory = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "palimpsest-shared-"));
  readonly #store: HostileStore;
  readonly #audit: StoreAudit;
  readonly #table: LeaseTable;
  readonly #nodes = new Map<string, SharedNode>();
  readonly #names: NamesModel;
  readonly #clients: SharedClients;
  readonly #mishaps = new Mishaps();
  readonly #counts: Record<string, number> = {};
  #crashes = 0;
  /** Nodes that will never come back. */
  readonly #lostDisks: string[] = [];
  /** Until when leases may be held by two, as the coordination store has failed. */
  #leasesFailedUntilMs = -Infinity;
  readonly #trial: Trial;

  constructor(seed: number, bugs: SharedBugs, linesMax: number) {
    this.#seed = seed;
    const random = (this.#random = stream(seed, "shared story"));
    const scheduler = (this.#scheduler = new Scheduler(seed, linesMax));
    this.#trial = new Trial(scheduler);
    this.#names = new NamesModel(() => scheduler.nowMs);
    const database = (uuid: string): DatabaseModel => this.#names.database(uuid)!;
    this.#audit = new StoreAudit(() => this.#store, {
      claimed: (uuid, id, { lost }) => {
        if (lost) database(uuid).branch(id)?.lost(lost.firstTxid, lost.lastTxid);
      },
      rewound: (uuid, id, toTxid, txid) => database(uuid).branch(id)!.rewound(toTxid, txid),
      forked: (uuid, branch) => database(uuid).forked(branch, scheduler.nowMs),
      deleted: (uuid, id) => database(uuid).deleted(id, scheduler.nowMs),
    });
    this.#audit.mayJump = true;
    const dose: StoreDose = {
      latencyMsMax: 5 + random() * 60,
      slow: this.#isMild ? 0 : 0.01,
      requestLost: random() * 0.03,
      answerLost: random() * 0.03,
      late: random() * 0.03,
      refused: random() * 0.05,
      damagedGet: 0,
      staleList: 0,
      rot: 0,
    };
    this.#store = new HostileStore(scheduler, seed, dose, bugs, (key, before, after) => {
      this.#names.changed(key, before, after);
      this.#audit.changed(key, before, after);
    });
    this.#table = new LeaseTable({ monotonicMs: () => scheduler.nowMs });
    this.#clients = new SharedClients({
      scheduler,
      random: stream(seed, "shared clients"),
      up: () => this.#up(),
      names: this.#names,
      dose: planActs(seed),
      areLeasesBroken: () => scheduler.nowMs < this.#leasesFailedUntilMs,
      isAnyCut: () => this.#table.isAnyCut,
      leftUnanswered: (...asked) => this.#store.leftUnanswered(...asked),
    });
    const engine = { coordinated: true, gcGraceMs: stream(seed, "grace")() < 0.5 ? 20_000 : 60_000 };
    const nodeOptions = {
      scheduler,
      seed,
      store: this.#store,
      directory: this.#directory,
      disk: () => ({ ...soundDisk, fsyncMsMax: 3 }),
      diskLies: false,
      engine,
    };
    const parts = {
      scheduler,
      table: this.#table,
      random: stream(seed, "hops"),
      nodes: this.#nodes,
      hints: stream(seed, "hints")() < 0.3,
      leasesNeverEnd: bugs.leasesNeverEnd ?? false,
      // Object storage did not answer for longer than a node that stops can wait.
      handedOverShort: () => void this.#mishaps.add({ fromMs: scheduler.nowMs, toMs: scheduler.nowMs }),
      answered: (node: SharedNode, target: Target, call: PortCall, answer: Answer) =>
        this.#answered(node, target, call, answer),
    };
    for (let index = 0; index < nodesCount; index++) {
      const name = "abc"[index]!;
      this.#nodes.set(name, new SharedNode(new SimNode(name, nodeOptions), parts));
    }
  }

  async run(): Promise<Outcome> {
    await this.#trial.run(
      () => this.#story(),
      storyMsMax,
      () => {
        for (const node of this.#nodes.values()) node.crash("loss");
      },
    );
    for (const node of this.#nodes.values()) node.sim.dispose();
    rmSync(this.#directory, { recursive: true, force: true });
    const counts = { ...this.#clients.counts, ...this.#counts, ...this.#store.counts };
    return this.#trial.outcome({ seed: this.#seed, crashes: this.#crashes, counts });
  }

  async #story(): Promise<void> {
    for (const node of this.#nodes.values()) node.start();
    await this.#scheduler.sleep(100);
    let acting = 0;
    for (const name of names) {
      for (let client = 0; client < clientsPerName; client++) {
        acting++;
        this.#clients.act(name, callsPerClient).then(() => acting--, this.#trial.fail);
      }
    }
    while (acting > 0) {
      await this.#scheduler.sleep(this.#random() * 15_000);
      if (acting > 0) await this.#mishap();
    }
    this.#scheduler.note("-", "the faults stop");
    this.#store.calmDown();
    await this.#scheduler.sleep(quietMs);
    for (const node of this.#nodes.values()) if (!node.sim.up) node.start();
    await this.#scheduler.sleep(quietMs);
    await this.#ending();
  }

  /** What a node answers as done on its own disk alone it must hold alone, whatever it believes. */
  #answered(node: SharedNode, { uuid }: Target, call: PortCall, { txid, durableTxid }: Answer): void {
    if (call.kind !== "write" || durableTxid >= txid) return;
    const { nowMs } = this.#scheduler;
    const { holder } = this.#table.holding(uuid);
    // An answer on its way through the process is stopped together with it.
    if (holder?.nodeId === node.sim.nodeId || nowMs < this.#leasesFailedUntilMs || nowMs - node.resumedAtMs < 2) return;
    this.#trial.fail(
      new Violation(
        `${node.name} answered a write (txid ${txid}, durable ${durableTxid}) from its own disk, ` +
          `but ${holder?.nodeId ?? "nobody"} holds the database`,
      ),
    );
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
    this.#mishaps.add(mishap);
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
      if (crash === "loss") this.#lostDisks.push(nodeId);
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

  #up(): readonly SharedNode[] {
    return [...this.#nodes.values()].filter(({ sim }) => sim.up && sim.world?.fate === "alive");
  }

  /** Once everything is at rest: every node agrees about what there is, and what was answered is there. */
  async #ending(): Promise<void> {
    this.#clients.isCalm = true;
    for (const name of names) {
      for (const node of this.#nodes.values()) await this.#patiently(() => this.#clients.find(node, name));
    }
    for (const database of this.#names.all()) {
      if (database.goneAtMs === undefined) await this.#lookAt(database);
      const lost = this.#mishaps.account(database);
      if (lost > 0) this.#counts["standard lost"] = (this.#counts["standard lost"] ?? 0) + lost;
    }
    this.#mishaps.accountForReads(this.#clients.seen, this.#clients.wentBack);
    const dropped = [...this.#names.all()].filter(({ goneAtMs }) => goneAtMs !== undefined);
    for (const { uuid } of dropped) await this.#isPurged(uuid);
  }

  async #lookAt(database: DatabaseModel): Promise<void> {
    const clients = this.#clients;
    for (const branch of database.branches.values()) {
      await this.#patiently(() => answered(clients.read(clients.anyUp()!, branch, "primary", true, "kv")));
      await this.#patiently(async () => (await clients.write(clients.anyUp()!, branch, true)) || undefined);
      for (const node of this.#nodes.values())
        for (const kind of ["kv", "docs"] as const)
          await this.#patiently(() => answered(clients.read(node, branch, "plain", true, kind)));
      await this.#audit.restores(branch, this.#directory);
      const past = branch.pastTxid(this.#random, true);
      if (past !== undefined) await this.#audit.restores(branch, this.#directory, past);
    }
    const gone = new Set(
      [...database.everyBranch()].map(({ name }) => name).filter((name) => !database.branches.has(name)),
    );
    for (const name of gone) {
      const last = database.named(name).at(-1)!;
      for (const node of this.#nodes.values()) {
        for (const consistency of ["primary", "plain", "cached"] as const)
          await this.#patiently(async () =>
            (await clients.read(node, last, consistency)) === "gone" ? true : undefined,
          );
      }
    }
    this.#audit.whole(database.uuid);
  }

  /**
   * Nothing is left of a deleted database, neither in object storage nor on a node's disk, once an operator has said
   * which disks are destroyed.
   */
  async #isPurged(uuid: string): Promise<void> {
    const { world } = this.#up()[0]!.sim;
    for (const nodeId of this.#lostDisks) await new CopyRecords(this.#store.calm, world!).forget(nodeId);
    const isLeft = (): string | undefined =>
      [...this.#store.keys()].find((key) => key.startsWith(databasePrefix(uuid)) || key === purgeKey(uuid));
    const untilMs = this.#scheduler.nowMs + purgedWithinMs;
    while (isLeft() !== undefined && this.#scheduler.nowMs < untilMs) await this.#scheduler.sleep(quietMs);
    const left = isLeft();
    if (left !== undefined) throw new Violation(`${left} is left of a database that was deleted`);
    for (const { name, sim } of this.#nodes.values())
      if (existsSync(join(sim.directory!, "db", uuid)))
        throw new Violation(`${name} has files of ${uuid}, which was deleted`);
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

async function answered(reading: Promise<Answer<string[]> | string>): Promise<true | undefined> {
  return typeof (await reading) === "string" ? undefined : true;
}

/** Runs a seed. */
export function simulateShared(
  seed: number,
  given: { readonly bugs?: SharedBugs; readonly keepTrace?: boolean } = {},
): Promise<Outcome> {
  return new SharedSimulation(seed, given.bugs ?? {}, given.keepTrace ? Infinity : lastLines).run();
}
