/**
 * One run in which memories are erased while the node dies, its power goes, its store and disk fail: once an erasure is
 * said to be clean, nothing of it is in any object, in any file, nor in any file that a loss of power at that moment
 * would leave, on no branch that was forked; and what was not erased is there.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { databasePrefix } from "../../src/format/keys/object-keys.ts";
import { decodeManifest } from "../../src/format/history/manifest.ts";
import { inlinePress } from "../../src/format/core/compression.ts";
import { decodeSegments } from "../../src/format/history/segment.ts";
import type { Answer, BranchAct, BranchResults, ErasedCoupon } from "../../src/engine/api/protocol.ts";
import type { EngineClient } from "../../src/engine/threads/client.ts";
import type { CallOptions } from "../../src/engine/api/engine-port.ts";
import { canary, residueIn } from "../support/residue.ts";
import { Violation } from "./asks.ts";
import { HostileStore, noFaults } from "./hostile-store.ts";
import { Scheduler, stream } from "./scheduler.ts";
import { soundDisk, type DiskDose } from "./sim-disk.ts";
import { SimNode } from "./sim-node.ts";
import { StoreAudit } from "./store-audit.ts";
import { lastLines, Trial, type Outcome } from "./trial.ts";

const uuid = "00000000-0000-4000-8000-000000000001";
const storyMsMax = 24 * 3_600_000;
const callBudgetMs = 30_000;
const triesMax = 400;
const lossesLookedAt = 5;
const engine = { gcGraceMs: 20_000, pitrMs: 86_400_000, idleCloseMs: 10_000, logCheckpointBytes: 64 * 1024 };

class ErasureStory {
  readonly #seed: number;
  readonly #random: () => number;
  readonly #scheduler: Scheduler;
  readonly #trial: Trial;
  readonly #directory = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "palimpsest-erasing-"));
  readonly #store: HostileStore;
  readonly #audit: StoreAudit;
  readonly #node: SimNode;
  readonly #counts: Record<string, number> = {};
  #crashes = 0;
  #calm = false;

  constructor(seed: number, linesMax: number) {
    this.#seed = seed;
    const random = (this.#random = stream(seed, "erasures"));
    const scheduler = (this.#scheduler = new Scheduler(seed, linesMax));
    this.#trial = new Trial(scheduler);
    this.#audit = new StoreAudit(() => this.#store);
    const dose = {
      ...noFaults,
      latencyMsMax: 40,
      requestLost: random() * 0.02,
      answerLost: random() * 0.02,
      late: random() * 0.02,
      refused: random() * 0.03,
    };
    this.#store = new HostileStore(scheduler, seed, dose, {}, (key, before, after) =>
      this.#audit.changed(key, before, after),
    );
    const hurt: DiskDose = { ...soundDisk, failing: random() < 0.3 ? 0.005 : 0, full: random() < 0.3 ? 0.002 : 0 };
    this.#node = new SimNode("a", {
      scheduler,
      seed,
      store: this.#store,
      directory: this.#directory,
      disk: () => (this.#calm ? soundDisk : hurt),
      diskLies: false,
      engine,
    });
    this.#node.atCrashPoint = () => {
      if (!this.#calm && random() < 0.004) this.#crash();
    };
  }

  async run(): Promise<Outcome> {
    await this.#trial.run(
      () => this.#story(),
      storyMsMax,
      () => this.#node.crash("loss"),
    );
    this.#node.dispose();
    rmSync(this.#directory, { recursive: true, force: true });
    const counts = { ...this.#counts, ...this.#store.counts };
    return this.#trial.outcome({ seed: this.#seed, crashes: this.#crashes, counts });
  }

  async #story(): Promise<void> {
    this.#node.start();
    const word = canary(this.#random);
    const kept = canary(this.#random);
    const keptId = await this.#remember(kept, "main");
    // What the secret supersedes: it names it for as long as it is there.
    await this.#remember("what was said before", "main", "topic");
    await this.#fill("main", 3);
    // The clean branch was forked before, the other one after the secret was said.
    await this.#branch("main", { act: "fork", name: "clean" });
    const secretId = await this.#remember(word, "main", "topic");
    await this.#fill("main", 2 + Math.floor(this.#random() * 4));
    await this.#branch("main", { act: "fork", name: "side" });
    await this.#branch("main", { act: "fork", name: "named" });
    await this.#patiently(
      (client, options) => client.write({ uuid, branch: "named" }, "memory.forget", { id: secretId }, options),
      "forget",
    );
    if (this.#random() < 0.5) await this.#branch("main", { act: "checkpoint", name: "with" });
    await this.#fill("side", 2);
    const coupon = await this.#erase(secretId);
    await this.#fill("main", 2);
    this.#calm = this.#random() < 0.3;
    await this.#complete(coupon);
    await this.#looksClean(word);
    this.#calm = true;
    this.#node.takeDose();
    this.#store.calmDown();
    for (const branch of ["main", "clean", "side", "named"]) {
      if ((await this.#held(secretId, branch)) > 0) throw new Violation(`${branch} holds the erased memory`);
      if ((await this.#held(keptId, branch)) === 0)
        throw new Violation(`${branch} does not hold the memory that was not erased`);
    }
    this.#audit.whole(uuid);
    this.#crash("power");
    this.#node.start();
    await this.#held(keptId, "main");
    await this.#looksClean(word);
  }

  async #remember(summary: string, branch: string, topicKey?: string): Promise<string> {
    const { value } = await this.#patiently((client, options) =>
      client.write(
        { uuid, branch },
        "memory.ingest",
        {
          memories: [
            {
              type: "fact",
              summary,
              ...(topicKey !== undefined && { topicKey }),
              content: JSON.stringify({ said: summary.repeat(40) }),
            },
          ],
        },
        { ...options, durable: true },
      ),
    );
    return value.results[0]!.id;
  }

  async #held(id: string, branch: string): Promise<number> {
    const { value } = await this.#patiently((client, options) =>
      client.read({ uuid, branch }, "memory.held", { memoryIds: [id] }, options),
    );
    return value.held.length;
  }

  async #fill(branch: string, count: number): Promise<void> {
    for (let write = 0; write < count; write++) {
      const value = Buffer.from(Array.from({ length: 300 }, () => Math.floor(this.#random() * 256)));
      await this.#patiently((client, options) =>
        client.write(
          { uuid, branch },
          "kv.put",
          { ns: "f", key: `k${Math.floor(this.#random() * 5)}`, value },
          options,
        ),
      );
      await this.#scheduler.sleep(1_100);
    }
  }

  /** On both branches that have it, as the service does: a coupon has a point for each. */
  async #erase(memoryId: string): Promise<ErasedCoupon> {
    const traceKey = new Uint8Array(32).fill(this.#seed);
    const points: ErasedCoupon["points"][number][] = [];
    let traces: ErasedCoupon["traces"] | undefined;
    for (const branch of ["main", "side"]) {
      const {
        memoryIds,
        traces: own,
        branchId,
        ancestors,
        found,
        txid,
      } = await this.#branch(branch, {
        act: "erase",
        couponId: "ers_1",
        erase: { kind: "memory", memoryId },
        traceKey,
      });
      if (!found || memoryIds[0] !== memoryId)
        throw new Violation(`${branch} did not find the memory that is to be erased`);
      traces ??= own;
      points.push({ branch, branchId, txid, ancestors });
    }
    return { id: "ers_1", memoryIds: [memoryId], points, traces: traces!, isDue: true };
  }

  /** Asks until it is clean; a checkpoint that still has it is forgotten first. */
  async #complete(coupon: ErasedCoupon): Promise<void> {
    for (let tries = 0; tries < triesMax; tries++) {
      const { clean, blocked } = await this.#branch("main", { act: "expunge", coupons: [coupon] });
      if (clean.includes(coupon.id)) return;
      if (blocked[coupon.id] !== undefined) {
        this.#count("blocked");
        await this.#branch("main", { act: "forget-checkpoint", name: "with" });
      }
      await this.#scheduler.sleep(5_000);
    }
    throw new Violation("the erasure does not come to its end");
  }

  async #looksClean(word: string): Promise<void> {
    this.#count("looked");
    const secrets = { words: [word], vectors: [] };
    for (const key of [...this.#store.keys()].filter((one) => one.startsWith(databasePrefix(uuid)))) {
      const { bytes } = this.#store.read(key)!;
      const segments = key.includes("/seg/")
        ? [bytes]
        : key.includes("/head/")
          ? decodeManifest(bytes).tail.map((tail) => tail.bytes)
          : [];
      const pages = (await Promise.all(segments.map((segment) => decodeSegments(segment, inlinePress))))
        .flat()
        .flatMap(({ groups }) => groups.flatMap(({ images }) => images.map((image) => image.bytes)));
      if ([bytes, ...pages].some((one) => residueIn(Buffer.from(one), secrets) > 0))
        throw new Violation(`${key} holds what was erased`);
    }
    // It may have died since; what it has left is what there is.
    const { directory, leftDirectory } = this.#node;
    this.#looksCleanBelow((directory ?? leftDirectory)!, secrets.words);
    if (directory === undefined) return;
    for (let loss = 0; loss < lossesLookedAt; loss++) {
      const left = join(this.#directory, "left");
      this.#node.lose(left, this.#random);
      this.#looksCleanBelow(left, secrets.words);
      rmSync(left, { recursive: true });
    }
  }

  #looksCleanBelow(directory: string, words: readonly string[]): void {
    for (const name of readdirSync(directory, { recursive: true, encoding: "utf8" })) {
      const path = join(directory, name);
      if (statSync(path).isFile() && residueIn(readFileSync(path), { words, vectors: [] }) > 0)
        throw new Violation(`${path} holds what was erased`);
    }
  }

  async #branch<Act extends BranchAct>(
    branch: string,
    act: Act,
  ): Promise<BranchResults[Act["act"]] & { readonly txid: number }> {
    const { value, txid } = await this.#patiently(
      (client, options) => client.branch({ uuid, branch }, act, options),
      act.act,
    );
    return { ...(value as object), txid } as BranchResults[Act["act"]] & { readonly txid: number };
  }

  /**
   * Asks again for as long as it takes, of whatever process there is. What is there already has come of an earlier try.
   */
  async #patiently<Value>(
    act: (client: EngineClient, options: CallOptions) => Promise<Answer<Value>>,
    what = "",
  ): Promise<Answer<Value>> {
    for (let tries = 0; tries < triesMax; tries++) {
      if (!this.#node.up) this.#node.start();
      try {
        return await this.#node.call((client, world) =>
          act(client, { deadlineMs: world.monotonicMs() + callBudgetMs }),
        );
      } catch (error) {
        const { code } = error as { code?: string };
        if ((what === "fork" || what === "checkpoint") && code === "already_exists")
          return { value: undefined as Value, txid: 0, durableTxid: 0 };
        if (what === "forget-checkpoint" && code === "not_found")
          return { value: undefined as Value, txid: 0, durableTxid: 0 };
        this.#scheduler.note("client", `${what} ${code ?? String(error)}`);
      }
      await this.#scheduler.sleep(500 + this.#random() * 1_000);
    }
    throw new Violation(`a call of ${what || "data"} is not answered`);
  }

  #crash(kind: "kill" | "power" = this.#random() < 0.5 ? "kill" : "power"): void {
    this.#crashes++;
    this.#node.crash(kind);
  }

  #count(what: string): void {
    this.#counts[what] = (this.#counts[what] ?? 0) + 1;
  }
}

/** Runs a seed. */
export function simulateErasure(seed: number, given: { readonly keepTrace?: boolean } = {}): Promise<Outcome> {
  return new ErasureStory(seed, given.keepTrace ? Infinity : lastLines).run();
}
