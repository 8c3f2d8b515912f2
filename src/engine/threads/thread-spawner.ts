/** Starts engine and segment threads as Node workers, and the processes that run user SQL. */
import { fileURLToPath } from "node:url";
import type { Worker } from "node:worker_threads";
import type { EngineLane } from "./engine-lanes.ts";
import type { EngineOptions, FromEngine, ToEngine } from "../api/protocol.ts";
import { startSqlProcess, type SqlProcess, type SqlProcessOptions } from "../processes/sql-process.ts";
import { startThread } from "./threads.ts";

/** The file of a worker or process of the engine: a source in development, JavaScript in the published package. */
function entry(name: string): URL {
  return new URL(`../${name}.${import.meta.url.endsWith(".ts") ? "ts" : "js"}`, import.meta.url);
}

/** An engine in a thread of its own. */
export function engineLane(options: EngineOptions): EngineLane {
  const worker = startThread(entry("thread"), { workerData: options, name: "engine" });
  return {
    send: (message: ToEngine) => worker.postMessage(message),
    listen(hear, lost) {
      let ended = false;
      let fault: unknown;
      worker.on("message", (message: FromEngine) => {
        if (message.kind === "closed") ended = true;
        hear(message);
      });
      worker.on("error", (error) => {
        fault = error;
      });
      // Only now are its files closed: another engine may open them.
      worker.on("exit", (code) => {
        if (!ended) lost(fault ?? new Error(`the engine thread ended with ${code}`));
      });
    },
  };
}

/** A process for user SQL. */
export function sqlProcess(options: Omit<SqlProcessOptions, "entry">): SqlProcess {
  return startSqlProcess({ ...options, entry: fileURLToPath(entry("processes/sql-child")) });
}

/** A thread that makes segments. */
export function segmentWorker(): Worker {
  return startThread(entry("segments/segment-thread"), { name: "segments" });
}
