/** The real engine on the test's own thread: same code, same files, no worker, with a disk and a world of the test's choice. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { silentLog } from "../../src/base/log.ts";
import { limits } from "../../src/base/limits.ts";
import { realWorld, type World } from "../../src/base/world.ts";
import { EngineClient, type EngineLane } from "../../src/engine/client.ts";
import { Engine } from "../../src/engine/engine.ts";
import type { EngineOptions, FromEngine } from "../../src/engine/protocol.ts";
import { realDisk, type Disk } from "../../src/sqlite/wal.ts";

export interface InlineEngine {
  readonly client: EngineClient;
  readonly engine: Engine;
  readonly world: World;
  /** A deadline far enough away for any test. */
  soon(): { deadlineMs: number };
}

export function openInlineEngine(directory: string, given: { disk?: Disk; world?: World; options?: Partial<EngineOptions> } = {}): InlineEngine {
  const world = given.world ?? realWorld();
  const databasesDirectory = join(directory, "db");
  const scratchDirectory = join(directory, "scratch");
  for (const path of [databasesDirectory, scratchDirectory]) mkdirSync(path, { recursive: true });
  let engine: Engine | undefined;
  let hear: ((message: FromEngine) => void) | undefined;
  const spawn = (): EngineLane => ({
    listen(listener) {
      hear = listener;
      engine = new Engine({
        options: { databasesDirectory, scratchDirectory, hotHandlesMax: 100, writeQueueDepth: limits.writeQueueDepthDefault, idleCloseMs: limits.idleCloseMs, ...given.options },
        world,
        disk: given.disk ?? realDisk,
        indexBuilder: undefined,
        // Cloned as a thread would clone it, so that nothing but plain data can pass.
        send: (message) => listener(structuredClone(message)),
      });
    },
    send(message) {
      if (message.kind === "calls") setImmediate(() => engine!.receive(structuredClone(message.calls)));
      else void engine!.close().then(() => hear!({ kind: "closed", counters: engine!.counters }));
    },
  });
  const client = new EngineClient(1, spawn, undefined, world, silentLog);
  return { client, engine: engine!, world, soon: () => ({ deadlineMs: world.monotonicMs() + 60_000 }) };
}
