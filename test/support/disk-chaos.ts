/**
 * A real node under steady writes on a disk that fills up, turns read-only, fails, is slow, and whose process is
 * killed: what was acknowledged is there, what was refused said so by one of the right codes, and the node serves again
 * by itself when the disk is sound again. Works with and without a test runner around it.
 */
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import {
  countingClients,
  expectSound,
  prepareCounting,
  syncCounting,
  type CountingClient,
} from "./counting-clients.ts";
import { FaultyDisk, type DiskTrouble } from "./faulty-disk.ts";
import { startNodeProcess, type NodeProcess } from "./node-process.ts";
import { seeded } from "./random.ts";

export interface DiskChaosOptions {
  readonly seed: number;
  readonly durationMs: number;
  /** Where the objects are when not on the disk itself, and the variables that tell a node. */
  readonly store?: Readonly<Record<string, string>>;
  readonly say: (text: string) => void;
}

export interface DiskChaosCounts {
  acknowledged: number;
  durable: number;
  shed: number;
  late: number;
  unavailable: number;
  unanswered: number;
  troubles: number;
  kills: number;
  wipes: number;
  /** The longest that a client waited for an acknowledgement after the disk was sound again. */
  recoveryMsMax: number;
  readonly troublesByKind: Record<string, number>;
}

/**
 * So long after the disk is sound again every client has an acknowledgement; most of it is the pause between two tries
 * to ship.
 */
const recoveryMsMax = 45_000;

/** One kind of trouble, by chance as hard as it may come. */
function draw(random: () => number): readonly [name: string, trouble: DiskTrouble, lastingMs: number] {
  const kind = Math.floor(random() * 6);
  const lastingMs = 300 + random() ** 2 * 6_000;
  if (kind <= 1) return ["full", { roomBytes: Math.floor(random() ** 3 * 2_000_000) }, lastingMs];
  if (kind === 2) return ["read-only", { isReadOnly: true }, lastingMs];
  if (kind === 3) return ["slow", { delayMs: 1 + random() ** 2 * 150 }, lastingMs];
  if (kind === 4) return ["bad writes", { writesFail: true }, lastingMs / 4];
  return ["bad fsyncs", { syncsFail: true }, lastingMs / 4];
}

class DiskChaos {
  readonly #options: DiskChaosOptions;
  readonly #random: () => number;
  readonly #folder = mkdtempSync(join(tmpdir(), "palimpsest-disk-"));
  readonly #root = join(this.#folder, "disk");
  readonly #disk = new FaultyDisk(this.#root, this.#folder);
  readonly #clients = countingClients();
  readonly counts: DiskChaosCounts = {
    acknowledged: 0,
    durable: 0,
    shed: 0,
    late: 0,
    unavailable: 0,
    unanswered: 0,
    troubles: 0,
    kills: 0,
    wipes: 0,
    recoveryMsMax: 0,
    troublesByKind: {},
  };
  #node: NodeProcess | undefined;
  #isHeld = false;
  #isOver = false;
  #underWay = 0;

  constructor(options: DiskChaosOptions) {
    this.#options = options;
    this.#random = seeded(options.seed);
  }

  get #directory(): string {
    return join(this.#root, "data");
  }

