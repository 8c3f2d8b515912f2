/**
 * Approximate vector indexes by hnswlib: built in a worker thread, handed over through a file, then loaded here.
 *
 * Always true: the file is gone when the build has resolved, whatever happened; a build never rejects. hnswlib is
 * optional, and without it every build resolves undefined, so searches stay exact. Must not know: spaces,
 * owners, when an index is wanted.
 */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { HierarchicalNSW } from "hnswlib-node";
import { moduleFile } from "../../base/package-root.ts";
import type { World } from "../../base/world.ts";
import type { AnnIndex, IndexBuilder } from "../../model/index/vector-pool.ts";
import { loadHnswlib, type Hnswlib } from "./hnswlib.ts";
import { startThread } from "./threads.ts";

/** What the worker is given. */
export interface IndexWork {
  /** `count` unit vectors, row by row; transferred. */
  readonly matrix: Float32Array<ArrayBuffer>;
  readonly dimension: number;
  readonly count: number;
  /** Links of a node of the graph. */
  readonly links: number;
  /** Where to write the index. */
  readonly path: string;
  /** One number, shared with the worker: anything but 0 tells it to end. */
  readonly stop: Int32Array<SharedArrayBuffer>;
}

const links = 16;
/**
 * The least number of candidates that a search keeps in view. On 20,000 x 256 in 200 noisy clusters recall@10 was .94
 * at 200, .98 at 300, .99 at 400 (0.5, 0.8 and 1.1 ms a search); more links or wider insertions helped less (measured).
 */
const searchWidthMin = 400;
/** What the graph takes of one vector beside its numbers: links, label, lock, table entries. An estimate from above. */
const nodeBytes = 320;

const workerEntry = moduleFile("engine/threads/ann-worker.ts");

/**
 * A builder that keeps its files in `scratchDirectory`, which exists and is private. `report` is told, once, when the
 * library is missing, and each time a build fails.
 */
export function indexBuilder(
  scratchDirectory: string,
  world: Pick<World, "ulid">,
  report: (message: string) => void = (message) => process.emitWarning(message),
): IndexBuilder {
  let library: Promise<Hnswlib | undefined> | undefined;
  return async (matrix, dimension, count, abandoned) => {
    library ??= loadLibrary(report);
    const hnswlib = await library;
    if (!hnswlib || abandoned.aborted) return undefined;
    try {
      const path = join(scratchDirectory, `ann-${world.ulid()}.hnsw`);
      const stop = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
      return await buildThroughFile(hnswlib, { matrix, dimension, count, links, path, stop }, abandoned);
    } catch (error) {
      report(`an approximate vector index could not be built, searches stay exact: ${String(error)}`);
      return undefined;
    }
  };
}

async function loadLibrary(report: (message: string) => void): Promise<Hnswlib | undefined> {
  try {
    return await loadHnswlib();
  } catch (error) {
    report(`hnswlib-node is not available, vector searches are always exact: ${String(error)}`);
    return undefined;
  }
}

async function buildThroughFile(
  hnswlib: Hnswlib,
  work: IndexWork,
  abandoned: AbortSignal,
): Promise<AnnIndex | undefined> {
  try {
    await runWorker(work, abandoned);
    if (abandoned.aborted) return undefined;
    const graph = new hnswlib.HierarchicalNSW("ip", work.dimension);
    await graph.readIndex(work.path);
    return loadedIndex(graph, work);
  } finally {
    // It holds every vector of the space: an erasure must not leave it behind.
    await rm(work.path, { force: true });
  }
}

/**
 * Resolves when the worker has ended, with its work or told to stop; rejects when it failed.
 *
 * The worker is asked to stop, never terminated: a termination that lands while the native library reads its arguments
 * aborts the whole process (seen). For the same reason it is not unref'd: a thread that
 * closes waits the millisecond that an abandoned worker needs, where it would otherwise terminate it.
 */
function runWorker(work: IndexWork, abandoned: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const worker = startThread(workerEntry, { workerData: work, transferList: [work.matrix.buffer] });
    const stop = (): void => void Atomics.store(work.stop, 0, 1);
    let fault: unknown;
    abandoned.addEventListener("abort", stop, { once: true });
    worker.once("error", (error) => (fault = error));
    worker.once("exit", (code) => {
      abandoned.removeEventListener("abort", stop);
      if (code === 0) resolve();
      else reject(fault ?? new Error(`the worker ended with code ${code}`));
    });
  });
}

function loadedIndex(graph: HierarchicalNSW, { dimension, count }: IndexWork): AnnIndex {
  return {
    bytes: count * (dimension * Float32Array.BYTES_PER_ELEMENT + nodeBytes),
    search(query, wanted) {
      graph.setEf(Math.max(searchWidthMin, wanted));
      const { neighbors, distances } = graph.searchKnn(Array.from(query), Math.min(wanted, count));
      return { rows: neighbors, scores: distances.map((distance) => 1 - distance) };
    },
    close() {
      // The library frees a graph when it is given a new one, or whenever the collector runs.
      graph.initIndex(1);
    },
  };
}
