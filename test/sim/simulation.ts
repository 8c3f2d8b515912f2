/**
 * One run: a node, its clients, and a story of faults, all from one seed; at the end a quiet time in which everything
 * must come to rest, and a last look at everything that was ever answered.
 */
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ServiceError, StoreError } from "../../src/base/faults/errors.ts";
import { Databases } from "../../src/control/databases/databases.ts";
import { listed } from "../../src/store/port/listing.ts";
import type { BranchModel } from "./branch-model.ts";
import { DatabaseModel } from "./branch-model.ts";
import type { Kind } from "./changes.ts";
import { Violation } from "./asks.ts";
import { Clients } from "./clients.ts";
import { HostileStore } from "./hostile-store.ts";
import { outside, Scheduler, stream } from "./scheduler.ts";
import { soundDisk } from "./sim-disk.ts";
import { ProcessGone, SimNode, turnedClock, type Crash } from "./sim-node.ts";
import { StoreAudit, type Claim } from "./store-audit.ts";
import { lastLines, Trial, type Outcome } from "./trial.ts";
import type { Plot, Bugs } from "./plot.ts";

const kinds: readonly Kind[] = ["kv", "sql", "memory", "docs"];
/** Everything must come to rest within this once the faults have stopped. */
const quietMsMax = 180_000;
const storyMsMax = 24 * 3_600_000;
/** How often a name's claim is tried while faults go on. */
const namingTriesMax = 50;

class Simulation {
  readonly #seed: number;
  readonly #plot: Plot;
  readonly #scheduler: Scheduler;
  readonly #directory = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "palimpsest-sim-"));
  readonly #store: HostileStore;
  readonly #audit: StoreAudit;
  readonly #nodes: readonly SimNode[];
  /** The node that clients turn to. */
  #node: SimNode;
  readonly #clients: Clients;
  readonly #databases: DatabaseModel[];
  readonly #random: () => number;
  readonly #trial: Trial;
  #crashes = 0;
  #calm = false;
  /** A node has lost its disk, or an older one came back: what it had made ahead is known to nobody. */
  #hasForgotten = false;

