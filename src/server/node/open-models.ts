/**
 * The outside models that a node is configured with: what makes vectors, and what writes.
 *
 * Always true: a node without a key for a use loads nothing for it and calls no provider.
 */
import { isSelfHosted } from "../../ai/hosts.ts";
import type { Log } from "../../base/log.ts";
import type { World } from "../../base/world.ts";
import { Embedding, type EmbeddingOptions } from "../../service/embedding/embedding.ts";
import type { Assistants } from "../../service/handlers/node-parts.ts";
import type { Config } from "../config/config.ts";

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

/** What makes vectors, where there is a key for it; the stack ends it before the engine. */
export async function openEmbedding(
  config: Config,
  parts: Omit<EmbeddingOptions, "embedder" | "selfHosted">,
  stack: AsyncDisposableStack,
): Promise<Embedding | undefined> {
  const { embedKey: apiKey, embedProvider: provider, embedModel: model, embedBaseAddress: baseAddress } = config;
  if (apiKey === undefined) return undefined;
  // The client of the protocol takes half a second to load, which no other node should spend.
  const { ModelEmbedder } = await import("../../ai/embedder.ts");
  const embedder = new ModelEmbedder({ provider, apiKey, model, baseAddress, world: parts.world });
  const embedding = new Embedding({
    ...parts,
    embedder,
    selfHosted: isSelfHosted(embedder.endpointHost, config.embedSelfHostedHosts ?? []),
  });
  stack.defer(() => embedding.close());
  return embedding;
}
