/**
 * A node of the service without its wires: the real engine and client on virtual time, a real data directory, a disk
 * and a store of the simulation's making. It can die at any event and be started again on what it left.
 *
 * A process that dies leaves its files open; its copy is what the next process gets, so that neither disturbs the
 * other.
 */
import type { TimeMemory } from "../../src/base/trusted-time.ts";
import { mkdirSync } from "node:fs";
import { basename, join } from "node:path";
import { silentLog } from "../../src/base/log.ts";
import { EngineClient } from "../../src/engine/threads/client.ts";
import type { EngineLane } from "../../src/engine/threads/engine-lanes.ts";
import { Engine } from "../../src/engine/engine.ts";
import type { EngineOptions, FromEngine } from "../../src/engine/api/protocol.ts";
import { inlinePress } from "../../src/format/core/compression.ts";
import type { ObjectStore } from "../../src/store/port/object-store.ts";
import { DiskLedger } from "../support/disk-ledger.ts";
import { hastySlices } from "../support/hasty-slices.ts";
import type { HostileStore } from "./hostile-store.ts";
import { outside, stream, type Scheduler } from "./scheduler.ts";
import { SimDisk, type DiskDose } from "./sim-disk.ts";
import { SimWorld } from "./sim-world.ts";
import { writeQueueDepthDefault, idleCloseMs } from "../../src/server/config/settings.ts";

/** How a process ends: killed, with the power, with its disk, or with its disk put back to its last snapshot. */
export type Crash = "kill" | "power" | "loss" | "rollback";

/** The process that a call was made to is no more; whether the call had an effect is not known. */
export class ProcessGone extends Error {
  constructor() {
    super("the process is gone");
  }
}

export interface SimNodeOptions {
  readonly scheduler: Scheduler;
  readonly seed: number;
  readonly store: HostileStore;
  /** Where the node may make its data directories. */
  readonly directory: string;
  /**
   * Asked at every operation of ours; SQLite's own take what it says when a process starts, or when `takeDose` is
   * called.
   */
  readonly disk: () => DiskDose;
  readonly diskLies: boolean;
  /** Called after an fsync has failed. */
  readonly diskFailed?: (node: SimNode) => void;
  readonly engine: Partial<EngineOptions>;
}

interface Process {
  readonly world: SimWorld;
  readonly disk: SimDisk;
  readonly client: EngineClient;
  readonly engine: Engine;
  readonly gone: PromiseWithResolvers<never>;
}

const hopMsMax = 0.5;
/** At each look between statements. */
const sliceOverChance = 0.02;

export class SimNode {
  readonly name: string;
  readonly #options: SimNodeOptions;
  #process: Process | undefined;
  #starts = 0;
  #startedAtMs = 0;
  /** Data directories that this node has had, one after the other. */
  #disks = 1;
  /** What the last process left. */
  #left: DiskLedger | undefined;
  #snapshot: string | undefined;
  #snapshots = 0;
  /** Of every data directory there was. */
  readonly #ledgers: DiskLedger[] = [];
  /** How far the machine's clock is off, whichever process asks it. */
  #skewMs = 0;
  /** What the last process knew of the time; it lies in the data directory. */
  #time: TimeMemory | undefined;
  /** Asked at every crash point of a running process. */
  atCrashPoint: (name: string) => void = () => {};

  constructor(name: string, options: SimNodeOptions) {
    this.name = name;
    this.#options = options;
  }

  get up(): boolean {
    return this.#process !== undefined;
  }

  get world(): SimWorld | undefined {
    return this.#process?.world;
  }

  /** Tells one process of this node from the next. */
  get incarnation(): number {
    return this.#starts;
  }

  /** When the running process was started, in virtual time. */
  get startedAtMs(): number {
    return this.#startedAtMs;
  }

  /** What the node writes into manifests: it lies in the data directory and is lost with it. */
  get nodeId(): string {
    return `${this.name}-disk${this.#disks}`;
  }

