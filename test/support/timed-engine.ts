/**
 * The real engine on virtual time: one test owns the clock of one or several nodes over one scripted store.
 *
 * `of` lets time pass until a promise settles, `pass` for so long; nothing happens in between. Files and SQLite are
 * real, fsyncs return at once. Several nodes are several engines with a name and a data directory of their own.
 */
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { silentLog } from "../../src/base/log.ts";
import { EngineClient } from "../../src/engine/threads/client.ts";
import type { EngineLane } from "../../src/engine/threads/engine-lanes.ts";
import type { CallOptions } from "../../src/engine/api/engine-port.ts";
import { Engine } from "../../src/engine/engine.ts";
import type { BranchAct, EngineOptions, FromEngine, Target } from "../../src/engine/api/protocol.ts";
import type { Answer } from "../../src/engine/api/protocol.ts";
import { encodeNameClaim } from "../../src/format/records/name-claim.ts";
import { catalogKey, manifestKey, historyKey, nameClaimKey, purgeKey } from "../../src/format/keys/object-keys.ts";
import { decodeCatalog, type Catalog } from "../../src/format/history/catalog.ts";
import { decodeManifest, type Manifest } from "../../src/format/history/manifest.ts";
import { decodeHistory, type History } from "../../src/format/history/history.ts";
import { inlinePress } from "../../src/format/core/compression.ts";
import type { Disk } from "../../src/base/disk.ts";
import type { ObjectStore } from "../../src/store/port/object-store.ts";
import { Scheduler } from "../sim/scheduler.ts";
import { SimWorld } from "../sim/sim-world.ts";
import { inlineOptions, uuidOf } from "./inline-engine.ts";
import { seeded } from "./random.ts";
import { ScriptedStore } from "./scripted-store.ts";
import { soundDisk } from "./sound-disk.ts";
import { temporaryDirectory } from "./temporary.ts";

/** Bytes of random text, which no press makes smaller. */
export function noise(bytes: number, seed = 1): string {
  const random = seeded(seed);
  return Array.from({ length: bytes / 8 }, () =>
    Math.floor(random() * 2 ** 32)
      .toString(16)
      .padStart(8, "0"),
  ).join("");
}

/** One virtual clock, one store. */
export class VirtualTime {
  readonly scheduler: Scheduler;
  readonly store: ScriptedStore;
  #worlds = 0;

  constructor(seed = 1) {
    this.scheduler = new Scheduler(seed, 200);
    this.store = new ScriptedStore(() => Math.floor(Date.UTC(2030, 0, 1) + this.scheduler.nowMs));
  }

  /** A world of its own on this clock, whose wall clock is off by so much from the start. */
  world(skewMs = 0): SimWorld {
    return new SimWorld(this.scheduler, 1, `world${++this.#worlds}`, skewMs);
  }

  /** Lets time pass until the promise settles, `withinMs` of it at most. */
  async of<Value>(promise: Promise<Value>, withinMs = 120_000): Promise<Value> {
    let settled = false;
    const end = (): void => void (settled = true);
    promise.then(end, end);
    const done = await this.scheduler.run(() => settled, this.scheduler.nowMs + withinMs);
    if (!done) throw new Error(`nothing came of it within ${withinMs} ms of virtual time`);
    return promise;
  }

  /** Lets so much time pass. */
  async pass(ms: number): Promise<void> {
    await this.of(this.scheduler.sleep(ms), ms + 1);
  }

  /**
   * What a deletion leaves beside the database's objects, for as long as somebody may ask: the marker, and its name's
   * tombstone.
   */
  async noteDeletion(uuid: string, name = "n--p"): Promise<void> {
    const claim = { uuid, createdAtMs: 1, deletedAtMs: 2 };
    await this.store.calm.put(purgeKey(uuid), Buffer.from(name), { kind: "absent" });
    await this.store.calm.put(nameClaimKey(name), encodeNameClaim(claim), { kind: "absent" });
  }

  manifest(uuid: string, branchId = "main"): Manifest {
    return decodeManifest(this.store.read(manifestKey(uuid, branchId))!.bytes);
  }

  catalog(uuid: string): Catalog {
    return decodeCatalog(this.store.read(catalogKey(uuid))!.bytes);
  }

  history(uuid: string, branchId = "main"): History {
    const { history } = this.manifest(uuid, branchId);
    return history
      ? decodeHistory(this.store.read(historyKey(uuid, history.id))!.bytes)
      : { uuid, branchId, timelines: [], checkpoints: [] };
  }
}

/** The store as a process sees it: what it asks once it is dead never arrives. */
function whileAlive(store: ObjectStore, world: SimWorld): ObjectStore {
  return new Proxy(store, {
    get:
      (_, name: keyof ObjectStore) =>
      (...args: unknown[]) =>
        world.fate === "dead" ? new Promise(() => {}) : (store[name] as (...args: unknown[]) => unknown)(...args),
  });
}

