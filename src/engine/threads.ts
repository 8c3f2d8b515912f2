/**
 * Starts threads of this process.
 *
 * Why not `new Worker`: V8 13.6 (Node 24) shares what it compiles for calls from WebAssembly to JavaScript between threads,
 * and while one of them replaces it, another can free it; the process then ends with "Check failed: jit_page.has_value()"
 * (seen about once in fifty starts of a few threads; mended in V8 by 9b8ca54d5a, which Node 24 does not have). Node itself
 * runs WebAssembly in every thread, to read TypeScript. A thread that never counts so many calls keeps to the code
 * that is built in, which nobody replaces.
 */
import { setFlagsFromString } from "node:v8";
import { Worker, type WorkerOptions } from "node:worker_threads";

/** Starts a thread at that file. Errors and the end are told by the worker's events. */
export function startThread(entry: URL, options: WorkerOptions): Worker {
  setFlagsFromString("--wasm-wrapper-tiering-budget=2147483647");
  return new Worker(entry, options);
}
