/**
 * A model that writes: asked for one JSON value of a given form, over the Messages protocol.
 *
 * Owns the one client, its attempts within a call's time, and what a failure is called.
 *
 * Always true:
 * - no attempt begins after the deadline and none outlives it or its caller
 * - what the provider says in a failure is neither logged nor passed on, as it may quote what it was sent
 * - the answer is as small as its bound, and of no other host than the one that policy has judged
 *
 * Must not know: memories, policies, who asks.
 */
import Anthropic, { APIError } from "@anthropic-ai/sdk";
import { ServiceError } from "../base/faults/errors.ts";
import { limits } from "../base/limits.ts";
import type { Log } from "../base/log.ts";
import type { World } from "../base/world.ts";
import { boundedFetch } from "./bounded-fetch.ts";
import { parseHost, isSelfHosted } from "../egress/hosts.ts";
import { classifyStatus, ModelFailure, retryAfterMs } from "./model-failure.ts";

/** Calls of one model under way; each waits for seconds, and they must not take all of the node's places. */
export const assistantCallsMax = 64;
/** Attempts of one call, within its time. */
export const assistantAttemptsMax = 3;
/** The longest pause before the second attempt; it doubles with each. */
const assistantBackoffMs = 500;
/** An answer of the provider, whatever is in it. */
export const assistantAnswerBytesMax = 1024 * 1024;

export interface AssistantOptions {
  readonly apiKey: string;
  /** Undefined: one that this build chooses. */
  readonly model: string | undefined;
  /** Where the protocol's paths begin; undefined: the provider's own. */
  readonly baseAddress: string | undefined;
  /** Hosts that the operator calls self-hosted, beside those that their address shows to be. */
  readonly selfHostedHosts: readonly string[];
  readonly world: World;
  readonly log: Log;
}

/** Who gets what is sent. */
export interface AssistantIdentity {
  readonly provider: string;
  readonly model: string;
  readonly endpointHost: string;
  readonly selfHosted: boolean;
}

/** What a model is asked to do. */
export interface AssistantTask<Value> {
  /** What to do: words of ours only. */
  readonly instructions: string;
  /** What to do it with: blocks of data. */
  readonly data: string;
  /** JSON schema of the answer. */
  readonly schema: Readonly<Record<string, unknown>>;
  /** What the model may write at most, its thinking included. */
  readonly tokensMax: number;
  /** Reads what it wrote; undefined when that has another form. The schema is a wish that not every server grants. */
  readonly read: (written: unknown) => Value | undefined;
}

/** How long a caller waits. */
export interface Patience {
  /** On world.monotonicMs(). */
  readonly deadlineMs: number;
  /** Aborted when the caller goes away. */
  readonly signal: AbortSignal | undefined;
}

/** An attempt that gave nothing. `reason` is for clients. */
interface Failure {
  readonly reason: string;
  /** Whether the next attempt may go better. */
  readonly passing: boolean;
  readonly status?: number | undefined;
  /** What the provider asked to wait. */
  readonly retryAfterMs?: number | undefined;
}

type Outcome<Value> = { readonly value: Value } | { readonly failure: Failure };

const provider = "anthropic";
const providerAddress = "https://api.anthropic.com";
const modelDefault = "claude-sonnet-5-5";
/**
 * Said to that model only, as others need not know the word: a call has half a minute, and its tasks are reading tasks.
 */
const effortDefault = "low";

const tooLate = (): ServiceError =>
  new ServiceError("request_timeout", "the model did not answer in the request's time");

const misshapen = "the model's answer did not have the form that was asked for";

export class Assistant {
  readonly identity: AssistantIdentity;
  readonly #world: World;
  readonly #log: Log;
  readonly #client: Anthropic;
  readonly #effort: Pick<Anthropic.OutputConfig, "effort">;
  #underWay = 0;

