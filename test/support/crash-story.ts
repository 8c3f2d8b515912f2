/**
 * A node that does one of everything and dies at a chosen crash point, and the look at what it left.
 *
 * Owns the story: two databases, every data model, standard and durable writes, sync, fork, checkpoint, rewind,
 * deletion of a branch, packs, a new base image, collection, another node in between, in order and not. It runs on the
 * simulation's virtual time (test/sim), so that one seed is one order of events and the n-th time a point is reached is
 * always the same moment. At that moment the process is gone: its timers and promises never settle, and its directory
 * is copied as it is.
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CrashPoint } from "../../src/base/world.ts";
import type { Answer } from "../../src/engine/api/protocol.ts";
import type { BranchAct, BranchResults } from "../../src/engine/api/protocol.ts";
import type { BranchModel } from "../sim/branch-model.ts";
import { DatabaseModel } from "../sim/branch-model.ts";
import type { Kind } from "../sim/changes.ts";
import { describeDeed, Violation } from "../sim/asks.ts";
import { Clients } from "../sim/clients.ts";
import { HostileStore, noFaults, type StoreBugs } from "../sim/hostile-store.ts";
import { Scheduler, stream } from "../sim/scheduler.ts";
import { soundDisk } from "../sim/sim-disk.ts";
import { SimNode, type Crash } from "../sim/sim-node.ts";
import { StoreAudit } from "../sim/store-audit.ts";
import { uuidOf } from "./inline-engine.ts";

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

/** The node died in the middle of what was being done. */
class Interrupted extends Error {}

const kinds: readonly Kind[] = ["kv", "sql", "memory", "docs"];
const callBudgetMs = 60_000;
const storyMsMax = 3_600_000;
const triesMax = 60;
const bigBytes = 1024 * 1024;
const lastLines = 60;
const engineOptions = { gcGraceMs: 5_000, pitrMs: 30_000, idleCloseMs: 20_000, logCheckpointBytes: 64 * 1024 };

