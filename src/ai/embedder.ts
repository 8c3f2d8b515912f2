/**
 * Turns texts into vectors by an outside model, in batches, and says plainly which texts it could not.
 *
 * Always true:
 * - `embed` settles by its deadline and does not fail: what it could not get is missing from its answer
 * - at most `embedRequestsMax` requests are under way
 * - a provider that keeps failing is left alone
 *
 * Must not know: databases, policies, what a text is about.
 */
import { utf8Length } from "../base/bytes.ts";
import { limits } from "../base/limits.ts";
import { Semaphore } from "../base/collections/semaphore.ts";
import { sleep, type World } from "../base/world.ts";
import { Breaker, type AttemptOutcome } from "./breaker.ts";
import { embedProviders, findTraits, type EmbedProvider, type EmbedUse } from "./embedding-models.ts";
import { EmbeddingsClient } from "./embeddings-client.ts";
import { parseHost } from "../egress/hosts.ts";
import { ModelFailure, type ModelFailureKind } from "./model-failure.ts";

/** Texts, and bytes of text, in one request: well under what providers take, however a model counts tokens. */
export const embedBatchItemsMax = 128;
export const embedBatchBytesMax = 96 * 1024;
/**
 * Requests to the embedder that are under way at once, and bytes of texts that wait for them; further ones go without
 * vectors.
 */
export const embedRequestsMax = 4;
const embedWaitingBytesMax = 64 * 1024 * 1024;
/** An attempt that had less time than this and ran out of it says nothing of the provider. */
const embedPatienceMs = 1_000;
const embedAttemptsMax = 3;
/** Requests of one call that a model does not take; halving 128 texts finds one that it does not with 8. */
export const embedRejectionsMax = 16;
/** The longest pause before the first repeat; it doubles with each. */
const embedBackoffMs = 250;

/** The outcome for a list of texts. */
export interface EmbedAnswer {
  /** One place for each text; undefined where there is no vector. */
  readonly vectors: readonly (Float32Array | undefined)[];
  /** Why texts were not asked for or not answered; undefined when it said of each whether it takes it. */
  readonly failure: ModelFailureKind | undefined;
  /** Texts that have left the node, and their bytes: each once, however often it was sent. */
  readonly sentItems: number;
  readonly sentBytes: number;
}

/** What a node's own model has done, and what it takes now. */
export interface LocalEmbedderMeasures {
  /** Whether its process is there, and what that took of memory when it last said so. */
  readonly isRunning: boolean;
  readonly residentBytes: number;
  readonly waitingTexts: number;
  readonly texts: Readonly<Record<EmbedUse, number>>;
  /** Of all its processes, as far as they have said so. */
  readonly cpuMs: number;
  readonly starts: number;
  /** Processes that did not end because they should. */
  readonly losses: number;
}

/** A model that makes vectors. */
export interface Embedder {
  readonly provider: string;
  readonly model: string;
  /** Both in one: vectors of different names do not go together. */
  readonly name: string;
  /** Where texts are sent to; undefined for a model that the node runs itself, for which none leaves it. */
  readonly endpointHost: string | undefined;
  /** The cosine below which the model's vectors mean nothing. */
  readonly floor: number;
  /** Whether the provider would be asked now. */
  readonly isAwake: boolean;
  /** Of a model that the node runs itself. */
  readonly measures?: LocalEmbedderMeasures;
  /** Embeds as many of the texts as can be by the deadline, which is on world.monotonicMs(). */
  embed(texts: readonly string[], use: EmbedUse, deadlineMs: number): Promise<EmbedAnswer>;
  /** Ends what is under way. */
  close(): void;
}

export interface EmbedderOptions {
  readonly provider: EmbedProvider;
  readonly apiKey: string;
  /** The provider's default when undefined. */
  readonly model: string | undefined;
  readonly baseAddress: string | undefined;
  readonly world: World;
}

/** Where requests go: a base address that is a mere origin gets the protocol's usual path. */
export function embedAddress(provider: EmbedProvider, baseAddress: string | undefined): string {
  if (baseAddress === undefined) return embedProviders[provider].baseAddress;
  return new URL(baseAddress).pathname === "/" ? `${new URL(baseAddress).origin}/v1` : baseAddress;
}

interface Batch {
  /** Of the first text in the list. */
  readonly start: number;
  readonly texts: readonly string[];
  readonly bytes: number;
}

/** What is being gathered for one list of texts. */
interface Gathering {
  readonly vectors: (Float32Array | undefined)[];
  readonly use: EmbedUse;
  readonly deadlineMs: number;
  failure: ModelFailureKind | undefined;
  /** Requests that were not taken. */
  rejections: number;
  sentItems: number;
  sentBytes: number;
}

export class ModelEmbedder implements Embedder {
  readonly provider: string;
  readonly model: string;
  readonly name: string;
  readonly endpointHost: string;
  readonly floor: number;
  readonly #world: World;
  readonly #client: EmbeddingsClient;
  readonly #prefixes: Readonly<Record<EmbedUse, string>>;
  readonly #breaker: Breaker;
  readonly #permits = new Semaphore(embedRequestsMax);
  readonly #running = new Set<AbortController>();
  #waitingBytes = 0;

  constructor({ provider, apiKey, model = embedProviders[provider].model, baseAddress, world }: EmbedderOptions) {
    const address = embedAddress(provider, baseAddress);
    const { floor, prefixes } = findTraits(model);
    this.provider = provider;
    this.model = model;
    this.name = `${provider}/${model}`;
    this.endpointHost = parseHost(address);
    this.floor = floor;
    this.#world = world;
    this.#prefixes = prefixes;
    this.#client = new EmbeddingsClient({ provider, model, apiKey, baseAddress: address, world });
    this.#breaker = new Breaker(world);
  }

