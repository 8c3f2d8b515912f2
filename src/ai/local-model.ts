/**
 * The optional package with a model that a node runs itself: where it is, and what it is, told without loading it.
 *
 * Always true: a model that is found is complete as far as a look tells; its process checks the bytes (ai/local-child).
 * Must not know: what is embedded, when it is loaded.
 */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { packageRoot } from "../base/package-root.ts";

const packageName = "@palimpsest/embed-local";
const runtimeName = "onnxruntime-node";
/** As users see it; the sum of the weights goes with it. */
const modelName = "all-MiniLM-L6-v2-int8";
/** Digits of that sum that tell two models apart. */
const sumDigits = 12;

/** A model on this machine. */
export interface LocalModel {
  /** Vectors of models with different names are never compared. */
  readonly name: string;
  /** Address of the module that opens it. */
  readonly entry: string;
}

/** Where a folder is that has not been installed, what brings it. */
interface Place {
  /** Undefined where there is none. */
  readonly folder: string | undefined;
  /** One command of a shell. */
  readonly remedy: string;
}

/** A checkout has the package in a folder of its own; elsewhere npm puts it beside this one. */
function findPlace(root: URL): Place {
  const checkedOut = new URL("packages/embed-local/", root);
  if (existsSync(checkedOut)) return { folder: fileURLToPath(checkedOut), remedy: "npm run embed-local" };
  // Its scripts would fetch libraries for graphics cards, which are of no use here.
  const remedy = `npm install --ignore-scripts ${packageName}`;
  try {
    return { folder: dirname(createRequire(root).resolve(`${packageName}/package.json`)), remedy };
  } catch {
    return { folder: undefined, remedy };
  }
}

/** The model, or why there is none and the command that brings it, as the end of a sentence. `root` is this package. */
export function findLocalModel(root = packageRoot): LocalModel | { readonly missing: string } {
  const { folder, remedy } = findPlace(root);
  const missing = (what: string) => ({ missing: `${what}, which is not installed: run ${remedy}` });
  if (folder === undefined) return missing(`the package ${packageName}`);
  const sum = weightsSum(folder);
  if (sum === undefined) return missing(`model.onnx of ${packageName}`);
  const entry = join(folder, "model.js");
  try {
    createRequire(entry).resolve(runtimeName);
  } catch {
    return missing(runtimeName);
  }
  return { name: `${modelName}@${sum.slice(0, sumDigits)}`, entry: pathToFileURL(entry).href };
}

/** The sum that the weights must have; undefined where they are not there. */
function weightsSum(folder: string): string | undefined {
  if (!existsSync(join(folder, "model.onnx"))) return undefined;
  return /^([0-9a-f]{64}) {2}model\.onnx$/m.exec(readFileSync(join(folder, "SHA256SUMS"), "utf8"))?.[1];
}
