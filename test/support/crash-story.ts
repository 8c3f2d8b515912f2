/**
 * A node that does one of everything and dies at a chosen crash point, and the look at what it left.
 *
 * Owns the story: two databases, and one that a name gets of those made ahead; every data model, standard and durable
 * writes, sync, fork, checkpoint, rewind, deletion of a branch, packs, a new base image, collection, another node in
 * between, in order and not. It runs on the
 * simulation's virtual time (test/sim), so that one seed is one order of events and the n-th time a point is reached is
 * always the same moment. At that moment the process is gone: its timers and promises never settle, and its directory
 * is copied as it is.
 */
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CrashPoint } from "../../src/base/world.ts";
import { Databases } from "../../src/control/databases/databases.ts";
import { packRefsMin } from "../../src/engine/compaction/timeline-length.ts";
import { listed } from "../../src/store/port/listing.ts";
import type { BranchModel } from "../sim/branch-model.ts";
import { DatabaseModel } from "../sim/branch-model.ts";
import type { Kind } from "../sim/changes.ts";
import { Violation } from "../sim/asks.ts";
import { Clients } from "../sim/clients.ts";
import { HostileStore, noFaults, type StoreBugs } from "../sim/hostile-store.ts";
import { Scheduler, stream } from "../sim/scheduler.ts";
import { soundDisk } from "../sim/sim-disk.ts";
import { SimNode, type Crash } from "../sim/sim-node.ts";
import { StoreAudit } from "../sim/store-audit.ts";
import { uuidOf } from "./inline-engine.ts";
import { callBudgetMs, getTarget, Interrupted, StoryCalls, together } from "./story-calls.ts";

/** When and how the node dies. */
export interface CrashPlan {
  readonly point: CrashPoint;
  /** It dies when the point is reached for the n-th time. */
  readonly nth: number;
  readonly fate: Crash;
  /** Once more, by a kill, at the n-th crash point of whatever kind that the recovery reaches. */
  readonly againAt?: number;
}

export interface StoryEnd {
  readonly failure: Error | undefined;
  /** How often each point was reached before the node died. */
  readonly reached: ReadonlyMap<CrashPoint, number>;
  readonly crashes: number;
  /** The trace's last lines. */
  readonly lines: readonly string[];
}

/** Planted faults, which the story must see. */
export interface StoryBugs extends StoreBugs {
  readonly diskLies?: boolean;
}

const kinds: readonly Kind[] = ["kv", "sql", "memory", "docs"];
const storyMsMax = 3_600_000;
const bigBytes = 1024 * 1024;
const lastLines = 60;
const engineOptions = {
  gcGraceMs: 5_000,
  pitrMs: 30_000,
  idleCloseMs: 20_000,
  logCheckpointBytes: 64 * 1024,
  spareDatabases: 2,
};
/** The name of the database that comes last. */
const lateName = "tenant--late";

class Story {
  readonly #plan: CrashPlan | undefined;
  readonly #scheduler: Scheduler;
  readonly #directory = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "palimpsest-story-"));
  readonly #store: HostileStore;
  readonly #audit: StoreAudit;
  readonly #nodes: readonly SimNode[];
  #node: SimNode;
  readonly #clients: Clients;
  readonly #calls: StoryCalls;
  readonly #databases = [1, 2].map((number) => new DatabaseModel(uuidOf(number)));
  readonly #random: () => number;
  readonly #reached = new Map<CrashPoint, number>();
  #crashes = 0;
  #reachedInRecovery = 0;
  #recovering = false;
  #failure: Error | undefined;

