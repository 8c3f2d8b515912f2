/**
 * The place of a request among the calls that have caused it and those that it causes (W3C Trace Context).
 *
 * Always true: the ids of a Trace are lower-case hexadecimal and not all zeros, whatever a client sent: one that sent
 * nothing, or something malformed, gets a trace of its own. Must not know: who collects spans.
 */
import { toHex } from "./bytes.ts";
import type { World } from "./world.ts";

export interface Trace {
  /** 32 digits: the same for everything that one request of a client causes, on every node. */
  readonly traceId: string;
  /** 16 digits: the caller under this trace. */
  readonly spanId: string;
  /** Whether the caller collects spans of it. */
  readonly sampled: boolean;
}

const header = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const sampledFlag = 1;

/** Reads a `traceparent` header; undefined when there is none or it is malformed. */
export function parseTraceparent(traceparent: string | undefined): Trace | undefined {
  const [, version, traceId, spanId, flags, more] = (traceparent !== undefined && header.exec(traceparent)) || [];
  // Only versions to come may say more than this.
  if (traceId === undefined || spanId === undefined || flags === undefined || (version === "00" && more !== undefined))
    return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & sampledFlag) !== 0 };
}

/** The trace as a `traceparent` header. */
export function formatTraceparent({ traceId, spanId, sampled }: Trace): string {
  return `00-${traceId}-${spanId}-${sampled ? "01" : "00"}`;
}

/** A new trace id: unpredictable, and never all zeros but by a chance of one in 2^128. */
export function newTraceId(world: Pick<World, "randomBytes">): string {
  return toHex(world.randomBytes(16));
}

/** A new span id. */
export function newSpanId(world: Pick<World, "randomBytes">): string {
  return toHex(world.randomBytes(8));
}

/** The trace that a request came with, or one of its own: found on demand, as most requests are over without one. */
export class RequestTrace implements Trace {
  readonly #world: Pick<World, "randomBytes">;
  readonly #traceparent: string | undefined;
  #found: Trace | undefined;

  constructor(world: Pick<World, "randomBytes">, traceparent: string | undefined) {
    this.#world = world;
    this.#traceparent = traceparent;
  }

  get traceId(): string {
    return this.#trace.traceId;
  }

  get spanId(): string {
    return this.#trace.spanId;
  }

  get sampled(): boolean {
    return this.#trace.sampled;
  }

  get #trace(): Trace {
    this.#found ??= parseTraceparent(this.#traceparent) ?? {
      traceId: newTraceId(this.#world),
      spanId: newSpanId(this.#world),
      sampled: false,
    };
    return this.#found;
  }
}
