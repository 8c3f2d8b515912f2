/**
 * The models that a node is configured with: what makes vectors, and what writes.
 *
 * Always true: a node without a key for a use loads nothing for it and calls no provider; nor does it for vectors with
 * a model of its own.
 */
import type { Embedder } from "../../ai/embedder.ts";
import { isSelfHosted } from "../../egress/hosts.ts";
import { LocalEmbedder } from "../../ai/local-embedder.ts";
import { findLocalModel } from "../../ai/local-model.ts";
import { startModelProcess, type ModelProcess } from "../../ai/local-process.ts";
import type { Log } from "../../base/log.ts";
import type { World } from "../../base/world.ts";
import { Embedding, type EmbeddingOptions } from "../../service/embedding/embedding.ts";
import type { Assistants } from "../../service/handlers/node-parts.ts";
import { childEnvironment, type Config } from "../config/config.ts";

/** The models that write, of those uses that have a key. */
export async function openAssistants(config: Config, world: World, log: Log): Promise<Assistants> {
  const { assistantKey, extractKey } = config;
  if (assistantKey === undefined && extractKey === undefined) return {};
  // The client of the protocol takes time to load, which no other node should spend.
  const { Assistant } = await import("../../ai/assistant.ts");
  const shared = { selfHostedHosts: config.embedSelfHostedHosts ?? [], world, log };
  return {
    ...(assistantKey === undefined
      ? {}
      : {
          ask: new Assistant({
            ...shared,
            apiKey: assistantKey,
            model: config.assistantModel,
            baseAddress: config.assistantBaseAddress,
          }),
        }),
    ...(extractKey === undefined
      ? {}
      : {
          extract: new Assistant({
            ...shared,
            apiKey: extractKey,
            model: config.extractModel,
            baseAddress: config.extractBaseAddress,
          }),
        }),
  };
}

/** What makes vectors, where there is a key for it or a model of its own; the stack ends it before the engine. */
export async function openEmbedding(
  config: Config,
  parts: Omit<EmbeddingOptions, "embedder" | "selfHosted">,
  stack: AsyncDisposableStack,
): Promise<Embedding | undefined> {
  const embedder = await openEmbedder(config, parts);
  if (!embedder) return undefined;
  const { endpointHost } = embedder;
  const selfHosted = endpointHost === undefined || isSelfHosted(endpointHost, config.embedSelfHostedHosts ?? []);
  const embedding = new Embedding({ ...parts, embedder, selfHosted });
  stack.defer(() => embedding.close());
  return embedding;
}

async function openEmbedder(
  config: Config,
  { world, log }: Pick<EmbeddingOptions, "world" | "log">,
): Promise<Embedder | undefined> {
  const { embedKey: apiKey, embedProvider: provider, embedModel: model, embedBaseAddress: baseAddress } = config;
  if (provider === "local") return openLocalEmbedder(config, world, log);
  if (apiKey === undefined) return undefined;
  // The client of the protocol takes half a second to load, which no other node should spend.
  const { ModelEmbedder } = await import("../../ai/embedder.ts");
  return new ModelEmbedder({ provider, apiKey, model, baseAddress, world });
}

/** Nothing is loaded but what finds the model: its process is started with the first text. */
function openLocalEmbedder({ embedThreads }: Config, world: World, log: Log): LocalEmbedder {
  const model = findLocalModel();
  if ("missing" in model) throw new Error(`SERVICE_EMBED_PROVIDER=local needs ${model.missing}`);
  const environment = childEnvironment();
  const start = (): ModelProcess => startModelProcess(environment);
  return new LocalEmbedder({ model, threads: embedThreads, start, world, log });
}