class Story {
  readonly #plan: CrashPlan | undefined;
  readonly #scheduler: Scheduler;
  readonly #directory = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "palimpsest-story-"));
  readonly #store: HostileStore;
  readonly #audit: StoreAudit;
  readonly #nodes: readonly SimNode[];
  #node: SimNode;
  readonly #clients: Clients;
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
        if (lost) this.#database(uuid).branch(id)?.lost(lost.firstTxid, lost.lastTxid);
      },
      rewound: (uuid, id, toTxid, txid) => this.#database(uuid).branch(id)!.rewound(toTxid, txid),
      forked: (uuid, branch) => this.#database(uuid).forked(branch, this.#scheduler.nowMs),
      deleted: (uuid, id) => this.#database(uuid).deleted(id, this.#scheduler.nowMs),
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
      await this.#together(this.#databases.map((database) => this.#work(database)));
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

  /** Waits for all; what one of them found wrong wins over another's being interrupted. */
  async #together(acts: readonly Promise<void>[]): Promise<void> {
    const failures = (await Promise.allSettled(acts)).flatMap((outcome) =>
      outcome.status === "rejected" ? [outcome.reason as Error] : [],
    );
    const worst = failures.find((error) => !(error instanceof Interrupted)) ?? failures[0];
    if (worst) throw worst;
  }

  async #work(database: DatabaseModel): Promise<void> {
    const main = database.branches.get("main")!;
    await this.#burst(main, 6);
    await this.#must(() => this.#clients.sync(main));
    await this.#checkpoint(main, "early");
    const side = await this.#fork(main, "side");
    await this.#burst(side, 4);
    for (let step = 0; step < 18; step++) {
      await this.#write(main, step, false);
      await this.#sleep(1_100);
    }
    await this.#rewind(main, "early");
    for (let step = 0; step < 6; step++) await this.#writeBig(main);
    await this.#burst(main, 4);
    await this.#delete(side);
    for (let wait = 0; wait < 3; wait++) {
      await this.#sleep(70_000);
      await this.#burst(main, 2);
    }
  }

  /** Another node writes for a while; what the first one has is then behind. */
  async #handOver(): Promise<void> {
    const [first, other] = this.#nodes as [SimNode, SimNode];
    for (const [from, to] of [
      [first, other],
      [other, first],
    ] as const) {
      await this.#must(async () => {
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
    await this.#must(async () => {
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
    await this.#together([client(), client()]);
  }

  async #write(branch: BranchModel, step: number, durable: boolean): Promise<void> {
    await this.#must(() => this.#clients.write(branch, kinds[step % kinds.length]!, durable));
  }

  /** Makes the deltas outgrow the database, so that a new base image is due. */
  async #writeBig(branch: BranchModel): Promise<void> {
    const value = Buffer.alloc(
      bigBytes,
      Buffer.from(Array.from({ length: 251 }, () => Math.floor(this.#random() * 256))),
    );
    await this.#must(async () => {
      await this.#node.call((client, world) =>
        client.write(
          this.#target(branch),
          "kv.put",
          { ns: "big", key: "k", value },
          { deadlineMs: world.monotonicMs() + callBudgetMs },
        ),
      );
      return true;
    });
    await this.#sleep(1_500);
  }

  async #checkpoint(branch: BranchModel, name: string): Promise<void> {
    const { value } = await this.#branch(branch, { act: "checkpoint", name });
    branch.checkpoints.set(name, value.txid);
    branch.saw(value.txid, value.txid);
  }

  async #fork(parent: BranchModel, name: string, at?: string): Promise<BranchModel> {
    await this.#branch(parent, { act: "fork", name, at });
    return parent.database.branches.get(name)!;
  }

  async #rewind(branch: BranchModel, name: string): Promise<void> {
    await this.#branch(branch, { act: "rewind", to: name });
  }

  async #delete(branch: BranchModel): Promise<void> {
    await this.#branch(branch.database.branches.get("main")!, { act: "delete", name: branch.name });
  }

  async #branch<Act extends BranchAct>(branch: BranchModel, act: Act): Promise<Answer<BranchResults[Act["act"]]>> {
    let answer: Answer<BranchResults[Act["act"]]> | undefined;
    const { asks } = branch.database;
    const deed = describeDeed(branch, act);
    let landedBefore = 0;
    await this.#must(async () => {
      landedBefore = deed === undefined ? 0 : asks.begin(deed);
      answer = await this.#node.call((client, world) =>
        client.branch(this.#target(branch), act, { deadlineMs: world.monotonicMs() + callBudgetMs }),
      );
      return true;
    });
    if (deed !== undefined) asks.done(deed, landedBefore);
    return answer!;
  }

  /** Nothing but a crash keeps a call from succeeding. */
  async #must(act: () => Promise<boolean>): Promise<void> {
    if (!this.#node.up) throw new Interrupted();
    try {
      if (await act()) return;
    } catch (error) {
      if (this.#node.up) throw error;
    }
    if (this.#node.up) throw new Violation("a call was refused, and nothing was wrong");
    throw new Interrupted();
  }

  async #sleep(delayMs: number): Promise<void> {
    await this.#scheduler.sleep(delayMs);
    if (!this.#node.up) throw new Interrupted();
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
    for (const database of this.#databases) {
      await this.#lookAtBranches(database);
      for (const branch of database.branches.values()) await this.#lookAt(branch);
      await this.#goOn(database);
    }
  }

  /** Every branch is listed that came into being and was not deleted, and no other. */
  async #lookAtBranches(database: DatabaseModel): Promise<void> {
    const main = database.branches.get("main")!;
    const { value } = await this.#patiently(() => this.#branch(main, { act: "list" }));
    const listed = value.branches.map(({ name }) => name).toSorted();
    const known = [...database.branches.keys()].toSorted();
    if (listed.join() !== known.join())
      throw new Violation(`the branches are ${known.join(", ")}, and ${listed.join(", ")} are listed`);
  }

  async #lookAt(branch: BranchModel): Promise<void> {
    for (const kind of kinds) await this.#patiently(() => this.#holds(() => this.#clients.read(branch, kind)));
    const sound = await this.#patiently(() => this.#soundness(branch));
    if (sound !== '[["ok"]]') throw new Violation(`${branch.label}: the file is not sound: ${sound}`);
    const { value } = await this.#patiently(() => this.#branch(branch, { act: "checkpoints" }));
    for (const [name, txid] of branch.checkpoints) {
      if (value.checkpoints.find((checkpoint) => checkpoint.name === name)?.txid !== txid)
        throw new Violation(`${branch.label}: the checkpoint ${name} of ${txid} is not there any more`);
    }
  }

  /** Everything works as before. */
  async #goOn(database: DatabaseModel): Promise<void> {
    for (const branch of [...database.branches.values()]) {
      for (const durable of [false, true])
        await this.#patiently(() => this.#holds(() => this.#clients.write(branch, "kv", durable)));
      await this.#patiently(() => this.#holds(() => this.#clients.sync(branch)));
      await this.#holds(() => this.#clients.read(branch, "kv"));
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

  async #soundness(branch: BranchModel): Promise<string> {
    const statements = [{ text: "PRAGMA integrity_check", paramsJson: undefined }];
    const { value } = await this.#node.call((client, world) =>
      client.sqlWrite(
        this.#target(branch),
        { statements, atomic: true, mayWrite: false },
        { deadlineMs: world.monotonicMs() + callBudgetMs },
      ),
    );
    return value[0]!.rowsJson;
  }

  /** The act's success, as something that is either answered or thrown. */
  async #holds(act: () => Promise<boolean>): Promise<void> {
    if (!(await act())) throw new Refused();
  }

  /** Tries again: right after a crash a request of the dead may still land, and then a claim is lost once. */
  async #patiently<Value>(act: () => Promise<Value>): Promise<Value> {
    for (let tries = 1; ; tries++) {
      try {
        return await act();
      } catch (error) {
        if (!this.#node.up) throw new Interrupted();
        const again = error instanceof Refused || (error as { code?: unknown }).code === "unavailable";
        if (!again || tries === triesMax) throw error;
      }
      await this.#sleep(1_000);
    }
  }

  #database(uuid: string): DatabaseModel {
    return this.#databases.find((database) => database.uuid === uuid)!;
  }

  #target(branch: BranchModel): { uuid: string; branch: string } {
    return { uuid: branch.database.uuid, branch: branch.name };
  }

  #branches(): BranchModel[] {
    return this.#databases.flatMap(({ branches }) => [...branches.values()]);
  }
}

/** A call was refused in a way that says to ask again. */
class Refused extends Error {}

/** Plays the story of a seed, up to its end or to the crash and what comes after. */
export function playStory(seed: number, plan?: CrashPlan, bugs: StoryBugs = {}): Promise<StoryEnd> {
  return new Story(seed, plan, bugs).run();
}