  constructor(seed: number, plan: CrashPlan | undefined, bugs: StoryBugs) {
    this.#plan = plan;
    this.#random = stream(seed, "story");
    this.#scheduler = new Scheduler(seed, lastLines);
    this.#audit = new StoreAudit(() => this.#store, {
      claimed: (uuid, id, { lost }) => {
        if (lost) this.#database(uuid)?.branch(id)?.lost(lost.firstTxid, lost.lastTxid);
      },
      rewound: (uuid, id, toTxid, txid) => this.#database(uuid)!.branch(id)!.rewound(toTxid, txid),
      forked: (uuid, branch) => this.#database(uuid)!.forked(branch, this.#scheduler.nowMs),
      deleted: (uuid, id) => this.#database(uuid)!.deleted(id, this.#scheduler.nowMs),
    });
    this.#store = new HostileStore(this.#scheduler, seed, noFaults, bugs, (key, before, after) =>
      this.#audit.changed(key, before, after),
    );
    const options = {
      scheduler: this.#scheduler,
      seed,
      store: this.#store,
      directory: this.#directory,
      disk: () => soundDisk,
      diskLies: bugs.diskLies ?? false,
      engine: engineOptions,
    };
    this.#nodes = [new SimNode("a", options), new SimNode("b", options)];
    this.#node = this.#nodes[0]!;
    for (const node of this.#nodes) node.atCrashPoint = (point) => this.#at(point as CrashPoint);
    this.#calls = new StoryCalls(this.#scheduler, () => this.#node);
    this.#clients = new Clients({
      node: () => this.#node,
      isAlone: () => true,
      scheduler: this.#scheduler,
      random: stream(seed, "clients"),
      coveredTxid: (branch) => this.#audit.coveredTxid(branch),
      isLost: (branch, txid) => this.#audit.isLost(branch, txid),
      mayBeCorrupt: () => false,
      mayFail: () => false,
    });
  }

  async run(): Promise<StoryEnd> {
    const unhandled = (error: unknown): void => void (this.#failure ??= error as Error);
    process.on("unhandledRejection", unhandled);
    try {
      let ended = false;
      this.#tell().then(
        () => (ended = true),
        (error: unknown) => (this.#failure ??= error as Error),
      );
      if (!(await this.#scheduler.run(() => ended || this.#failure !== undefined, storyMsMax)))
        this.#failure ??= new Violation("the story did not end");
    } catch (error) {
      this.#failure ??= error as Error;
    } finally {
      for (const node of this.#nodes) node.crash("loss");
      await this.#scheduler.run(() => false, this.#scheduler.nowMs + 0.1);
      process.off("unhandledRejection", unhandled);
      for (const node of this.#nodes) node.dispose();
      rmSync(this.#directory, { recursive: true, force: true });
    }
    return {
      failure: this.#failure,
      reached: this.#reached,
      crashes: this.#crashes,
      lines: this.#scheduler.lines.slice(-lastLines),
    };
  }

  async #tell(): Promise<void> {
    this.#node.start();
    try {
      await together(this.#databases.map((database) => this.#work(database)));
      await this.#calls.must(async () => {
        await this.#claimLate();
        return true;
      });
      await this.#handOver();
      await this.#fenceWriter();
      this.#recovering = true;
      if (!this.#plan) await this.#lookAtAll();
    } catch (error) {
      if (!(error instanceof Interrupted) || this.#crashes === 0) throw error;
      await this.#recover();
    }
  }

  #at(point: CrashPoint): void {
    if (this.#recovering) {
      if (++this.#reachedInRecovery === this.#plan?.againAt) this.#crash("kill");
      return;
    }
    if (this.#crashes > 0) return;
    const times = (this.#reached.get(point) ?? 0) + 1;
    this.#reached.set(point, times);
    if (this.#plan?.point === point && this.#plan.nth === times) this.#crash(this.#plan.fate);
  }

  #crash(fate: Crash): void {
    this.#crashes++;
    this.#node.crash(fate);
    if (fate === "loss") for (const branch of this.#branches()) branch.nodeLost();
  }

  async #work(database: DatabaseModel): Promise<void> {
    const main = database.branches.get("main")!;
    await this.#burst(main, 6);
    await this.#calls.must(() => this.#clients.sync(main));
    await this.#checkpoint(main, "early");
    const side = await this.#fork(main, "side");
    await this.#burst(side, 4);
    // Enough objects for a pack, which leaves garbage behind.
    for (let step = 0; step < packRefsMin + 2; step++) {
      await this.#write(main, step, false);
      await this.#calls.sleep(1_100);
    }
    await this.#rewind(main, "early");
    for (let step = 0; step < 6; step++) await this.#writeBig(main);
    await this.#burst(main, 4);
    await this.#delete(side);
    for (let wait = 0; wait < 3; wait++) {
      await this.#calls.sleep(70_000);
      await this.#burst(main, 2);
    }
  }

  /** A name gets a database, one that was made ahead where there is one; and it is written. */
  async #claimLate(): Promise<void> {
    const { uuid } = await this.#node.call((client, world) =>
      new Databases(this.#node.openStore(world), world, client.spares).ensure(lateName),
    );
    let database = this.#database(uuid);
    if (!database) this.#databases.push((database = new DatabaseModel(uuid)));
    await this.#burst(database.branches.get("main")!, 2);
  }

  /** Another node writes for a while; what the first one has is then behind. */
  async #handOver(): Promise<void> {
    const [first, other] = this.#nodes as [SimNode, SimNode];
    for (const [from, to] of [
      [first, other],
      [other, first],
    ] as const) {
      await this.#calls.must(async () => {
        await from.stop();
        return true;
      });
      this.#node = to;
      to.start();
      for (const { branches } of this.#databases) await this.#burst(branches.get("main")!, 4);
    }
  }

  /**
   * A node dies with what it has not shipped, another one writes on, and the first finds that its file is nobody's any
   * more.
   */
  async #fenceWriter(): Promise<void> {
    const [first, other] = this.#nodes as [SimNode, SimNode];
    const mains = this.#databases.map(({ branches }) => branches.get("main")!);
    for (const main of mains) await this.#write(main, 0, false);
    first.crash("kill");
    // To whoever goes on without it, what only its disk has is lost.
    for (const main of mains) main.nodeLost();
    this.#node = other;
    other.start();
    for (const main of mains) await this.#burst(main, 2);
    await this.#calls.must(async () => {
      await other.stop();
      return true;
    });
    this.#node = first;
    first.start();
    for (const main of mains) await this.#burst(main, 2);
  }

  /** Two clients write at once; the first write of each is durable. */
  async #burst(branch: BranchModel, writes: number): Promise<void> {
    const client = async (): Promise<void> => {
      for (let step = 0; step < writes; step++) await this.#write(branch, step, step === 0 || this.#random() < 0.3);
    };
    await together([client(), client()]);
  }

  async #write(branch: BranchModel, step: number, durable: boolean): Promise<void> {
    await this.#calls.must(() => this.#clients.write(branch, kinds[step % kinds.length]!, durable));
  }

  /** Makes the deltas outgrow the database, so that a new base image is due. */
  async #writeBig(branch: BranchModel): Promise<void> {
    const value = Buffer.alloc(
      bigBytes,
      Buffer.from(Array.from({ length: 251 }, () => Math.floor(this.#random() * 256))),
    );
    await this.#calls.must(async () => {
      await this.#node.call((client, world) =>
        client.write(
          getTarget(branch),
          "kv.put",
          { ns: "big", key: "k", value },
          { deadlineMs: world.monotonicMs() + callBudgetMs },
        ),
      );
      return true;
    });
    await this.#calls.sleep(1_500);
  }

  async #checkpoint(branch: BranchModel, name: string): Promise<void> {
    const { value } = await this.#calls.branch(branch, { act: "checkpoint", name });
    branch.checkpoints.set(name, value.txid);
    branch.saw(value.txid, value.txid);
  }

  async #fork(parent: BranchModel, name: string, at?: string): Promise<BranchModel> {
    await this.#calls.branch(parent, { act: "fork", name, at });
    return parent.database.branches.get(name)!;
  }

  async #rewind(branch: BranchModel, name: string): Promise<void> {
    await this.#calls.branch(branch, { act: "rewind", to: name });
  }

  async #delete(branch: BranchModel): Promise<void> {
    await this.#calls.branch(branch.database.branches.get("main")!, { act: "delete", name: branch.name });
  }

  /** Starts on what is left, as often as it takes, and holds everything against what was answered. */
  async #recover(): Promise<void> {
    this.#recovering = true;
    for (;;) {
      this.#node.start();
      try {
        return await this.#lookAtAll();
      } catch (error) {
        if (!(error instanceof Interrupted)) throw error;
      }
    }
  }

  async #lookAtAll(): Promise<void> {
    // It may have died before anybody heard which database the name has.
    await this.#calls.patiently(() => this.#claimLate());
    await this.#lookForGarbage();
    for (const database of this.#databases) {
      await this.#lookAtBranches(database);
      for (const branch of database.branches.values()) await this.#lookAt(branch);
      await this.#goOn(database);
    }
  }

  /**
   * What was made ahead of any name and is nobody's goes, but for what the node that runs keeps. What a node made that
   * has lost its disk stays: nobody knows of it any more.
   */
  async #lookForGarbage(): Promise<void> {
    await this.#calls.sleep(20_000);
    const uuids = new Set<string>();
    for await (const { key } of listed(this.#store.calm, "db/")) uuids.add(key.split("/")[1]!);
    const kept = readNotes(this.#node.directory);
    if (kept.length > engineOptions.spareDatabases)
      throw new Violation(`what a process before this one has made ahead is still there: ${kept.join(", ")}`);
    const noted = this.#nodes.flatMap((node) => readNotes(node.directory ?? node.leftDirectory));
    const known = new Set([...this.#databases.map(({ uuid }) => uuid), ...noted]);
    const left = [...uuids].filter((uuid) => !known.has(uuid));
    if (left.length > 0 && this.#plan?.fate !== "loss" && this.#crashes > 0)
      throw new Violation(`nobody knows of ${left.join(", ")}, which a process before this one has made ahead`);
  }

  /** Every branch is listed that came into being and was not deleted, and no other. */
  async #lookAtBranches(database: DatabaseModel): Promise<void> {
    const main = database.branches.get("main")!;
    const { value } = await this.#calls.patiently(() => this.#calls.branch(main, { act: "list" }));
    const listed = value.branches.map(({ name }) => name).toSorted();
    const known = [...database.branches.keys()].toSorted();
    if (listed.join() !== known.join())
      throw new Violation(`the branches are ${known.join(", ")}, and ${listed.join(", ")} are listed`);
  }

  async #lookAt(branch: BranchModel): Promise<void> {
    for (const kind of kinds)
      await this.#calls.patiently(() => this.#calls.holds(() => this.#clients.read(branch, kind)));
    const sound = await this.#calls.patiently(() => this.#calls.soundness(branch));
    if (sound !== '[["ok"]]') throw new Violation(`${branch.label}: the file is not sound: ${sound}`);
    const { value } = await this.#calls.patiently(() => this.#calls.branch(branch, { act: "checkpoints" }));
    for (const [name, txid] of branch.checkpoints) {
      if (value.checkpoints.find((checkpoint) => checkpoint.name === name)?.txid !== txid)
        throw new Violation(`${branch.label}: the checkpoint ${name} of ${txid} is not there any more`);
    }
  }

  /** Everything works as before. */
  async #goOn(database: DatabaseModel): Promise<void> {
    for (const branch of [...database.branches.values()]) {
      for (const durable of [false, true])
        await this.#calls.patiently(() => this.#calls.holds(() => this.#clients.write(branch, "kv", durable)));
      await this.#calls.patiently(() => this.#calls.holds(() => this.#clients.sync(branch)));
      await this.#calls.holds(() => this.#clients.read(branch, "kv"));
    }
    const main = database.branches.get("main")!;
    const child = await this.#fork(main, `after${this.#crashes}`);
    await this.#lookAt(child);
    if (main.checkpoints.size > 0) {
      await this.#rewind(main, "early");
      await this.#lookAt(main);
    }
    this.#audit.whole(database.uuid);
    for (const branch of database.branches.values()) {
      await this.#audit.restores(branch, this.#directory);
      const txid = branch.pastTxid(this.#random);
      if (txid !== undefined) await this.#audit.restores(branch, this.#directory, txid);
    }
  }

  #database(uuid: string): DatabaseModel | undefined {
    return this.#databases.find((database) => database.uuid === uuid);
  }

  #branches(): BranchModel[] {
    return this.#databases.flatMap(({ branches }) => [...branches.values()]);
  }
}

/** Uuids of what the node has made ahead. */
function readNotes(directory: string | undefined): string[] {
  const path = directory && join(directory, "spares");
  return path && existsSync(path) ? readdirSync(path) : [];
}

/** Plays the story of a seed, up to its end or to the crash and what comes after. */
export function playStory(seed: number, plan?: CrashPlan, bugs: StoryBugs = {}): Promise<StoryEnd> {
  return new Story(seed, plan, bugs).run();
}
