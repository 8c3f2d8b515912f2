/**
 * Entry of a worker thread that builds one hnswlib index from a matrix, writes it to a file, and ends; or ends without
 * a file when it is told to stop.
 *
 * A thread of its own, because one insertion takes 0.6 ms at 256 dimensions and 2 ms at 768 (measured): minutes of work
 * for a hundred thousand vectors, none of which may hold up a database.
 */
import { workerData } from "node:worker_threads";
import type { IndexWork } from "./ann-builder.ts";
import { loadHnswlib } from "./hnswlib.ts";

/** How many candidates an insertion looks at: the library's own default. */
const insertWidth = 200;
/** Fixed, so that the same vectors in the same order give the same graph. */
const graphSeed = 100;

const { matrix, dimension, count, links, path, stop } = workerData as IndexWork;
const stopped = (): boolean => Atomics.load(stop, 0) !== 0;

const hnswlib = await loadHnswlib();
// Inner product on unit vectors is the cosine, without normalising once more.
const index = new hnswlib.HierarchicalNSW("ip", dimension);
index.initIndex(count, links, insertWidth, graphSeed);
for (let row = 0; row < count && !stopped(); row++) {
  index.addPoint(Array.from(matrix.subarray(row * dimension, (row + 1) * dimension)), row);
}
if (!stopped()) index.writeIndexSync(path);
