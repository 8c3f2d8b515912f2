/**
 * One call over HTTP: its address and headers, its deadline, its retries, and what is learnt from its answer.
 *
 * Always true:
 * - a call is made again only where that is safe: it reads, it leaves the same when done twice, it carries an idempotency
 *   key, or the node said that it did nothing
 * - no call outlives its deadline, retries and waits included
 * - a read asks for the newest state that this client has seen of the branch
 */
import { fromWire, toWire, toWireName } from "./codec.ts";
import { Conflict, ConnectionError, DeadlineExceeded, LostWrite, RefusedError, toError } from "./errors.ts";
import type { Operation } from "./operation.ts";
import { SeenTxids } from "./seen-txids.ts";
import { startTrace } from "./telemetry.ts";

/** Milliseconds that a call takes at most, by default. */
const timeoutMsDefault = 30_000;
/** Tries of one call at most, by default and whatever its deadline. */
const triesDefault = 10;
/** The wait before the first retry; it doubles up to the longest. */
const backOffMsFirst = 100;
const backOffMsMax = 3_000;
/** Bytes of a refusal that are read; a node's own are far below. */
const refusalCharsMax = 16_384;

/** How a read relates to what this client has seen; see CallOptions. */
export type Consistency = "session" | "none" | "cached" | "primary";

/** What can be said of any call. */
export interface CallOptions {
  /** Ends the call; the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds that the call takes at most, retries included. Default: that of the client. */
  readonly timeoutMs?: number | undefined;
  /**
   * `session` (the default): a read comes from a state that has all this client wrote and saw. `none`: from any state.
   * `cached`: from a copy that may be some seconds old. `primary`: from the writer's newest state.
   */
  readonly consistency?: Consistency | undefined;
  /**
   * A read of an earlier state: a transaction id, the name of a checkpoint, or a time such as `2026-01-31T12:00:00Z`.
   * Such a read does not ask for what this client has seen.
   */
  readonly at?: string | number | undefined;
  /** `durable`: a write is answered once object storage holds it. */
  readonly durability?: "durable" | undefined;
  /** The key by which a write that is made again is known. By default the client makes one where it needs one. */
  readonly idempotencyKey?: string | undefined;
  /** Further headers. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

export interface ClientOptions {
  /** The node, or what stands before several. Default: `http://127.0.0.1:8080`. */
  readonly url?: string | URL | undefined;
  /** The credential, or what gives it before each call. */
  readonly token?: string | (() => string | Promise<string>) | undefined;
  /** Milliseconds that a call takes at most, retries included. Default: 30,000. */
  readonly timeoutMs?: number | undefined;
  /** How often a call is tried at most, where it may be made again and its deadline leaves time. Default: 10. */
  readonly tries?: number | undefined;
  /** Another `fetch`, such as one with an agent of its own. */
  readonly fetch?: typeof globalThis.fetch | undefined;
  /** Headers of every call. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** What `token()` of another client gave: this one reads what that one wrote. */
  readonly resume?: string | undefined;
  /** Whether calls on memory become spans. Default: where the environment opts in to the GenAI conventions. */
  readonly telemetry?: boolean | undefined;
}

/** What a call is about. */
export interface CallParts {
  /** Values of the path's names. */
  readonly path?: Readonly<Record<string, string>>;
  readonly query?: object | undefined;
  readonly body?: unknown;
  /** The content type of a raw body. */
  readonly contentType?: string | undefined;
  /** The database, with its branch where that is not `main`. */
  readonly database?: string | undefined;
  readonly branch?: string | undefined;
  /** A status beside success whose body is an answer too. */
  readonly answerStatus?: number | undefined;
}

/** The answer of a call. */
export interface Answer<Value> {
  readonly value: Value;
  readonly headers: Headers;
}

interface Attempt {
  readonly url: string;
  readonly init: RequestInit;
  /** Whether the state that was asked for is one that this client has seen. */
  readonly asksForSeen: boolean;
}

