/** The packages as a stranger gets them: packed, installed into an empty folder, started by the command. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { inGate } from "../support/gate.ts";
import { callRest } from "../support/node-process.ts";
import { install, pack, serve } from "../support/packed.ts";

describe.skipIf(!inGate)("the packed package", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "palimpsest-stranger-"));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("memory-01, memory-04: installs into an empty folder and serves", { timeout: 600_000 }, async () => {
    const { archive, paths } = await pack(folder);
    expect(paths).toEqual(
      expect.arrayContaining([
        "package.json",
        "README.md",
        "LICENSE",
        "dist/lib/main.js",
        "dist/lib/thread.js",
        "docs/llms.txt",
        "native/sqlguard.c",
        "native/build.mjs",
      ]),
    );
    expect(paths.filter((path) => /^(src|test|gen|data|packages)\/|\.so$|\.ts$|\.onnx$/.test(path))).toEqual([]);

    await install(folder, archive);
    const port = await serve(folder);

    expect(await callRest(port, "GET", "/health")).toMatchObject({ status: 200, text: "ok" });
    const ingest = await callRest(port, "POST", "/v1/memory/pack/test/memories", {
      memories: [{ type: "fact", summary: "The lighthouse keeper is Ada", content: null }],
    });
    expect(ingest).toMatchObject({ status: 201, json: { results: [{ status: "created" }] } });
    const recall = await callRest(port, "POST", "/v1/memory/pack/test/recall", { query: "lighthouse" });
    expect(recall).toMatchObject({ status: 200, json: { memories: [{ id: ingest.json.results[0].id }] } });
    const sql = await callRest(port, "POST", "/v1/db/pack--test/sql", { stmts: [{ q: "SELECT 40 + ?", params: [2] }] });
    expect(sql).toMatchObject({ status: 200, json: { results: [{ rows: [[42]] }] } });
  });

  test(
    "with a model of its own it starts only beside that package, and then embeds",
    { timeout: 600_000 },
    async () => {
      const variables = { SERVICE_EMBED_PROVIDER: "local" };
      await expect(serve(folder, variables)).rejects.toThrow(
        "SERVICE_EMBED_PROVIDER=local needs the package @palimpsest/embed-local, which is not installed: " +
          "run npm install --ignore-scripts @palimpsest/embed-local",
      );

      const { archive, paths } = await pack(folder, "packages/embed-local");
      expect(paths.toSorted()).toEqual([
        "LICENSE",
        "NOTICE",
        "README.md",
        "SHA256SUMS",
        "model.js",
        "model.onnx",
        "package.json",
        "vocab.txt",
        "wordpiece.js",
      ]);
      await install(folder, archive, "--ignore-scripts");
      const port = await serve(folder, variables);
      const ingest = await callRest(port, "POST", "/v1/memory/pack/local/memories", {
        memories: [{ type: "fact", summary: "She is allergic to peanuts", content: null }],
      });
      expect(ingest.status).toBe(201);
      const recall = await callRest(port, "POST", "/v1/memory/pack/local/recall", {
        query: "What nuts can she not eat?",
      });
      expect(recall.json.memories).toMatchObject([{ id: ingest.json.results[0].id, channels: ["vector"] }]);
    },
  );
});
