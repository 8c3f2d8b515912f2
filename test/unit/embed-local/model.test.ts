/** The model of the optional package: its vectors against Python's, and that it loads nothing but what it should. */
import { cpSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { describe, expect, test } from "vitest";
import { packageRoot } from "../../../src/base/package-root.ts";
import { localModelMissing, minilmReference, openedModel } from "../../support/local-model.ts";
import { temporaryDirectory } from "../../support/temporary.ts";

function computeCosine(left: Float32Array, right: Float32Array): number {
  const dot = (a: Float32Array, b: Float32Array): number => a.reduce((sum, value, at) => sum + value * b[at]!, 0);
  return dot(left, right) / Math.sqrt(dot(left, left) * dot(right, right));
}

describe.skipIf(localModelMissing)(`the local model${localModelMissing ?? ""}`, () => {
  test("its vectors are those of Python's runtime, of length 1", async () => {
    const model = await openedModel();
    // The reference cuts texts at 256 tokens.
    const withVectors = minilmReference.filter(({ vector, ids }) => vector && ids.length <= 128);
    expect(withVectors.length).toBeGreaterThan(10);
    for (const { text, vector } of withVectors) {
      const ours = await model.embed(text);
      expect(ours).toHaveLength(384);
      expect(Math.hypot(...ours), text).toBeCloseTo(1, 5);
      expect(computeCosine(ours, vector!), text).toBeGreaterThan(0.999);
    }
  });

  test("of a long text the first 128 tokens count", async () => {
    const model = await openedModel();
    const sentence = "The user prefers dark mode. ";
    const long = await model.embed(sentence.repeat(60));
    expect(await model.embed(sentence.repeat(30))).toEqual(long);
    expect(computeCosine(await model.embed(sentence.repeat(15)), long)).toBeLessThan(0.9999);
  });

  test("a text's vector is the same whatever came before it", async () => {
    const model = await openedModel();
    const before = await model.embed("Ada keeps bees");
    await model.embed("something else, and much longer ".repeat(40));
    expect(await model.embed("Ada keeps bees")).toEqual(before);
  });

  test("weights that are not those of SHA256SUMS are not loaded", async () => {
    const copy = join(temporaryDirectory(), "embed-local");
    cpSync(fileURLToPath(new URL("packages/embed-local", packageRoot)), copy, {
      recursive: true,
      verbatimSymlinks: true,
      filter: (path) => !/node_modules.(?!onnxruntime-(?:node|common))|napi-v6.(?:darwin|win32)/.test(path),
    });
    truncateSync(join(copy, "model.onnx"), 1_000);
    const { openModel } = (await import(
      pathToFileURL(join(copy, "model.js")).href
    )) as typeof import("../../../packages/embed-local/model.js");
    await expect(openModel({ threads: 1 })).rejects.toThrow(/SHA256SUMS names no [0-9a-f]{64} {2}model\.onnx/);
  });
});
