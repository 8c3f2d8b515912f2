/**
 * Vectors of the node's own model, made in this process and kept in a file between runs: only texts that no run has
 * embedded before cost anything.
 *
 * Always true: a kept vector is that of the whole text by the weights that the file is named for.
 */
import { hash } from "node:crypto";
import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findTraits } from "../../src/ai/embedding-models.ts";
import { findLocalModel } from "../../src/ai/local-model.ts";
import type { Maker } from "../../src/model/memory/memory-vectors.ts";

/** The part of the optional package that is used here. */
interface ModelPackage {
  readonly dimension: number;
  openModel(options: { readonly threads: number }): Promise<{ embed(text: string): Promise<Float32Array> }>;
}

const keyBytes = 32;

/** What makes vectors as a node with `SERVICE_EMBED_PROVIDER=local` does. */
export interface KeptEmbedder {
  readonly maker: Maker;
  embed(text: string): Promise<Float32Array>;
}

export async function openEmbedder(): Promise<KeptEmbedder> {
  const found = findLocalModel();
  if ("missing" in found) throw new Error(found.missing);
  const { dimension, openModel } = (await import(found.entry)) as ModelPackage;
  const folder = join(tmpdir(), "palimpsest-eval-vectors");
  mkdirSync(folder, { recursive: true });
  const path = join(folder, found.name);
  const recordBytes = keyBytes + dimension * Float32Array.BYTES_PER_ELEMENT;
  const kept = new Map<string, Float32Array>();
  const file = existsSync(path) ? readFileSync(path) : Buffer.alloc(0);
  for (let at = 0; at + recordBytes <= file.length; at += recordBytes) {
    const numbers = Uint8Array.from(file.subarray(at + keyBytes, at + recordBytes));
    kept.set(file.toString("hex", at, at + keyBytes), new Float32Array(numbers.buffer));
  }
  let model: ReturnType<ModelPackage["openModel"]> | undefined;
  return {
    maker: { name: `local/${found.name}`, floor: findTraits(found.name).floor },
    async embed(text) {
      const key = hash("sha256", text);
      const before = kept.get(key);
      if (before) return before;
      const made = await (await (model ??= openModel({ threads: 1 }))).embed(text);
      kept.set(key, made);
      appendFileSync(path, Buffer.concat([Buffer.from(key, "hex"), Buffer.from(made.buffer)]));
      return made;
    },
  };
}
