/** Where a node looks for the package with a model of its own, and what it says when something of it is not there. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { findLocalModel } from "../../../src/ai/local-model.ts";
import { findTraits } from "../../../src/ai/embedding-models.ts";
import { temporaryDirectory } from "../../support/temporary.ts";

const sum = "0123456789abcdef".repeat(4);

/** A place for a package of ours, with what is given installed beside it: files by their paths. */
function makeRoot(files: Readonly<Record<string, string>>): { readonly root: URL; readonly path: string } {
  const path = temporaryDirectory();
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(path, name, ".."), { recursive: true });
    writeFileSync(join(path, name), text);
  }
  return { root: pathToFileURL(`${path}/`), path };
}

const installed = "node_modules/@palimpsest/embed-local";
const manifest = JSON.stringify({ name: "@palimpsest/embed-local", exports: { "./package.json": "./package.json" } });
const model = { "package.json": manifest, "model.onnx": "", SHA256SUMS: `${sum}  model.onnx\n` };
const runtime = { "node_modules/onnxruntime-node/index.js": "" };

function under(folder: string, files: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(files).map(([name, text]) => [`${folder}/${name}`, text]));
}

test("a package that npm has installed beside this one is found, and named by its weights", () => {
  const { root, path } = makeRoot({ ...under(installed, model), ...runtime });
  expect(findLocalModel(root)).toEqual({
    name: "all-MiniLM-L6-v2-int8@0123456789ab",
    entry: pathToFileURL(join(path, installed, "model.js")).href,
  });
});

test.each([
  ["the package", {}, "the package @palimpsest/embed-local"],
  ["the weights", under(installed, { "package.json": manifest, SHA256SUMS: "" }), "model.onnx of @palimpsest"],
  ["the runtime", under(installed, model), "onnxruntime-node"],
])("without %s it says so, with the command that brings it", (_, files, what) => {
  const found = findLocalModel(makeRoot(files).root);
  expect(found).toEqual({ missing: expect.stringContaining(what) });
  expect(found).toEqual({
    missing: expect.stringMatching(
      /, which is not installed: run npm install --ignore-scripts @palimpsest\/embed-local$/,
    ),
  });
});

test("a checkout has the package in a folder of its own, and a command of its own for it", () => {
  const folder = "packages/embed-local";
  const { root, path } = makeRoot({ ...under(folder, model), ...runtime, ...under(installed, model) });
  expect(findLocalModel(root)).toMatchObject({ entry: pathToFileURL(join(path, folder, "model.js")).href });
  expect(findLocalModel(makeRoot(under(folder, { "package.json": manifest })).root)).toEqual({
    missing: expect.stringMatching(/run npm run embed-local$/),
  });
});

test("its floor is that of the model, wherever it runs", () => {
  for (const name of [
    "all-MiniLM-L6-v2-int8@0123456789ab",
    "all-minilm",
    "all-minilm:l6-v2",
    "sentence-transformers/all-MiniLM-L6-v2",
  ])
    expect(findTraits(name).floor, name).toBe(0.5);
  expect(findTraits("all-minilm-l12-v2").floor).toBe(0.2);
});
