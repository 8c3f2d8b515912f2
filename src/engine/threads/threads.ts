/**
 * Starts threads of this process, with what V8 has to be told for that.
 *
 * Garbage: V8 collects old space once it has doubled, memory outside of its heap counted in, and what lives on an
 * engine thread is some 12 MiB: a few megabytes of compressed pages set off a collection of 5 to 10 ms, ten of them in
 * a busy second, in which every client of the thread waits. With room for `threadHeapMiB` from the start there are
 * three, and the p99 of a lone client's ingest falls by a quarter (`npm run bench -- tail`).
 *
 * Shared code: V8 13.6 (Node 24) shares what it compiles for calls from WebAssembly to JavaScript between threads, and
 * while one of them replaces it, another can free it; the process then ends with "Check failed: jit_page.has_value()"
 * (seen about once in fifty starts of a few threads; mended in V8 by 9b8ca54d5a, which Node 24 does not have). Node
 * itself runs WebAssembly in every thread, to read TypeScript. A thread that never counts that many calls keeps to the
 * built-in code, which is never replaced.
 */
import { setFlagsFromString } from "node:v8";
import { Worker, type WorkerOptions } from "node:worker_threads";

/**
 * What a thread's old space may grow to before it is first collected, and so what each busy thread may hold for
 * nothing.
 */
const threadHeapMiB = 64;

/** Starts a thread at that file. The worker's events tell errors and the end. */
export function startThread(entry: URL, options: WorkerOptions): Worker {
  setFlagsFromString(`--initial-old-space-size=${threadHeapMiB}`);
  setFlagsFromString("--wasm-wrapper-tiering-budget=2147483647");
  return new Worker(entry, options);
}
