/**
 * The change feed of a branch as one sequence, however often its stream is cut.
 *
 * Always true:
 * - transactions come in their order, each once: a stream that ends is opened again behind the last event that was given
 * - no more is read than is asked for, and nothing stays open once the sequence is left, refused or aborted
 * - what was given is seen: a read that follows it comes from a state that has it
 */
import { fromWire } from "./codec.ts";
import { ConnectionError, DeadlineExceeded, RefusedError, toError } from "./errors.ts";
import { EventReader, type ServerEvent } from "./events.ts";
import { operations } from "./generated/operations.ts";
import type { WatchQuery, WatchResponse } from "./generated/types.ts";
import type { Scope } from "./scope.ts";
import type { CallOptions } from "./transport.ts";

/** What can be said of a watch. */
export interface WatchOptions extends Pick<CallOptions, "signal" | "consistency" | "headers"> {
  /**
   * Milliseconds within which a stream that was cut must go on; then the watch throws what kept it from that. Default:
   * 60,000, which is longer than another node takes to take over.
   */
  readonly timeoutMs?: number | undefined;
}

const timeoutMsDefault = 60_000;
/** A node says something every 15 s; a stream that is silent for longer has lost its node. */
const silenceMsMax = 45_000;
/** A stream begins at once, or somewhere else. */
const openMsMax = 10_000;
/** The wait before a stream is opened again; it doubles up to the longest, until something new comes. */
const backOffMsFirst = 50;
const backOffMsMax = 2_000;

/** Refusals after which a stream can go on behind the last event. */
const passing: ReadonlySet<string> = new Set(["unavailable", "overloaded", "request_timeout"]);
/** Those of a stream that has begun which a credential that is asked for anew may mend. */
const ofCredential: ReadonlySet<string> = new Set(["unauthorized", "forbidden"]);

/** A refusal that came inside a stream, which was open until then. */
class Ended extends Error {
  readonly refusal: RefusedError;

  constructor(refusal: RefusedError) {
    super(refusal.message);
    this.refusal = refusal;
  }
}

/** Every transaction after a position, and each new one; see Database.watch. */
export async function* watch(
  scope: Scope,
  query: WatchQuery,
  { signal, timeoutMs = timeoutMsDefault, ...options }: WatchOptions,
): AsyncGenerator<WatchResponse, void, undefined> {
  let { after } = query;
  let hasBegun = false;
  let backOffMs = backOffMsFirst;
  let endsAtMs = performance.now() + timeoutMs;
  let cut: unknown;
  for (;;) {
    let isCut = false;
    let end: unknown = new ConnectionError("the stream of changes ended");
    try {
      const within = Math.min(openMsMax, endsAtMs - performance.now());
      for await (const event of openStream(scope, after, { ...options, timeoutMs: within }, signal)) {
        const isTold = event.kind === "position" ? hasBegun : after !== undefined && event.txid <= after;
        hasBegun = true;
        isCut = true;
        if (isTold) continue;
        backOffMs = backOffMsFirst;
        after = event.txid;
        scope.note(after);
        yield event;
      }
    } catch (error) {
      signal?.throwIfAborted();
      if (!canGoOn(error)) throw error instanceof Ended ? error.refusal : error;
      end = error instanceof Ended ? error.refusal : error;
    }
    // That there was no time left says less than what the time before went by with.
    if (isCut || !(end instanceof DeadlineExceeded)) cut = end;
    if (isCut) endsAtMs = performance.now() + timeoutMs;
    const waitMs = backOffMs * (0.5 + Math.random() / 2);
    if (performance.now() + waitMs >= endsAtMs) throw cut ?? end;
    await pause(waitMs, signal);
    backOffMs = Math.min(backOffMsMax, backOffMs * 2);
  }
}

function canGoOn(error: unknown): boolean {
  if (error instanceof Ended) return passing.has(error.refusal.code) || ofCredential.has(error.refusal.code);
  if (error instanceof RefusedError) return passing.has(error.code);
  return error instanceof ConnectionError || error instanceof DeadlineExceeded;
}

/** The events of one stream, until it ends. */
async function* openStream(
  scope: Scope,
  after: number | undefined,
  options: CallOptions,
  outer: AbortSignal | undefined,
): AsyncGenerator<WatchResponse, void, undefined> {
  const own = new AbortController();
  const abort = (): void => own.abort(outer?.reason);
  outer?.throwIfAborted();
  outer?.addEventListener("abort", abort);
  try {
    const headers = { ...options.headers, accept: "text/event-stream" };
    const parts = { query: { after } };
    const response = await scope.open(operations.watch, parts, { ...options, headers, signal: own.signal });
    const bytes = response.body!.getReader();
    const events = new EventReader();
    for (;;) {
      const { done, value } = await readWithin(bytes, own);
      if (done) return;
      for (const event of events.feed(value)) yield readMessage(event);
    }
  } finally {
    outer?.removeEventListener("abort", abort);
    own.abort();
  }
}

/** The next bytes; a silence or a connection that breaks is a ConnectionError. */
async function readWithin(
  bytes: ReadableStreamDefaultReader<Uint8Array>,
  own: AbortController,
): Promise<Awaited<ReturnType<typeof bytes.read>>> {
  const timer = setTimeout(() => own.abort(), silenceMsMax);
  try {
    return await bytes.read();
  } catch (error) {
    throw new ConnectionError("the stream of changes broke, or went silent", { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

function readMessage({ name, data }: ServerEvent): WatchResponse {
  const { id: operation, output } = operations.watch;
  if (name !== "error") return fromWire(JSON.parse(data), output) as WatchResponse;
  const { code, error } = JSON.parse(data) as { readonly code: string; readonly error: string };
  // The stream's status was that of a success.
  throw new Ended(toError({ code, message: error, status: 200, retryAfterMs: undefined, operation }));
}

async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await new Promise<void>((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end);
  });
  signal?.throwIfAborted();
}