/** One node on the virtual clock, and a database of it. */
export class TimedEngine {
  readonly time: VirtualTime;
  readonly directory: string;
  readonly world: SimWorld;
  readonly client: EngineClient;
  readonly notices: string[] = [];
  readonly #options: Partial<EngineOptions>;
  readonly #store: ObjectStore;
  readonly #disk: Disk;
  #engine: Engine | undefined;
  #closed = false;
  readonly uuid: string = uuidOf(1);

  constructor(
    time: VirtualTime,
    options: Partial<EngineOptions> = {},
    directory = temporaryDirectory(),
    store: ObjectStore = time.store,
    disk: Disk = soundDisk,
  ) {
    this.time = time;
    this.directory = directory;
    this.world = time.world();
    this.#options = options;
    this.#store = store;
    this.#disk = disk;
    this.client = new EngineClient(1, () => this.#lane(), undefined, this.world, silentLog);
    onTestFinished(() => this.kill());
  }

  get engine(): Engine {
    return this.#engine!;
  }

  #lane(): EngineLane {
    const options = inlineOptions(this.directory, this.#options);
    for (const path of [options.databasesDirectory, options.scratchDirectory]) mkdirSync(path, { recursive: true });
    let hear: ((message: FromEngine) => void) | undefined;
    return {
      listen: (listener) => {
        hear = listener;
        this.#engine = new Engine({
          options,
          world: this.world,
          disk: this.#disk,
          store: whileAlive(this.#store, this.world),
          press: inlinePress,
          indexBuilder: undefined,
          send: (message) => {
            const copy = structuredClone(message);
            if (copy.kind === "event") this.notices.push(copy.message);
            listener(copy);
          },
        });
      },
      send: (message) => {
        const copy = structuredClone(message);
        if (copy.kind === "measure" || copy.kind === "sql-ran") return;
        if (copy.kind !== "close") this.world.soon(() => this.#engine!.hear(copy));
        else void this.#engine!.close().then(() => hear!({ kind: "closed", counters: this.#engine!.counters }));
      },
    };
  }

  at(branch: string): Target {
    return { uuid: this.uuid, branch };
  }

  soon(more: Partial<CallOptions> = {}): CallOptions {
    return { deadlineMs: this.world.monotonicMs() + 60_000, ...more };
  }

  /** Puts a key; not awaited yet, so that several may be under way. */
  putting(key: string, branch = "main", more: Partial<CallOptions> = {}, value = key): Promise<Answer<unknown>> {
    return this.client.write(this.at(branch), "kv.put", { ns: "n", key, value: Buffer.from(value) }, this.soon(more));
  }

  put(key: string, branch = "main", more: Partial<CallOptions> = {}): Promise<Answer<unknown>> {
    return this.time.of(this.putting(key, branch, more));
  }

  sql(statements: readonly string[], branch = "main"): Promise<Answer<unknown>> {
    const batch = {
      statements: statements.map((text) => ({ text, paramsJson: undefined })),
      atomic: true,
      mayWrite: true,
    };
    return this.time.of(this.client.sqlWrite(this.at(branch), batch, this.soon()));
  }

  sync(branch = "main"): Promise<Answer<undefined>> {
    return this.time.of(this.client.sync(this.at(branch), this.soon()));
  }

  async keys(branch = "main"): Promise<readonly string[]> {
    const { value } = await this.time.of(
      this.client.read(this.at(branch), "kv.list", { ns: "n", limit: 10_000 }, this.soon()),
    );
    return value.keys;
  }

  branching<Act extends BranchAct>(act: Act, branch = "main"): ReturnType<EngineClient["branch"]> {
    return this.client.branch(this.at(branch), act, this.soon());
  }

  async branch(act: BranchAct, branch = "main"): Promise<any> {
    const { value, txid } = await this.time.of(this.branching(act, branch));
    return { ...(value as object | undefined), txid };
  }

  /** Ends the node in order, and gives what it counted. */
  async close(): Promise<void> {
    await this.time.of(this.client.close());
    this.#closed = true;
    this.world.kill();
  }

  /** Nothing of this node ever happens again; its files stay as they are. */
  kill(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.world.kill();
    this.#engine?.close().catch(() => {});
  }

  /** The node starts again: on its directory, or without it. */
  async again(loss = false, options: Partial<EngineOptions> = this.#options): Promise<TimedEngine> {
    await this.close();
    if (loss) this.wipe();
    return new TimedEngine(this.time, options, this.directory, this.#store);
  }

  /** Removes everything that the node has on its disk. */
  wipe(): void {
    for (const name of readdirSync(this.directory)) rmSync(join(this.directory, name), { recursive: true });
  }
}