export class Transport {
  readonly seen = new SeenTxids();
  readonly #options: ClientOptions;
  readonly #base: string;
  readonly #fetch: typeof globalThis.fetch;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#base = String(options.url ?? "http://127.0.0.1:8080").replace(/\/+$/, "");
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
    if (options.resume !== undefined) this.seen.resume(options.resume);
  }

  /** Calls, and reads the answer to its end. */
  async call<Value>(operation: Operation, parts: CallParts = {}, options: CallOptions = {}): Promise<Answer<Value>> {
    return this.#within(operation, parts, options, async (response) => ({
      value: (await readAnswer(operation, response)) as Value,
      headers: response.headers,
    }));
  }

  /** Calls, and gives the response once it has begun; from then on only `signal` ends it. */
  async open(operation: Operation, parts: CallParts = {}, options: CallOptions = {}): Promise<Response> {
    return this.#within(operation, parts, options, (response) => Promise.resolve(response), true);
  }

  async #within<Value>(
    operation: Operation,
    parts: CallParts,
    options: CallOptions,
    read: (response: Response) => Promise<Value>,
    goesOn = false,
  ): Promise<Value> {
    const trace = startTrace(operation, parts.database, this.#options.telemetry);
    const deadline = new Deadline(options.timeoutMs ?? this.#options.timeoutMs ?? timeoutMsDefault, options.signal);
    const key = chooseKey(operation, parts, options);
    try {
      const value = await this.#tried(
        operation,
        parts,
        { ...options, idempotencyKey: key },
        deadline,
        trace.headers,
        read,
      );
      trace.end();
      return value;
    } catch (error) {
      const failure = deadline.explain(error, operation);
      trace.end(failure instanceof RefusedError ? failure.code : failure instanceof Error ? failure.name : "fault");
      throw failure;
    } finally {
      if (!goesOn) deadline.end();
      else deadline.endTimer();
    }
  }

  async #tried<Value>(
    operation: Operation,
    parts: CallParts,
    options: CallOptions,
    deadline: Deadline,
    traceHeaders: Readonly<Record<string, string>>,
    read: (response: Response) => Promise<Value>,
  ): Promise<Value> {
    const isSafe = operation.reads === true || options.idempotencyKey !== undefined || isSafeAsItIs(operation, parts);
    for (let number = 1; ; number++) {
      try {
        const attempt = await this.#prepare(operation, parts, options, deadline, traceHeaders);
        const response = await this.#send(operation, parts, attempt);
        return await read(response);
      } catch (error) {
        const waitMs = number < (this.#options.tries ?? triesDefault) ? chooseWait(error, isSafe, number) : undefined;
        if (waitMs === undefined || !(await deadline.wait(waitMs))) throw error;
      }
    }
  }

  async #prepare(
    operation: Operation,
    parts: CallParts,
    options: CallOptions,
    deadline: Deadline,
    traceHeaders: Readonly<Record<string, string>>,
  ): Promise<Attempt> {
    const headers = new Headers({ ...traceHeaders, ...this.#options.headers, ...options.headers });
    const { token } = this.#options;
    const credential = typeof token === "function" ? await token() : token;
    if (credential !== undefined) headers.set("authorization", `Bearer ${credential}`);
    if (options.durability !== undefined) headers.set("service-durability", options.durability);
    if (options.idempotencyKey !== undefined) headers.set("idempotency-key", options.idempotencyKey);
    const consistency = options.consistency ?? "session";
    if (consistency === "cached" || consistency === "primary") headers.set("service-consistency", consistency);
    if (options.at !== undefined) headers.set("service-at", String(options.at));
    const asksForSeen = consistency === "session" && options.at === undefined && operation.reads;
    const seen = asksForSeen ? this.seen.get(toBranchName(parts)) : undefined;
    if (seen !== undefined && operation.tellsTxid) headers.set("service-min-txid", String(seen));
    const init: RequestInit = { method: operation.method, headers, signal: deadline.signal };
    if (operation.body === "json") {
      headers.set("content-type", "application/json");
      init.body = JSON.stringify(toWire(parts.body ?? {}, operation.input));
    } else if (operation.body === "raw") {
      headers.set("content-type", parts.contentType ?? "application/octet-stream");
      init.body = parts.body as NonNullable<RequestInit["body"]>;
    }
    return { url: this.#base + toPath(operation, parts), init, asksForSeen: headers.has("service-min-txid") };
  }

  async #send(operation: Operation, parts: CallParts, { url, init, asksForSeen }: Attempt): Promise<Response> {
    init.signal?.throwIfAborted();
    const send = this.#fetch;
    const response = await send(url, init).catch((error: unknown) => {
      if (init.signal?.aborted) throw error;
      throw new ConnectionError("the node cannot be reached, or the connection broke", { cause: error });
    });
    const branch = toBranchName(parts);
    const txid = Number(response.headers.get("service-txid") ?? Number.NaN);
    if (operation.tellsTxid && Number.isSafeInteger(txid)) this.seen.note(branch, txid);
    if (response.ok || response.status === parts.answerStatus) return response;
    const refused = await readRefusal(operation, response);
    if (asksForSeen && refused instanceof Conflict && operation.reads) {
      this.seen.drop(branch);
      throw new LostWrite({ ...refused, message: refused.message });
    }
    throw refused;
  }
}

/** When a call ends, whoever ends it. */
class Deadline {
  readonly signal: AbortSignal;
  readonly #own = new AbortController();
  readonly #endsAtMs: number;
  readonly #timer: ReturnType<typeof setTimeout>;
  readonly #outer: AbortSignal | undefined;
  readonly #abort = (): void => this.#own.abort(this.#outer?.reason);
  #isOver = false;

  constructor(timeoutMs: number, outer: AbortSignal | undefined) {
    this.signal = this.#own.signal;
    this.#outer = outer;
    this.#endsAtMs = performance.now() + timeoutMs;
    this.#timer = setTimeout(() => {
      this.#isOver = true;
      this.#own.abort();
    }, timeoutMs);
    if (outer?.aborted) this.#abort();
    else outer?.addEventListener("abort", this.#abort, { once: true });
  }

  /** Waits, and says whether there is time left then. Rejects with the outer signal's reason. */
  async wait(ms: number): Promise<boolean> {
    if (performance.now() + ms >= this.#endsAtMs) return false;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.signal.removeEventListener("abort", end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      this.signal.addEventListener("abort", end);
    });
    this.#outer?.throwIfAborted();
    return !this.#isOver;
  }

  /** What the caller is told of a failure. */
  explain(error: unknown, { id }: Operation): unknown {
    if (this.#outer?.aborted) return this.#outer.reason;
    return this.#isOver && !(error instanceof RefusedError)
      ? new DeadlineExceeded(`${id} had no answer in time`, { cause: error })
      : error;
  }

  endTimer(): void {
    clearTimeout(this.#timer);
  }

  end(): void {
    this.endTimer();
    this.#outer?.removeEventListener("abort", this.#abort);
  }
}

/** Whether the call leaves the same when it is done twice: what depends on a condition does not. */
function isSafeAsItIs(operation: Operation, parts: CallParts): boolean {
  return operation.isIdempotent === true && !isConditional(parts);
}

function isConditional({ query, body }: CallParts): boolean {
  const asks = (part: unknown): boolean =>
    Array.isArray(part)
      ? part.some(asks)
      : typeof part === "object" &&
        part !== null &&
        (("ifMatch" in part && part.ifMatch !== undefined) || ("ifAbsent" in part && part.ifAbsent !== undefined));
  const parts = typeof body === "object" && body !== null ? Object.values(body) : [];
  return asks(query) || asks(body) || parts.some((part) => Array.isArray(part) && asks(part));
}

/** The caller's key, or one of the client's where a call could not be made again without. */
function chooseKey(operation: Operation, parts: CallParts, { idempotencyKey }: CallOptions): string | undefined {
  if (idempotencyKey !== undefined || operation.takesKey !== true) return idempotencyKey;
  if (isSafeAsItIs(operation, parts) || isStream(parts.body)) return undefined;
  return globalThis.crypto.randomUUID();
}

function isStream(body: unknown): boolean {
  return typeof ReadableStream !== "undefined" && body instanceof ReadableStream;
}

/** Milliseconds until the call is made again; undefined where it must not be. */
function chooseWait(error: unknown, isSafe: boolean, tries: number): number | undefined {
  const backOffMs = Math.min(backOffMsMax, backOffMsFirst * 2 ** (tries - 1)) * (0.5 + Math.random() / 2);
  if (error instanceof ConnectionError) return isSafe ? backOffMs : undefined;
  if (!(error instanceof RefusedError)) return undefined;
  // A node that is overloaded has refused before it did anything; one that is unavailable may have done its part.
  const isRetryable =
    error.code === "overloaded" || (isSafe && (error.code === "unavailable" || error.code === "request_timeout"));
  return isRetryable ? Math.max(error.retryAfterMs ?? 0, backOffMs) : undefined;
}

/** The branch as `SeenTxids` knows it. */
function toBranchName({ database, branch }: CallParts): string {
  return branch === undefined ? (database ?? "") : `${database}@${branch}`;
}

function toPath({ path, query: names }: Operation, { path: values = {}, query = {} }: CallParts): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined || value === "") throw new TypeError(`${name} must not be empty`);
    return encodeURIComponent(value);
  });
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    const wireName = toWireName(name);
    if (value === undefined || !names.includes(wireName)) continue;
    const isStructured = typeof value === "object" && value !== null && !Array.isArray(value);
    for (const one of Array.isArray(value) ? value : [value])
      search.append(wireName, isStructured ? JSON.stringify(one) : String(one));
  }
  return search.size === 0 ? filled : `${filled}?${search}`;
}

