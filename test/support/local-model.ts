/** The optional package with a node's own model: whether it is there, and what it is compared with. */
import { readFileSync } from "node:fs";
import { findLocalModel } from "../../src/ai/local-model.ts";
import { packageRoot } from "../../src/base/package-root.ts";
import { listPids } from "../bench/process-tree.ts";
import { inGate } from "./gate.ts";

const found = findLocalModel();

/** The end of a title that says why tests of the model are skipped; undefined where they run: always in the gate. */
export const localModelMissing = "missing" in found && !inGate ? ` (skipped: it needs ${found.missing})` : undefined;

/** Opens the model in this process. */
export async function openedModel(): Promise<{ embed(text: string): Promise<Float32Array> }> {
  const { openModel } = await import("../../packages/embed-local/model.js");
  return openModel({ threads: 1 });
}

interface Reference {
  readonly text: string;
  readonly ids: readonly number[];
  /** Of some texts. */
  readonly vector: Float32Array | undefined;
}

/** What the published tokenizer and Python's runtime made of texts (test/support/python/minilm_reference.py). */
export const minilmReference: readonly Reference[] = (
  JSON.parse(readFileSync(new URL("test/golden/minilm-v1.json", packageRoot), "utf8")) as {
    texts: { text: string; ids: number[]; vector?: string }[];
  }
).texts.map(({ text, ids, vector }) => ({
  text,
  ids,
  vector: vector === undefined ? undefined : new Float32Array(new Uint8Array(Buffer.from(vector, "base64")).buffer),
}));

/** The processes with a node's own model that a process has started. */
export function listModelProcesses(parent: number): readonly number[] {
  return listPids([parent]).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("local-child");
    } catch {
      // It has ended meanwhile.
      return false;
    }
  });
}
