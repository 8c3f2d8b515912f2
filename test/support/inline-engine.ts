/**
 * The real engine on the test's own thread: same code, same files, no worker, with a disk and a world of the test's
 * choice.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { silentLog } from "../../src/base/log.ts";
import { realWorld, type World } from "../../src/base/world.ts";
import { EngineClient } from "../../src/engine/threads/client.ts";
import type { EngineLane } from "../../src/engine/threads/engine-lanes.ts";
import { Engine } from "../../src/engine/engine.ts";
import type { EngineOptions, FromEngine } from "../../src/engine/api/protocol.ts";
import type { SegmentMaker } from "../../src/engine/segments/segment-maker.ts";
import type { SqlWriter } from "../../src/engine/process-calls/sql-write.ts";
import type { Slices } from "../../src/sqlite/slices.ts";
import { MemoryStore } from "../../src/store/memory-store.ts";
import type { ObjectStore } from "../../src/store/port/object-store.ts";
import { threadedPress } from "../../src/format/core/compression.ts";
import { realDisk, type Disk } from "../../src/base/disk.ts";
import {
  writeQueueDepthDefault,
  idleCloseMs,
  gcGraceSecsDefault,
  pitrSecsDefault,
  unshippedSecsDefault,
  unshippedBytesDefault,
} from "../../src/server/config/settings.ts";
import { walCheckpointBytes } from "../../src/server/node/open-engine.ts";

export interface InlineEngine {
  readonly client: EngineClient;
  readonly engine: Engine;
  readonly world: World;
  /** A deadline far enough away for any test. */
  soon(): { deadlineMs: number };
}

/** The uuid of a test's n-th database. */
export function uuidOf(number: number): string {
  return `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
}

/** Options of an engine for a test: everything below one directory, small and alone. */
export function inlineOptions(directory: string, given: Partial<EngineOptions> = {}): EngineOptions {
  return {
    lane: 0,
    lanes: 1,
    databasesDirectory: join(directory, "db"),
    scratchDirectory: join(directory, "scratch"),
    hotHandlesMax: 100,
    writeQueueDepth: writeQueueDepthDefault,
    idleCloseMs: idleCloseMs,
    store: { kind: "memory" },
    nodeId: "test-node",
    coordinated: false,
    shipping: true,
    pitrMs: pitrSecsDefault * 1_000,
    gcGraceMs: gcGraceSecsDefault * 1_000,
    unshippedMsMax: unshippedSecsDefault * 1_000,
    unshippedBytesMax: unshippedBytesDefault,
    logCheckpointBytes: walCheckpointBytes,
    ...given,
  };
}

/** Given no store, an engine gets an empty one in memory, which is gone with it. */
export function openInlineEngine(
  directory: string,
  given: {
    disk?: Disk;
    world?: World;
    store?: ObjectStore;
    maker?: SegmentMaker;
    sql?: SqlWriter;
    slices?: Slices;
    options?: Partial<EngineOptions>;
  } = {},
): InlineEngine {
  const world = given.world ?? realWorld();
  const options = inlineOptions(directory, given.options);
  const store = given.store ?? new MemoryStore(world);
  for (const path of [options.databasesDirectory, options.scratchDirectory]) mkdirSync(path, { recursive: true });
  let engine: Engine | undefined;
  let hear: ((message: FromEngine) => void) | undefined;
  const spawn = (): EngineLane => ({
    listen(listener) {
      hear = listener;
      engine = new Engine({
        options,
        world,
        disk: given.disk ?? realDisk,
        store,
        press: threadedPress,
        ...(given.maker && { maker: given.maker }),
        ...(given.sql && { sql: given.sql }),
        ...(given.slices && { slices: given.slices }),
        indexBuilder: undefined,
        // Cloned as a thread would clone it, so that nothing but plain data can pass.
        send: (message) => listener(structuredClone(message)),
      });
    },
    send(message) {
      if (message.kind === "measure" || message.kind === "sql-ran") return;
      if (message.kind !== "close") setImmediate(() => engine!.hear(structuredClone(message)));
      else void engine!.close().then(() => hear!({ kind: "closed", counters: engine!.counters }));
    },
  });
  const client = new EngineClient(1, spawn, undefined, world, silentLog);
  return { client, engine: engine!, world, soon: () => ({ deadlineMs: world.monotonicMs() + 60_000 }) };
}
