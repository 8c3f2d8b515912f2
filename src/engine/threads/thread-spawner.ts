/** Starts engine and segment threads as Node workers, and the processes that run user SQL. */
import { fileURLToPath } from "node:url";
import type { Worker } from "node:worker_threads";
import { moduleFile } from "../../base/package-root.ts";
import type { EngineLane } from "./engine-lanes.ts";
import type { EngineOptions, FromEngine, ToEngine } from "../api/protocol.ts";
import { startSqlProcess, type SqlProcess, type SqlProcessOptions } from "../processes/sql-process.ts";
import { startThread } from "./threads.ts";

/** An engine in a thread of its own. */
export function engineLane(options: EngineOptions): EngineLane {
  const worker = startThread(moduleFile("engine/thread.ts"), { workerData: options, name: "engine" });
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
  return startSqlProcess({ ...options, entry: fileURLToPath(moduleFile("engine/processes/sql-child.ts")) });
}

/** A thread that makes segments. */
export function segmentWorker(): Worker {
  return startThread(moduleFile("engine/segments/segment-thread.ts"), { name: "segments" });
}
