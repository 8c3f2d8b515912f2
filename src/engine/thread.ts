/** Entry of an engine worker thread: an Engine behind a message port. */
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import { assert } from "../base/faults/assert.ts";
import { realWorld } from "../base/world.ts";
import { threadedPress } from "../format/core/compression.ts";
import { kernelFault, kernelName } from "../model/index/vector-kernel.ts";
import { MeasuredStore } from "../store/measured-store.ts";
import { openStore } from "../store/open-store.ts";
import { indexBuilder } from "./threads/ann-builder.ts";
import { Engine } from "./engine.ts";
import { inlineFsyncDisk } from "./database/inline-fsync.ts";
import { segmentWorker } from "./threads/thread-spawner.ts";
import { ThreadProbe } from "./api/measures.ts";
import type { EngineOptions, FromEngine, ToEngine } from "./api/protocol.ts";
import { IdleMemory } from "../sqlite/idle-memory.ts";
import { attachSlices } from "../sqlite/slices.ts";
import { ReadPermits } from "./direct-reads/read-permits.ts";
import { RemoteSql } from "./processes/remote-sql.ts";
import { ThreadedMaker } from "./segments/threaded-maker.ts";

assert(parentPort, "this file is the entry of a worker thread");
const port = parentPort;
const given = workerData as EngineOptions;
const options: EngineOptions = { ...given, scratchDirectory: join(given.scratchDirectory, `lane-${given.lane}`) };
/**
 * What a thread before this one was making when it was lost, and this one when it ends, may be of states that are
 * erased.
 */
const clearScratch = (): void => rmSync(options.scratchDirectory, { recursive: true, force: true });
clearScratch();
mkdirSync(options.scratchDirectory, { recursive: true, mode: 0o700 });
const world = realWorld();
const send = (message: FromEngine): void => port.postMessage(message);
const notice = (level: "info" | "warn", message: string): void => send({ kind: "event", level, message, uuid: "" });
notice(kernelFault === undefined ? "info" : "warn", `vector kernel: ${kernelName}`);
const store = new MeasuredStore(await openStore(options.store, world), world);
if (options.time) world.time.join(options.time);
const probe = new ThreadProbe(world, store);
const idleMemory = new IdleMemory(world);
const maker = new ThreadedMaker(threadedPress, segmentWorker);
const sql = new RemoteSql(send);
const engine: Engine = new Engine({
  options,
  world,
  disk: probe.disk(inlineFsyncDisk(world, () => engine.alone)),
  store,
  press: threadedPress,
  maker,
  sql,
  readPermits: new ReadPermits(send),
  slices: attachSlices(options.lane),
  indexBuilder: indexBuilder(options.scratchDirectory, world, (message) => notice("warn", message)),
  send,
});

port.on("message", (message: ToEngine) => {
  switch (message.kind) {
    case "sql-ran":
      return sql.ran(message.ticket, message.reply);
    case "measure":
      return send({ kind: "measured", id: message.id, measures: probe.measures(engine.state) });
    case "close":
      void engine.close().then(() => {
        clearScratch();
        probe.stop();
        idleMemory.stop();
        void maker.close();
        send({ kind: "closed", counters: engine.counters });
        port.close();
      });
      return;
    default:
      return engine.hear(message);
  }
});
