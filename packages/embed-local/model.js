/**
 * The model: one text in, one vector out, on the processor of this machine. It opens no connection.
 *
 * Always true: weights and vocabulary are those that SHA256SUMS names, or nothing is loaded; a vector has length 1 and is
 * of one text alone, whatever else is embedded: texts are run one by one. (Runs of several texts padded to the longest
 * take as long for each from 64 tokens on, and up to a gigabyte: `npm run bench -- embed` has the figures of one by one.)
 *
 * JavaScript, as Node.js reads no TypeScript below `node_modules`.
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import ort from "onnxruntime-node";
import { WordPiece } from "./wordpiece.js";

/**
 * What a text is cut to, with both special tokens: some 500 characters of English. The model was trained on texts of so
 * many, and of longer ones the mean says less: a question is farther from it.
 */
export const tokensMax = 128;
export const dimension = 384;

/**
 * The path of a file of this package, once it is proven to be the one that SHA256SUMS names.
 *
 * @param {string} name
 */
async function prove(name) {
  const sums = await readFile(new URL("SHA256SUMS", import.meta.url), "utf8");
  const path = fileURLToPath(new URL(name, import.meta.url));
  // In pieces: the whole would stay in memory beside what the runtime makes of it.
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  const line = `${hash.digest("hex")}  ${name}`;
  if (!sums.split("\n").includes(line)) throw new Error(`SHA256SUMS names no ${line}: a file was changed or cut short`);
  return path;
}

/** @typedef {{ readonly embed: (text: string) => Promise<Float32Array> }} Model */

/**
 * Loads the model. Rejects with a message for the operator when a file is missing or is another one.
 *
 * @param {{ readonly threads: number }} options Threads of the processor that one text may use.
 * @returns {Promise<Model>}
 */
export async function openModel({ threads }) {
  const [weights, vocabulary] = await Promise.all([prove("model.onnx"), prove("vocab.txt")]);
  const wordPiece = new WordPiece(await readFile(vocabulary, "utf8"), tokensMax);
  const session = await ort.InferenceSession.create(weights, {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionMode: "sequential",
    // Memory of a run is given back after it: texts have many lengths, and an arena keeps the most of each.
    enableCpuMemArena: false,
    enableMemPattern: false,
  });
  return {
    async embed(text) {
      const ids = wordPiece.encode(text);
      const shape = [1, ids.length];
      /** @param {readonly number[]} values */
      const tensor = (values) => new ort.Tensor("int64", BigInt64Array.from(values, BigInt), shape);
      const { last_hidden_state: states } = await session.run({
        input_ids: tensor(ids),
        attention_mask: tensor(ids.map(() => 1)),
        token_type_ids: tensor(ids.map(() => 0)),
      });
      return meanDirection(/** @type {Float32Array} */ (states?.data), ids.length);
    },
  };
}

/**
 * The mean of the tokens' states, brought to length 1 (the model's `1_Pooling` and `2_Normalize`).
 *
 * @param {Float32Array} states
 * @param {number} tokens
 */
function meanDirection(states, tokens) {
  const sum = new Float64Array(dimension);
  for (let at = 0; at < tokens * dimension; at++) sum[at % dimension] = (sum[at % dimension] ?? 0) + (states[at] ?? 0);
  const length = Math.hypot(...sum);
  return Float32Array.from(sum, (value) => value / length);
}