  /** Object storage as the process of that world sees it. */
  openStore(world: SimWorld): ObjectStore {
    return this.#options.store.of(world);
  }

  /** Turns the machine's clock, for the process that runs and those that come. */
  turnClock(skewMs: number): void {
    this.#skewMs = skewMs;
    if (this.world) this.world.skewMs = skewMs;
  }

  /** Starts a process on what the last one left. */
  start(): void {
    const { scheduler, seed, disk: dose, diskLies } = this.#options;
    const name = `${this.name}${++this.#starts}`;
    const world = new SimWorld(scheduler, seed, name, this.#skewMs);
    if (this.#time) world.time.resume(this.#time);
    world.atCrashPoint = (point) => this.atCrashPoint(point);
    const ledger = this.#left ?? this.#ledger(name);
    const disk = new SimDisk(ledger, scheduler, world, seed, dose, diskLies);
    disk.failed = () => this.#options.diskFailed?.(this);
    const gone = Promise.withResolvers<never>();
    gone.promise.catch(() => {});
    scheduler.note(name, "starts");
    this.#startedAtMs = scheduler.nowMs;
    this.#process = { world, disk, gone, ...this.#open(world, disk) };
    disk.takeDose();
    this.#left = undefined;
  }

  /** Makes a data directory. */
  #ledger(name: string): DiskLedger {
    const root = join(this.#options.directory, name);
    mkdirSync(root, { recursive: true });
    const ledger = new DiskLedger(root, this.#options.seed);
    this.#ledgers.push(ledger);
    return ledger;
  }

  /** The running process's data directory. */
  get directory(): string | undefined {
    return this.#process?.disk.ledger.root;
  }

  /** The data directory that the last process has left for the next one; undefined while one runs. */
  get leftDirectory(): string | undefined {
    return this.#left?.root;
  }

  /** Copies it to `to` as a loss of power now would leave it; the process goes on. */
  lose(to: string, random: () => number): void {
    this.#process!.disk.ledger.lose(to, random);
  }

  /** Keeps the running process's disk as it is now, for a `rollback`. */
  snapshot(): void {
    const { ledger } = this.#process!.disk;
    const path = `${ledger.root}-snapshot${this.#snapshots++}`;
    ledger.copy(path);
    this.#snapshot = path;
  }

  /** Lets SQLite's own operations fail as the dose says now. */
  takeDose(): void {
    this.#process?.disk.takeDose();
  }

  /** Nothing that this node has ever done is watched any more. */
  dispose(): void {
    for (const ledger of this.#ledgers) ledger.close();
  }

  #open(world: SimWorld, disk: SimDisk): { client: EngineClient; engine: Engine } {
    const { scheduler, seed, store, engine: given } = this.#options;
    const { nodeId } = this;
    const random = stream(seed, `lane ${world.name}`);
    const toEngine = scheduler.channel(world, "call", () => random() * hopMsMax);
    const toClient = scheduler.channel(world, "answer", () => random() * hopMsMax);
    const { root } = disk.ledger;
    const [databasesDirectory, scratchDirectory] = [join(root, "db"), join(root, "scratch")];
    for (const path of [databasesDirectory, scratchDirectory]) mkdirSync(path, { recursive: true });
    // Whoever prepares a data directory sees to that.
    disk.ledger.folderSynced(root, disk.ledger.mark());
    // Now and then a command is stopped, undone and run alone.
    const haste = stream(seed, `slices ${world.name}`);
    const slices = hastySlices(
      () => haste() < sliceOverChance,
      () => haste() < 0.5,
    );
    let engine: Engine | undefined;
    const spawn = (): EngineLane => {
      let hear: ((message: FromEngine) => void) | undefined;
      const send = (message: FromEngine): void => {
        // Cloned as a thread would clone it, so that nothing but plain data can pass.
        const copy = structuredClone(message);
        if (copy.kind === "event") scheduler.note(world.name, `${copy.level}: ${copy.message}`);
        toClient(() => hear!(copy));
      };
      return {
        listen(listener) {
          hear = listener;
          const surroundings = {
            options: {
              databasesDirectory,
              scratchDirectory,
              hotHandlesMax: 100,
              writeQueueDepth: writeQueueDepthDefault,
              idleCloseMs: idleCloseMs,
              nodeId,
              ...engineDefaults,
              ...given,
            },
            world,
            disk,
            store: store.of(world),
            press: inlinePress,
            indexBuilder: undefined,
            send,
            slices,
          };
          engine = new Engine(surroundings);
        },
        send(message) {
          const copy = structuredClone(message);
          toEngine(() => {
            if (copy.kind === "measure" || copy.kind === "sql-ran") return;
            if (copy.kind !== "close") engine!.hear(copy);
            else void engine!.close().then(() => send({ kind: "closed", counters: engine!.counters }));
          });
        },
      };
    };
    const client = new EngineClient(1, spawn, undefined, world, silentLog);
    return { client, engine: engine! };
  }

  /** Ends the process at once, wherever it stands. */
  crash(kind: Crash): void {
    const process = this.#process;
    if (!process) return;
    const { scheduler, seed } = this.#options;
    this.#process = undefined;
    scheduler.note(process.world.name, `dies: ${kind}`);
    this.#time = kind === "loss" ? undefined : process.world.time.memory;
    process.world.kill();
    if (kind === "loss") {
      this.#disks++;
    } else if (kind === "rollback") {
      this.#left = this.#ledger(basename(this.#snapshot!));
    } else {
      // The copy is made now: what the dying code still does before it yields must not be found.
      const name = `${process.world.name}-left`;
      if (kind === "power") process.disk.ledger.lose(join(this.#options.directory, name), stream(seed, name));
      this.#left = this.#ledger(name);
      if (kind === "kill") process.disk.ledger.move(this.#left);
    }
    scheduler.at(0, outside, "bury", () => {
      process.gone.reject(new ProcessGone());
      // Lets go of the files of the dead; nobody sees what it does to them any more.
      process.engine.close().catch(() => {});
    });
  }

  /** Ends the process in order. */
  async stop(): Promise<void> {
    const process = this.#process;
    if (!process) return;
    await Promise.race([process.client.close(), process.gone.promise]);
    if (this.#process !== process) return;
    this.#process = undefined;
    this.#time = process.world.time.memory;
    process.world.kill();
    process.gone.reject(new ProcessGone());
    this.#left = process.disk.ledger;
    this.#options.scheduler.note(process.world.name, "stopped");
  }

  /** Makes a call of the running process; ends with ProcessGone when it dies first. */
  async call<Answer>(act: (client: EngineClient, world: SimWorld) => Promise<Answer>): Promise<Answer> {
    const process = this.#process;
    if (!process) throw new ProcessGone();
    return Promise.race([act(process.client, process.world), process.gone.promise]);
  }
}

/** Small bounds, so that a short run meets what takes hours elsewhere. */
const engineDefaults = {
  lane: 0,
  lanes: 1,
  store: { kind: "memory" as const },
  coordinated: false,
  shipping: true,
  pitrMs: 600_000,
  gcGraceMs: 60_000,
  unshippedMsMax: 300_000,
  unshippedBytesMax: 64 * 1024 * 1024,
  logCheckpointBytes: 256 * 1024,
};

const dayMs = 86_400_000;

/** A clock that is moved a little, set right, or wrong by days or years. */
export function turnedClock(random: () => number, skewMs: number, littleMs: number): number {
  const draw = random();
  if (draw < 0.5) return skewMs + (random() - 0.5) * littleMs;
  if (draw < 0.7) return 0;
  return [4, -4, 8 * 365, -8 * 365][Math.floor(random() * 4)]! * dayMs;
}