async function readAnswer(operation: Operation, response: Response): Promise<unknown> {
  if (operation.answer === "none") {
    await response.body?.cancel();
    return undefined;
  }
  if (operation.answer === "raw") return new Uint8Array(await response.arrayBuffer());
  return fromWire(await response.json(), operation.output);
}

async function readRefusal({ id }: Operation, response: Response): Promise<RefusedError> {
  const text = await response.text().catch(() => "");
  const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
  const retryAfterMs = Number.isFinite(seconds) ? seconds * 1000 : undefined;
  let said: { error?: unknown; code?: unknown } = {};
  try {
    said = JSON.parse(text.slice(0, refusalCharsMax)) as typeof said;
  } catch {
    // Not a node's own words: something between has answered.
  }
  const { code, error } = said ?? {};
  return toError({
    code: typeof code === "string" ? code : toCode(response.status),
    message: typeof error === "string" ? error : `HTTP ${response.status} without a reason`,
    status: response.status,
    retryAfterMs,
    operation: id,
  });
}

/** The code of a status that came without one, from what stands before the node. */
function toCode(status: number): string {
  if (status === 401) return "unauthorized";
  if (status === 403) return "forbidden";
  if (status === 404) return "not_found";
  if (status === 413) return "payload_too_large";
  if (status === 429) return "overloaded";
  return status === 502 || status === 503 || status === 504
    ? "unavailable"
    : status < 500
      ? "invalid_request"
      : "internal";
}