  constructor({ apiKey, model, baseAddress, selfHostedHosts, world, log }: AssistantOptions) {
    const baseURL = baseAddress ?? providerAddress;
    const endpointHost = parseHost(baseURL);
    this.identity = {
      provider,
      model: model ?? modelDefault,
      endpointHost,
      selfHosted: isSelfHosted(endpointHost, selfHostedHosts),
    };
    this.#effort = model === undefined ? { effort: effortDefault } : {};
    this.#world = world;
    this.#log = log;
    // Attempts, time and words of failure are ours; the client's own log could show what was sent.
    this.#client = new Anthropic({
      apiKey,
      baseURL,
      maxRetries: 0,
      timeout: limits.settingTimerSecsMax * 1_000,
      fetch: boundedFetch(assistantAnswerBytesMax),
      logLevel: "off",
      openTelemetry: false,
    });
  }

  /**
   * What the model writes for the task. Throws overloaded before anything is sent, request_timeout when the caller's
   * time was over, unavailable for every failure of the provider.
   */
  async write<Value>(task: AssistantTask<Value>, { deadlineMs, signal }: Patience): Promise<Value> {
    if (this.#underWay >= assistantCallsMax) {
      throw new ServiceError(
        "overloaded",
        `more than ${assistantCallsMax} calls of the model are under way on this node`,
        { retryAfterSecs: limits.retryAfterSecsMin },
      );
    }
    const stop = new AbortController();
    const abort = (): void => stop.abort();
    const cancel = this.#world.after(Math.max(0, deadlineMs - this.#world.monotonicMs()), abort);
    signal?.addEventListener("abort", abort, { once: true });
    if (signal?.aborted) abort();
    this.#underWay++;
    try {
      return await this.#writeBefore(deadlineMs, task, stop.signal);
    } finally {
      this.#underWay--;
      cancel();
      signal?.removeEventListener("abort", abort);
    }
  }

  async #writeBefore<Value>(deadlineMs: number, task: AssistantTask<Value>, stop: AbortSignal): Promise<Value> {
    for (let attempt = 1; ; attempt++) {
      if (stop.aborted) throw tooLate();
      const outcome = await this.#attempt(task, stop);
      if ("value" in outcome) return outcome.value;
      if (stop.aborted) throw tooLate();
      const pauseMs = this.#pauseMs(attempt, outcome.failure);
      const hasTime = this.#world.monotonicMs() + pauseMs < deadlineMs;
      if (!outcome.failure.passing || attempt === assistantAttemptsMax || !hasTime)
        throw this.#refusal(outcome.failure, attempt);
      await this.#pause(pauseMs, stop);
    }
  }

  async #attempt<Value>(
    { instructions, data, schema, tokensMax, read }: AssistantTask<Value>,
    stop: AbortSignal,
  ): Promise<Outcome<Value>> {
    let message: unknown;
    try {
      message = await this.#client.messages.create(
        {
          model: this.identity.model,
          max_tokens: tokensMax,
          system: instructions,
          messages: [{ role: "user", content: data }],
          output_config: { ...this.#effort, format: { type: "json_schema", schema } },
        },
        { signal: stop },
      );
    } catch (error) {
      return { failure: toFailure(error, this.#world.nowMs()) };
    }
    const written = writtenIn(message);
    if ("failure" in written) return written;
    const value = read(written.value);
    return value === undefined ? lasting(misshapen) : { value };
  }

  /** Random below a bound that doubles, so that a crowd disperses; as long as the provider asks when that is longer. */
  #pauseMs(attempt: number, { retryAfterMs = 0 }: Failure): number {
    const [chance] = this.#world.randomBytes(1);
    return Math.max(retryAfterMs, (assistantBackoffMs * 2 ** (attempt - 1) * (1 + chance!)) / 256);
  }

  #pause(delayMs: number, stop: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        cancel();
        stop.removeEventListener("abort", end);
        resolve();
      };
      const cancel = this.#world.after(delayMs, end);
      stop.addEventListener("abort", end);
    });
  }

  #refusal({ reason, status, passing, retryAfterMs = 0 }: Failure, attempts: number): ServiceError {
    const { provider, model, endpointHost } = this.identity;
    this.#log.warn("a call of a model failed", { provider, model, endpointHost, reason, status, attempts });
    // A model that refuses, or writes what is no answer, would be paid again for the same.
    if (!passing) return new ServiceError("unavailable", reason, { isLasting: true });
    return new ServiceError("unavailable", reason, {
      retryAfterSecs: Math.max(limits.retryAfterSecsMin, Math.ceil(retryAfterMs / 1_000)),
    });
  }
}

const lasting = (reason: string): { readonly failure: Failure } => ({ failure: { reason, passing: false } });

/** The JSON in a message. What is read here came from outside: its type is a promise, no more. */
function writtenIn(message: unknown): Outcome<unknown> {
  const { stop_reason: ending, content } = (message ?? {}) as {
    readonly stop_reason?: unknown;
    readonly content?: unknown;
  };
  if (ending === "refusal") return lasting("the model refused to answer");
  if (ending === "max_tokens" || ending === "model_context_window_exceeded")
    return lasting("the model's answer was cut off: it has no room for so much");
  if ((ending !== "end_turn" && ending !== "stop_sequence") || !Array.isArray(content)) return lasting(misshapen);
  const texts = content.flatMap((block: { readonly type?: unknown; readonly text?: unknown } | null) =>
    block?.type === "text" && typeof block.text === "string" ? [block.text] : [],
  );
  try {
    return { value: JSON.parse(texts.join("")) };
  } catch {
    return lasting(misshapen);
  }
}

/** The outcome of an attempt that threw. Everything but an answer with a status was lost on its way. */
function toFailure(error: unknown, nowMs: number): Failure {
  const cause = error instanceof Error && error.cause instanceof ModelFailure ? error.cause : error;
  // Too much, or no JSON.
  if (cause instanceof ModelFailure || error instanceof SyntaxError) return { reason: misshapen, passing: false };
  if (!(error instanceof APIError) || typeof error.status !== "number")
    return { reason: "the model's provider cannot be reached", passing: true };
  const status: number = error.status;
  const header = (error.headers as Headers | undefined)?.get("retry-after");
  return {
    reason: `${describeStatus(status)} (status ${status})`,
    passing: classifyStatus(status) === "unavailable",
    status,
    retryAfterMs: retryAfterMs(header, nowMs),
  };
}

function describeStatus(status: number): string {
  if (status === 401 || status === 403) return "the model's provider does not accept this node's key";
  if (status === 429 || status === 529) return "the model's provider has no room now";
  return classifyStatus(status) === "unavailable"
    ? "the model's provider failed"
    : "the model's provider refused the request";
}