  constructor(seed: number, plot: Plot, bugs: Bugs, linesMax: number) {
    this.#seed = seed;
    this.#plot = plot;
    this.#random = stream(seed, "story");
    this.#scheduler = new Scheduler(seed, linesMax);
    this.#trial = new Trial(this.#scheduler);
    this.#audit = new StoreAudit(() => this.#store, {
      claimed: (uuid, id, claim) => this.#claimed(uuid, id, claim),
      rewound: (uuid, id, toTxid, txid) => this.#database(uuid)!.branch(id)!.rewound(toTxid, txid),
      forked: (uuid, branch) => this.#database(uuid)!.forked(branch, this.#scheduler.nowMs),
      deleted: (uuid, id) => this.#database(uuid)!.deleted(id, this.#scheduler.nowMs),
    });
    this.#store = new HostileStore(this.#scheduler, seed, plot.store, bugs, (key, before, after) =>
      this.#audit.changed(key, before, after),
    );
    const nodeOptions = {
      scheduler: this.#scheduler,
      seed,
      store: this.#store,
      directory: this.#directory,
      disk: () => (this.#calm ? soundDisk : plot.disk),
      diskLies: bugs.diskLies ?? false,
      diskFailed: (node: SimNode) => this.#diskFailed(node),
      engine: plot.engine,
    };
    this.#nodes = [new SimNode("a", nodeOptions), new SimNode("b", nodeOptions)];
    this.#node = this.#nodes[0]!;
    this.#clients = new Clients({
      node: () => this.#node,
      isAlone: () => this.#nodes.every((node) => node === this.#node || !node.up),
      undos: plot.undos ?? 0,
      scheduler: this.#scheduler,
      random: stream(seed, "clients"),
      coveredTxid: (branch) => this.#audit.coveredTxid(branch),
      isLost: (branch, txid) => this.#audit.isLost(branch, txid),
      mayFail: () => !this.#calm,
      mayBeCorrupt: () => !this.#calm || this.#store.rotten.size > 0,
    });
    this.#databases = Array.from(
      { length: plot.databases },
      (_, index) => new DatabaseModel(`00000000-0000-4000-8000-${String(index + 1).padStart(12, "0")}`),
    );
    const maybeCrash = (node: SimNode, point = ""): void => {
      const chance = point === "answered" ? plot.crashAtAnswer : plot.crashAtPoint;
      if (node === this.#node && !this.#calm && this.#random() < chance)
        this.#crash(point === "answered" || this.#random() < 0.5 ? "power" : "kill");
    };
    for (const node of this.#nodes) node.atCrashPoint = (point) => maybeCrash(node, point);
    this.#store.atApplied = (world) => {
      if (world === this.#node.world) maybeCrash(this.#node);
    };
  }

  async run(): Promise<Outcome> {
    await this.#trial.run(
      () => this.#story(),
      storyMsMax,
      () => {
        for (const node of this.#nodes) node.crash("loss");
      },
    );
    for (const node of this.#nodes) node.dispose();
    rmSync(this.#directory, { recursive: true, force: true });
    const counts = { ...this.#clients.counts, ...this.#store.counts };
    return this.#trial.outcome({ seed: this.#seed, crashes: this.#crashes, counts });
  }

  async #story(): Promise<void> {
    this.#node.start();
    let acting = 0;
    for (const database of this.#databases) {
      for (let client = 0; client < this.#plot.clientsPerDatabase; client++) {
        acting++;
        this.#clients.act(database, this.#plot.callsPerClient).then(() => acting--, this.#trial.fail);
      }
    }
    for (let index = 0; index < this.#plot.named; index++) {
      acting++;
      this.#actOnNamed(`late--${index}`).then(() => acting--, this.#trial.fail);
    }
    let faults = 0;
    while (acting > 0) {
      await this.#scheduler.sleep(this.#node.up ? 200 + this.#random() * 6_000 : this.#random() * 2_000);
      if (!this.#node.up) await this.#restart();
      else if (faults++ < this.#plot.faults) await this.#fault();
    }
    await this.#ending();
  }

  /** A name gets a database, however often that must be asked for, and a client acts on it. */
  async #actOnNamed(name: string): Promise<void> {
    for (let tries = 0; tries < namingTriesMax; tries++) {
      await this.#scheduler.sleep(1_000 + this.#random() * 20_000);
      const uuid = await this.#nameDatabase(name);
      if (uuid === undefined) continue;
      if (this.#database(uuid)) throw new Violation(`${name} has a database that another name has: ${uuid}`);
      const database = new DatabaseModel(uuid);
      this.#databases.push(database);
      return this.#clients.act(database, this.#plot.callsPerClient);
    }
  }

  /** Undefined when the node or its store did not answer. */
  async #nameDatabase(name: string): Promise<string | undefined> {
    try {
      const node = this.#node;
      const { uuid } = await node.call((client, world) =>
        new Databases(node.openStore(world), world, client.spares).ensure(name),
      );
      this.#scheduler.note("-", `${name} is ${uuid}`);
      return uuid;
    } catch (error) {
      if (error instanceof ProcessGone || error instanceof StoreError || error instanceof ServiceError)
        return undefined;
      throw error;
    }
  }

  async #fault(): Promise<void> {
    const draw = this.#random();
    const world = this.#node.world!;
    if (this.#random() < this.#plot.takeovers) return this.#takeover();
    if (this.#random() < this.#plot.rollbacks) return this.#rollback();
    if (draw < 0.3) return this.#crash("kill");
    if (draw < 0.55) return this.#crash("power");
    if (draw < 0.65) return this.#crash("loss");
    if (draw < 0.75) return this.#node.turnClock(turnedClock(this.#random, world.skewMs, 7_200_000));
    if (draw < 0.85) {
      this.#scheduler.note(world.name, "paused");
      world.pause();
      await this.#scheduler.sleep(this.#random() * 60_000);
      this.#scheduler.note(world.name, "resumed");
      return world.resume();
    }
    if (draw < 0.93) return this.#store.storm(this.#random() * 300_000);
    await this.#stopInOrder();
    if (!this.#node.up) await this.#restart();
  }

  /** The disk goes back to a snapshot, which the manifest shows when it has moved on since. */
  async #rollback(): Promise<void> {
    const node = this.#node;
    const { incarnation } = node;
    node.snapshot();
    const held = this.#databases
      .flatMap(({ branches }) => [...branches.values()])
      .map((branch) => ({ branch, toTxid: branch.greatestTxid(this.#scheduler.nowMs) }));
    await this.#scheduler.sleep(2_000 + this.#random() * 5_000);
    // What is answered now is covered by nothing but this disk.
    this.#store.storm(2_000);
    await this.#scheduler.sleep(this.#random() * 2_000);
    if (node !== this.#node || !node.up || node.incarnation !== incarnation) return;
    const isSeen = held.every(({ branch, toTxid }) => (this.#audit.coveredTxid(branch) ?? 0) > toTxid);
    this.#crash(isSeen ? "rollback" : "kill");
  }

  #diskFailed(node: SimNode): void {
    if (node !== this.#node || this.#calm || this.#random() >= this.#plot.powerAfterFailure) return;
    const { incarnation } = node;
    this.#scheduler.at(this.#random() * 3_000, outside, "power after a failure", () => {
      if (node === this.#node && !this.#calm && node.incarnation === incarnation) this.#crash("power");
    });
  }

  async #stopInOrder(): Promise<void> {
    this.#clients.shut();
    // It may die on its way.
    const stopping = this.#node.stop().catch((error: unknown) => {
      if (!(error instanceof ProcessGone)) throw error;
    });
    await Promise.race([stopping, this.#scheduler.sleep(60_000)]);
    if (this.#node.up) this.#crash("kill");
  }

  #crash(kind: Crash): void {
    if (!this.#node.up) return;
    this.#crashes++;
    this.#clients.shut();
    this.#node.crash(kind);
    if (kind !== "loss" && kind !== "rollback") return;
    this.#hasForgotten = true;
    this.#eachBranch((branch) => branch.nodeLost());
  }

  /** Another node takes over while this one does not know it, or does not believe it. */
  async #takeover(): Promise<void> {
    const old = this.#node;
    const next = this.#nodes.find((node) => node !== old)!;
    if (next.up) return;
    const { name } = old.world!;
    const pauses = this.#random() < 0.6;
    this.#scheduler.note(name, pauses ? "is paused and superseded" : "is superseded");
    if (pauses) old.world!.pause();
    this.#eachBranch((branch) => branch.nodeLost());
    this.#node = next;
    const known = new Set(this.#branches());
    next.start();
    await this.#scheduler.sleep(this.#random() * 30_000);
    old.world?.resume();
    for (let stray = 0; stray < 3 && old.up; stray++) {
      // What has the name of one that was deleted meanwhile is another branch, which the old node cannot know of.
      const branches = this.#branches().filter((branch) => known.has(branch));
      const branch = branches[Math.floor(this.#random() * branches.length)];
      if (branch) await this.#clients.write(branch, "kv", this.#random() < 0.5, old);
      await this.#scheduler.sleep(this.#random() * 2_000);
    }
    old.crash(this.#random() < 0.5 ? "kill" : "power");
    // Whoever answered an outcome of the contest is known only from here on.
    this.#crash("kill");
  }

  #claimed(uuid: string, id: string, { node, lost }: Claim): void {
    const branch = this.#database(uuid)?.branch(id);
    this.#scheduler.note(
      "-",
      `${node} claims ${id} of ${uuid}${lost ? `, ${lost.firstTxid} to ${lost.lastTxid} are lost` : ""}`,
    );
    if (!branch) return;
    if (lost) branch.lost(lost.firstTxid, lost.lastTxid);
    if (
      branch.ttlAtMs === undefined &&
      branch.goneAtMs === undefined &&
      node === this.#node.nodeId &&
      this.#nodes.every((other) => other === this.#node || !other.up)
    )
      branch.mayLose = false;
  }

  #database(uuid: string): DatabaseModel | undefined {
    return this.#databases.find((database) => database.uuid === uuid);
  }

  #eachBranch(act: (branch: BranchModel) => void): void {
    for (const database of this.#databases) for (const branch of database.branches.values()) act(branch);
  }

  async #restart(): Promise<void> {
    // Whoever was in the middle of a call learns first that it is lost.
    while (this.#clients.underWay > 0) await this.#scheduler.sleep(1);
    // A new process reads the catalog.
    this.#eachBranch((branch) => (branch.isKnown = true));
    this.#node.start();
    this.#clients.open();
  }

  /** The faults stop; everything must come to rest, and everything that was answered must be there. */
  async #ending(): Promise<void> {
    this.#calm = true;
    for (const node of this.#nodes) node.takeDose();
    this.#scheduler.note("-", "the faults stop");
    this.#store.calmDown();
    if (!this.#node.up) await this.#restart();
    await this.#within("the last look", this.#lookAtAll());
    const kind: Crash = this.#random() < 0.5 ? "kill" : "power";
    this.#crash(kind);
    await this.#restart();
    await this.#within(`the look after a last ${kind}`, this.#lookAtAll());
    if (this.#store.rotten.size > 0) return;
    await this.#lookForGarbage();
    await this.#within("syncing everything", this.#syncAll());
    await this.#restoreAll();
    this.#crash("loss");
    await this.#restart();
    await this.#within("the look after the loss of the node", this.#lookAtAll());
  }

  /**
   * What a process has made ahead and nobody has is gone, but for what a node knows of: it goes when that starts. No
   * removal can be behind a put that comes when its sender and all traces of the database are gone: what is then there
   * is an object of a database that never had a name, which doctor tells of.
   */
  async #lookForGarbage(): Promise<void> {
    const { gcGraceMs = 0 } = this.#plot.engine;
    if (this.#hasForgotten || this.#plot.named === 0 || gcGraceMs > quietMsMax) return;
    await this.#scheduler.sleep(3 * gcGraceMs);
    const known = new Set(this.#databases.map(({ uuid }) => uuid));
    for (const node of this.#nodes) for (const uuid of listNotes(node)) known.add(uuid);
    for await (const { key } of listed(this.#store.calm, "db/"))
      if (!known.has(key.split("/")[1]!) && !this.#store.cameLate.has(key))
        throw new Violation(`nobody knows of ${key}`);
  }

  async #lookAtAll(): Promise<void> {
    for (const branch of this.#branches()) {
      for (const kind of kinds) await this.#patiently(branch, () => this.#clients.read(branch, kind));
      await this.#patiently(branch, () => this.#clients.write(branch, "kv", true));
      await this.#patiently(branch, () => this.#clients.read(branch, "kv"));
    }
  }

  async #syncAll(): Promise<void> {
    for (const branch of this.#branches()) await this.#patiently(branch, () => this.#clients.sync(branch));
  }

  /**
   * Tries again until it is answered; the quiet time bounds how long that may take. What has rotted may stay refused.
   */
  async #patiently(branch: BranchModel, act: () => Promise<boolean>): Promise<void> {
    for (let tries = 0; !(await act()); tries++) {
      if (this.#store.rotten.size > 0 && tries > 3) return;
      if (!this.#branches().includes(branch)) return;
      await this.#scheduler.sleep(1_000);
    }
  }

  async #restoreAll(): Promise<void> {
    for (const branch of this.#branches()) {
      this.#audit.whole(branch.database.uuid);
      await this.#audit.restores(branch, this.#directory);
      for (let look = 0; look < 3; look++) {
        const txid = branch.pastTxid(this.#random);
        if (txid !== undefined) await this.#audit.restores(branch, this.#directory, txid);
      }
    }
  }

  #branches(): BranchModel[] {
    return this.#databases
      .flatMap((database) => [...database.branches.values()])
      .filter((branch) => branch.isKnown && branch.ttlAtMs === undefined);
  }

  async #within(what: string, act: Promise<void>): Promise<void> {
    const late = this.#scheduler.sleep(quietMsMax).then(() => {
      throw new Violation(`${what} took more than ${quietMsMax / 1_000} s after the faults had stopped`);
    });
    late.catch(() => {});
    await Promise.race([act, late]);
  }
}

/** Uuids of what the node has made ahead, or a process before has. */
function listNotes({ directory, leftDirectory }: SimNode): string[] {
  const root = directory ?? leftDirectory;
  const path = root && join(root, "spares");
  return path && existsSync(path) ? readdirSync(path) : [];
}

/** Runs a seed. */
export async function simulate(
  seed: number,
  given: { readonly plot: Plot; readonly bugs?: Bugs; readonly keepTrace?: boolean },
): Promise<Outcome> {
  return new Simulation(seed, given.plot, given.bugs ?? {}, given.keepTrace ? Infinity : lastLines).run();
}