  async run(): Promise<void> {
    try {
      this.#node = await this.#start();
      await prepareCounting(this.#node.call, this.#clients);
      const writing = Promise.all(this.#clients.map((client) => this.#write(client)));
      await Promise.race([this.#trouble(), writing]);
      this.#isOver = true;
      await writing;
      await this.#judge();
    } catch (error) {
      this.#options.say(`the log of the node ends:\n${this.#node?.log().slice(-4_000) ?? ""}`);
      throw error;
    } finally {
      this.#isOver = true;
      await this.#node?.end("SIGKILL");
      this.#disk.close();
      rmSync(this.#folder, { recursive: true, force: true });
    }
  }

  #start(): Promise<NodeProcess> {
    const store = this.#options.store ?? { SERVICE_OBJECT_STORE: `file://${join(this.#root, "objects")}` };
    return startNodeProcess(this.#directory, {
      SERVICE_LOG_LEVEL: "warn",
      SERVICE_PITR_SECS: "60",
      SERVICE_GC_GRACE_SECS: "30",
      SERVICE_UNSHIPPED_MAX_SECS: "30",
      ...store,
      ...this.#disk.variables,
    });
  }

  async #write(client: CountingClient): Promise<void> {
    while (!this.#isOver) {
      if (this.#isHeld) {
        await pause(20);
        continue;
      }
      this.#underWay++;
      const outcome = await client.advance(this.#node!.call).finally(() => this.#underWay--);
      if (outcome.kind === "acknowledged") {
        this.counts[client.durable ? "durable" : "acknowledged"]++;
        await pause(5);
        continue;
      }
      if (outcome.kind === "no answer") this.counts.unanswered++;
      else {
        assert([408, 429, 503].includes(outcome.status), `${client.name}: ${outcome.status} ${outcome.text}`);
        this.counts[outcome.status === 429 ? "shed" : outcome.status === 408 ? "late" : "unavailable"]++;
      }
      await pause(50);
    }
  }

  async #trouble(): Promise<void> {
    const endMs = performance.now() + this.#options.durationMs;
    while (performance.now() < endMs) {
      await pause(200 + this.#random() * 2_000);
      const [name, trouble, lastingMs] = draw(this.#random);
      const [isKilled, isWiped] = [this.#random() < 0.3, this.#random() < 0.3];
      this.counts.troubles++;
      this.counts.troublesByKind[name] = (this.counts.troublesByKind[name] ?? 0) + 1;
      this.#disk.set(trouble);
      await pause(lastingMs);
      if (isKilled) await this.#kill(isWiped);
      this.#disk.heal();
      if (isKilled) await this.#revive(isWiped);
      await this.#recover(name);
      const fate = isKilled ? (isWiped ? ", killed, wiped" : ", killed") : "";
      this.#options.say(`${name} for ${lastingMs.toFixed(0)} ms${fate}: ${JSON.stringify(this.counts)}`);
    }
  }

  /** In the middle of the trouble, and what the node was doing is cut off. */
  async #kill(isWiped: boolean): Promise<void> {
    this.counts.kills++;
    await this.#node!.end("SIGKILL");
    this.#isHeld = true;
    while (this.#underWay > 0) await pause(10);
    if (!isWiped) return;
    this.counts.wipes++;
    rmSync(this.#directory, { recursive: true, force: true });
  }

  async #revive(isWiped: boolean): Promise<void> {
    mkdirSync(this.#directory, { recursive: true });
    this.#node = await this.#start();
    for (const client of this.#clients)
      await settled(() => (isWiped ? client.expectCut(this.#node!.call) : client.expectAll(this.#node!.call)));
    await settled(() => expectSound(this.#node!.call));
    this.#isHeld = false;
  }

  /** Waits until every client has an acknowledgement of something that it sends from now on. */
  async #recover(name: string): Promise<void> {
    const fromMs = performance.now();
    const before = this.#clients.map(({ acknowledged }) => acknowledged);
    const isServed = (): boolean => this.#clients.every(({ acknowledged }, index) => acknowledged > before[index]!);
    while (!isServed()) {
      const waitedMs = performance.now() - fromMs;
      const waiting = this.#clients
        .filter(({ acknowledged }, index) => acknowledged <= before[index]!)
        .map((client) => client.name);
      assert(
        waitedMs < recoveryMsMax,
        `${waiting.join()}: not served ${waitedMs.toFixed(0)} ms after the disk was sound again (${name})`,
      );
      assert(this.#node!.child.exitCode === null, `the node has ended (${name})`);
      await pause(20);
    }
    this.counts.recoveryMsMax = Math.max(this.counts.recoveryMsMax, Math.round(performance.now() - fromMs));
  }

  /** Everything acknowledged is there; once it is shipped, without the disk of the node too. */
  async #judge(): Promise<void> {
    const node = this.#node!;
    await syncCounting(node.call, 120_000);
    for (const client of this.#clients) await client.expectAll(node.call);
    await node.end("SIGKILL");
    rmSync(this.#directory, { recursive: true, force: true });
    this.#node = await this.#start();
    for (const client of this.#clients) await settled(() => client.expectAll(this.#node!.call));
    await expectSound(this.#node.call);
    const { refused, cut } = this.#disk.counts;
    assert(refused > 0, "the disk has refused something");
    this.#options.say(`the disk refused ${refused} calls and cut ${cut} writes`);
  }
}

/** Looks until it can be looked: a node that has just started may be busy. What is found is judged at once. */
async function settled(look: () => Promise<unknown>): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      await look();
      return;
    } catch (error) {
      if (tries === 20 || !/"(?:request_timeout|unavailable|overloaded)"/.test(String((error as Error).message)))
        throw error;
      await pause(250);
    }
  }
}

/** Runs it, and gives what was counted; throws at the first promise that was broken. */
export async function runDiskChaos(options: DiskChaosOptions): Promise<DiskChaosCounts> {
  const chaos = new DiskChaos(options);
  await chaos.run();
  return chaos.counts;
}
