/**
 * One request for vectors, to Voyage or to whatever speaks OpenAI's embeddings protocol: the two differ by a few
 * members.
 *
 * Always true: what is given back is one sound vector or nothing for each text, all of one dimension; every failure is
 * a ModelFailure without any of the provider's text. Must not know: batches, repeats, deadlines.
 */
import OpenAI from "openai";
import { limits } from "../base/limits.ts";
import type { World } from "../base/world.ts";
import { boundedFetch } from "./bounded-fetch.ts";
import type { EmbedProvider, EmbedUse } from "./embedding-models.ts";
import { classifyStatus, ModelFailure, retryAfterMs } from "./model-failure.ts";

/** An answer: 128 vectors of 4096 numbers of 24 digits each. */
const embedAnswerBytesMax = 16 * 1024 * 1024;

export interface EmbeddingsClientOptions {
  readonly provider: EmbedProvider;
  readonly model: string;
  readonly apiKey: string;
  /** `/embeddings` is appended. */
  readonly baseAddress: string;
  readonly world: World;
}

export class EmbeddingsClient {
  readonly #options: EmbeddingsClientOptions;
  readonly #client: OpenAI;

  constructor(options: EmbeddingsClientOptions) {
    this.#options = options;
    // The package would fill in what is not given from variables of the process.
    this.#client = new OpenAI({
      apiKey: options.apiKey,
      baseURL: options.baseAddress,
      adminAPIKey: null,
      organization: null,
      project: null,
      webhookSecret: null,
      logLevel: "off",
      maxRetries: 0,
      timeout: limits.embedRequestMs,
      fetch: boundedFetch(embedAnswerBytesMax),
    });
  }

  /** The vectors of the texts in their order; undefined for one that the model gave no direction. */
  async embed(texts: readonly string[], use: EmbedUse, signal: AbortSignal): Promise<(Float32Array | undefined)[]> {
    const { provider, model } = this.#options;
    // Floats as numbers: not every server knows the other form.
    const ofProvider = provider === "voyage" ? { input_type: use, truncation: true } : { encoding_format: "float" };
    let answer: unknown;
    try {
      answer = await this.#client.post<unknown>("/embeddings", {
        body: { input: texts, model, ...ofProvider },
        signal,
      });
    } catch (error) {
      throw this.#toModelFailure(error);
    }
    return parseVectors(answer, texts.length);
  }

  #toModelFailure(error: unknown): ModelFailure {
    const cause = error instanceof Error && error.cause instanceof ModelFailure ? error.cause : error;
    if (cause instanceof ModelFailure) return cause;
    if (error instanceof OpenAI.APIError && typeof error.status === "number") {
      const header = (error.headers as Headers | undefined)?.get("retry-after");
      return new ModelFailure(classifyStatus(error.status), retryAfterMs(header, this.#options.world.nowMs()));
    }
    // A body that is no JSON; all else did not come through.
    return new ModelFailure(error instanceof SyntaxError ? "unusable" : "unavailable");
  }
}

/** The vectors of an answer, by the index that each states. */
function parseVectors(answer: unknown, count: number): (Float32Array | undefined)[] {
  const items = isMembers(answer) && Array.isArray(answer["data"]) ? (answer["data"] as unknown[]) : [];
  if (items.length !== count) throw new ModelFailure("unusable");
  const vectors: (Float32Array | undefined)[] = items.map(() => undefined);
  const seen = new Set<unknown>();
  let dimension: number | undefined;
  for (const [at, item] of items.entries()) {
    const index = isMembers(item) ? (item["index"] ?? at) : undefined;
    const vector = isMembers(item) ? parseVector(item["embedding"]) : undefined;
    if (vector === undefined || typeof index !== "number" || !(index in vectors) || seen.has(index))
      throw new ModelFailure("unusable");
    if (vector.length !== (dimension ??= vector.length)) throw new ModelFailure("unusable");
    seen.add(index);
    vectors[index] = vector.some((value) => value !== 0) ? vector : undefined;
  }
  return vectors;
}

function isMembers(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function parseVector(value: unknown): Float32Array | undefined {
  if (!Array.isArray(value) || value.length === 0 || value.length > limits.vectorDimensionMax) return undefined;
  if (!value.every((number) => typeof number === "number")) return undefined;
  const vector = Float32Array.from(value as number[]);
  return vector.every(Number.isFinite) ? vector : undefined;
}
