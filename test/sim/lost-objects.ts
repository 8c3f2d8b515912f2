/**
 * One run in which the manifest or the catalog of a database is deleted, rots or is put back to an older version behind
 * everybody's back, and some time later stands there again as it was.
 *
 * What must hold meanwhile: calls are refused or answered as the history has it, never from a new empty database;
 * nothing that the newest manifest names is deleted; nobody goes on from what was put in its place. Afterwards
 * everything is there that was ever answered, but for what was lost with a node's disk.
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { packRefsMin } from "../../src/engine/compaction/timeline-length.ts";
import { decodeCatalog } from "../../src/format/history/catalog.ts";
import { catalogKey, manifestKey } from "../../src/format/keys/object-keys.ts";
import { DatabaseModel, type BranchModel } from "./branch-model.ts";
import type { Kind } from "./changes.ts";
import { Violation } from "./asks.ts";
import { Clients } from "./clients.ts";
import { HostileStore, noFaults } from "./hostile-store.ts";
import { Scheduler, stream } from "./scheduler.ts";
import { soundDisk } from "./sim-disk.ts";
import { SimNode, type Crash } from "./sim-node.ts";
import { StoreAudit } from "./store-audit.ts";
import { lastLines, Trial, type Outcome } from "./trial.ts";
import { seenNotedMs } from "../../src/engine/local/seen-manifests.ts";

export interface Meddling {
  readonly object: "head" | "catalog";
  readonly how: "deleted" | "rotten" | "rolled back";
}

const kinds: readonly Kind[] = ["kv", "sql", "memory", "docs"];
const rounds = 3;
const branchCalls = 25;
const storyMsMax = 24 * 3_600_000;
const quietTriesMax = 120;
/** Longer than it takes to condemn garbage and to delete it. */
const longMs = 300_000;
/** Shorter: whoever is new to a branch cannot know that its catalog was once longer. */
const shortMs = 20_000;
const engine = { gcGraceMs: 30_000, pitrMs: 60_000, idleCloseMs: 5_000, logCheckpointBytes: 64 * 1024 };

class LossStory {
  readonly #seed: number;
  readonly #meddling: Meddling;
  readonly #random: () => number;
  readonly #scheduler: Scheduler;
  readonly #trial: Trial;
  readonly #directory = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "palimpsest-losses-"));
  readonly #store: HostileStore;
  readonly #audit: StoreAudit;
  readonly #node: SimNode;
  readonly #clients: Clients;
  readonly #database = new DatabaseModel("00000000-0000-4000-8000-000000000001");
  readonly #counts: Record<string, number> = {};
  #crashes = 0;
  /** What the newest manifest named when it was meddled with. */
  #named: ReadonlySet<string> | undefined;