  get isAwake(): boolean {
    return this.#breaker.passes;
  }

  async embed(texts: readonly string[], use: EmbedUse, deadlineMs: number): Promise<EmbedAnswer> {
    const prefix = this.#prefixes[use];
    const batches = splitIntoBatches(prefix === "" ? texts : texts.map((text) => prefix + text));
    const gathering: Gathering = {
      vectors: texts.map(() => undefined),
      use,
      deadlineMs,
      failure: undefined,
      rejections: 0,
      sentItems: 0,
      sentBytes: 0,
    };
    const timeUp = Promise.withResolvers<void>();
    const cancel = this.#world.after(Math.max(0, deadlineMs - this.#world.monotonicMs()), timeUp.resolve);
    const all = Promise.all(batches.map((batch) => this.#gather(batch, gathering)));
    try {
      const inTime = await Promise.race([all.then(() => true), timeUp.promise.then(() => false)]);
      if (!inTime) gathering.failure ??= gathering.sentItems > 0 ? "unavailable" : "crowded";
    } finally {
      cancel();
    }
    // A copy: what comes later than this is dropped.
    const { vectors, failure, sentItems, sentBytes } = gathering;
    return { vectors: [...vectors], failure, sentItems, sentBytes };
  }

  close(): void {
    for (const controller of this.#running) controller.abort();
  }

  async #gather(batch: Batch, gathering: Gathering): Promise<void> {
    if (this.#waitingBytes + batch.bytes > embedWaitingBytesMax) {
      gathering.failure ??= "crowded";
      return;
    }
    this.#waitingBytes += batch.bytes;
    await this.#permits.run(async () => {
      this.#waitingBytes -= batch.bytes;
      // Where one batch has failed the next would too: the rest is left for later.
      if (gathering.failure === undefined && !this.isAwake) gathering.failure = "resting";
      if (gathering.failure === undefined && this.#world.monotonicMs() >= gathering.deadlineMs)
        gathering.failure = "crowded";
      if (gathering.failure !== undefined) return;
      gathering.sentItems += batch.texts.length;
      gathering.sentBytes += batch.bytes;
      try {
        await this.#embedBatch(batch, gathering);
      } catch (error) {
        if (!(error instanceof ModelFailure)) throw error;
        gathering.failure ??= error.kind;
      }
    });
  }

  /**
   * Asks for a batch, and for its halves when it is not taken: one text that a model does not take costs no other its
   * vector.
   */
  async #embedBatch(batch: Batch, gathering: Gathering): Promise<void> {
    try {
      const vectors = await this.#attempts(batch, gathering);
      vectors.forEach((vector, at) => (gathering.vectors[batch.start + at] = vector));
    } catch (error) {
      if (!(error instanceof ModelFailure) || error.kind !== "rejected") throw error;
      // When too many are rejected, the texts are not the cause.
      if (++gathering.rejections > embedRejectionsMax) throw error;
      const { length } = batch.texts;
      if (length === 1) return;
      const half = length >> 1;
      await this.#embedBatch({ ...batch, texts: batch.texts.slice(0, half) }, gathering);
      await this.#embedBatch({ ...batch, start: batch.start + half, texts: batch.texts.slice(half) }, gathering);
    }
  }

  /** Asks for a batch until it is answered, the provider will not, or the time would not do for another attempt. */
  async #attempts(batch: Batch, gathering: Gathering): Promise<readonly (Float32Array | undefined)[]> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#attempt(batch, gathering);
      } catch (error) {
        if (!(error instanceof ModelFailure) || error.kind !== "unavailable" || attempt >= embedAttemptsMax)
          throw error;
        const pauseMs = error.retryAfterMs ?? this.#backoffMs(attempt);
        if (this.#world.monotonicMs() + pauseMs >= gathering.deadlineMs) throw error;
        await sleep(this.#world, pauseMs);
      }
    }
  }

  #backoffMs(attempt: number): number {
    return (embedBackoffMs * 2 ** (attempt - 1) * (this.#world.randomBytes(1)[0]! + 1)) / 256;
  }

  async #attempt(batch: Batch, gathering: Gathering): Promise<readonly (Float32Array | undefined)[]> {
    const leftMs = Math.min(limits.embedRequestMs, gathering.deadlineMs - this.#world.monotonicMs());
    if (leftMs <= 0) throw new ModelFailure("crowded");
    const leave = this.#breaker.enter();
    if (!leave) throw new ModelFailure("resting");
    const controller = new AbortController();
    this.#running.add(controller);
    const cancel = this.#world.after(leftMs, () => controller.abort());
    let outcome: AttemptOutcome = "unknown";
    try {
      const vectors = await this.#client.embed(batch.texts, gathering.use, controller.signal);
      outcome = "answered";
      return vectors;
    } catch (error) {
      if (error instanceof ModelFailure) outcome = error.kind === "rejected" ? "answered" : "failed";
      if (controller.signal.aborted && leftMs < embedPatienceMs) outcome = "unknown";
      throw error;
    } finally {
      cancel();
      this.#running.delete(controller);
      leave(outcome);
    }
  }
}

/** The texts in their order, cut where a request would have too many or too long ones. */
function splitIntoBatches(texts: readonly string[]): readonly Batch[] {
  const batches: { start: number; texts: string[]; bytes: number }[] = [];
  for (const [at, text] of texts.entries()) {
    const bytes = utf8Length(text);
    const last = batches.at(-1);
    if (last && last.texts.length < embedBatchItemsMax && last.bytes + bytes <= embedBatchBytesMax) {
      last.texts.push(text);
      last.bytes += bytes;
    } else batches.push({ start: at, texts: [text], bytes });
  }
  return batches;
}
