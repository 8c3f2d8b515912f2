/** Starts engine, reader and segment threads as Node workers. */
import { Worker } from "node:worker_threads";
import type { EngineLane } from "./client.ts";
import type { EngineOptions, FromEngine, ToEngine } from "./protocol.ts";

/** The worker's file beside this one: a source in development, JavaScript in the published package. */
function entry(name: string): URL {
  return new URL(`./${name}.${import.meta.url.endsWith(".ts") ? "ts" : "js"}`, import.meta.url);
}

/** An engine in a thread of its own. */
export function engineLane(options: EngineOptions): EngineLane {
  const worker = new Worker(entry("thread"), { workerData: options, name: "engine" });
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

/** A thread for read-only user SQL. */
export function readerWorker(): Worker {
  return new Worker(entry("reader-thread"), { name: "reader" });
}

/** A thread that makes segments. */
export function segmentWorker(): Worker {
  return new Worker(entry("segment-thread"), { name: "segments" });
}