  constructor(seed: number, meddling: Meddling, linesMax: number) {
    this.#seed = seed;
    this.#meddling = meddling;
    this.#random = stream(seed, "losses");
    const scheduler = (this.#scheduler = new Scheduler(seed, linesMax));
    this.#trial = new Trial(scheduler);
    this.#audit = new StoreAudit(() => this.#store, {
      claimed: (_uuid, id, { lost }) => {
        if (lost) this.#database.branch(id)?.lost(lost.firstTxid, lost.lastTxid);
      },
      rewound: (_uuid, id, toTxid, txid) => this.#database.branch(id)!.rewound(toTxid, txid),
      forked: (_uuid, branch) => this.#database.forked(branch, scheduler.nowMs),
      deleted: (_uuid, id) => this.#database.deleted(id, scheduler.nowMs),
    });
    this.#store = new HostileStore(scheduler, seed, { ...noFaults, latencyMsMax: 40 }, {}, (key, before, after) =>
      this.#changed(key, before, after),
    );
    this.#node = new SimNode("a", {
      scheduler,
      seed,
      store: this.#store,
      directory: this.#directory,
      disk: () => soundDisk,
      diskLies: false,
      engine,
    });
    this.#clients = new Clients({
      node: () => this.#node,
      isAlone: () => true,
      scheduler,
      random: stream(seed, "clients"),
      coveredTxid: (branch) => (this.#named ? undefined : this.#audit.coveredTxid(branch)),
      isLost: (branch, txid) => !this.#named && this.#audit.isLost(branch, txid),
      mayFail: () => false,
      mayBeCorrupt: () => this.#named !== undefined,
    });
  }

  async run(): Promise<Outcome> {
    await this.#trial.run(
      () => this.#story(),
      storyMsMax,
      () => this.#node.crash("loss"),
    );
    this.#node.dispose();
    rmSync(this.#directory, { recursive: true, force: true });
    const counts = { ...this.#counts, ...this.#clients.counts, ...this.#store.counts };
    return this.#trial.outcome({ seed: this.#seed, crashes: this.#crashes, counts });
  }

  get #main(): BranchModel {
    return this.#database.branches.get("main")!;
  }

  #changed(key: string, before: Uint8Array | undefined, after: Uint8Array | undefined): void {
    if (!this.#named) return this.#audit.changed(key, before, after);
    if (after === undefined && this.#named.has(key))
      throw new Violation(`${key} was deleted; the newest manifest names it`);
  }

  async #story(): Promise<void> {
    this.#node.start();
    for (let round = 0; round < rounds; round++) {
      // Enough objects for a pack, which leaves garbage behind.
      for (let write = 0; write < packRefsMin + 2; write++) await this.#act(1_100);
      // Branches come and go, so that a catalog has been something else before.
      await this.#clients.act(this.#database, branchCalls);
      await this.#meddle();
      await this.#lookAtAll();
    }
  }

  async #act(pauseMs: number): Promise<void> {
    const kind = kinds[Math.floor(this.#random() * kinds.length)]!;
    if (this.#random() < 0.7) await this.#clients.write(this.#main, kind, this.#random() < 0.2);
    else await this.#clients.read(this.#main, kind);
    await this.#scheduler.sleep(this.#random() * pauseMs);
  }

  async #meddle(): Promise<void> {
    const { object, how } = this.#meddling;
    const { uuid } = this.#database;
    // What a node has seen it notes every so often, and not so that it outlives a loss of power.
    const rests = how !== "rotten" && !(how === "deleted" && object === "head");
    if (rests) await this.#scheduler.sleep(seenNotedMs + 2_000);
    const named = this.#audit.named(uuid);
    const key = object === "head" ? manifestKey(uuid, "main") : catalogKey(uuid);
    // A first catalog says no more than that there is a database, which its manifest says too: it is made again.
    if (object === "catalog" && decodeCatalog(this.#store.read(key)!.bytes).seq <= 1) return;
    if (!this.#store.meddle(key, how, 1 + Math.floor(this.#random() * 4))) return;
    this.#named = named;
    this.#counts[`${object} ${how}`] = (this.#counts[`${object} ${how}`] ?? 0) + 1;
    const fates: readonly (Crash | undefined)[] = rests ? [undefined, "kill"] : [undefined, "kill", "power", "loss"];
    const fate = fates[Math.floor(this.#random() * fates.length)];
    for (let act = 0; act < 4; act++) await this.#act(500);
    if (fate) {
      this.#crashes++;
      this.#node.crash(fate);
      if (fate === "loss") for (const branch of this.#database.branches.values()) branch.nodeLost();
      await this.#scheduler.sleep(this.#random() * 2_000);
      this.#node.start();
    }
    for (let act = 0; act < 6; act++) await this.#act(500);
    await this.#scheduler.sleep(how === "rolled back" && object === "catalog" ? shortMs : this.#random() * longMs);
    for (let act = 0; act < 4; act++) await this.#act(500);
    this.#store.putBack();
    this.#named = undefined;
    // A thread believes the catalog that it has read for as long as nobody changes it: a branch that it lacked comes
    // back with the next process.
    if (object === "catalog" && rests) {
      this.#node.crash("kill");
      this.#node.start();
    }
  }

  /** Everything works again, without a restart, and everything that was answered is there. */
  async #lookAtAll(): Promise<void> {
    for (const kind of kinds) await this.#patiently(() => this.#clients.read(this.#main, kind));
    await this.#patiently(() => this.#clients.write(this.#main, "kv", true));
    await this.#patiently(() => this.#clients.read(this.#main, "kv"));
    this.#audit.whole(this.#database.uuid);
    await this.#audit.restores(this.#main, this.#directory);
  }

  async #patiently(act: () => Promise<boolean>): Promise<void> {
    for (let tries = 0; !(await act()); tries++) {
      if (tries === quietTriesMax)
        throw new Violation("two minutes after everything stood there again there is no answer yet");
      await this.#scheduler.sleep(1_000);
    }
  }
}

/** Runs a seed. */
export function simulateLosses(
  seed: number,
  meddling: Meddling,
  given: { readonly keepTrace?: boolean } = {},
): Promise<Outcome> {
  return new LossStory(seed, meddling, given.keepTrace ? Infinity : lastLines).run();
}
