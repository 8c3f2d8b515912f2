/**
 * Every request of a client for an endpoint, from its recognition to its answer: counted, timed, given its trace, and
 * logged where such small things are.
 *
 * Always true: what is kept is told apart by endpoint, wire and code only, of which there are a fixed number; nothing
 * of a request's content, address or credential is. A visit costs two looks at the clock and a few additions. Must not
 * know: who reads the counts, who collects spans.
 */
import type { ErrorCode, ServiceError } from "../../base/faults/errors.ts";
import type { Log } from "../../base/log.ts";
import { longBoundsMs, Histogram, type HistogramCounts } from "../../base/collections/histogram.ts";
import { RequestTrace, type Trace } from "../../base/trace.ts";
import type { World } from "../../base/world.ts";
import type { AnyEndpoint } from "../../service/call/methods.ts";

/** REST, one of the wires that the proto files are for (gRPC, gRPC-Web, Connect), or the calls of MCP tools. */
export const requestWires = ["rest", "rpc", "mcp"] as const;
export type RequestWire = (typeof requestWires)[number];

/** How a visit ended; `gone` is a client that left before it had said what it wanted. */
export type RequestCode = "ok" | ErrorCode | "gone";

/** A span that is being recorded. */
export interface RequestSpan {
  readonly trace: Trace;
  end(code: RequestCode, httpStatus: number | undefined): void;
}

/** Records a span for each visit. */
export interface RequestSpans {
  begin(endpoint: AnyEndpoint, protocol: RequestProtocol, traceparent: string | undefined): RequestSpan;
}

/** What a request speaks. */
export type RequestProtocol = "rest" | "grpc" | "grpc-web" | "connect" | "mcp";

/** Visits that were alike. */
export interface RequestCounts {
  readonly endpoint: string;
  readonly wire: RequestWire;
  readonly codes: readonly (readonly [RequestCode, number])[];
  readonly running: number;
  readonly durations: HistogramCounts;
}

export interface RequestMetricsOptions {
  readonly world: Pick<World, "monotonicMs" | "randomBytes">;
  readonly log: Log;
  /** Absent where no spans are collected. */
  readonly spans?: RequestSpans | undefined;
}

/** What is counted of the requests of one endpoint by one wire. */
class Guests {
  readonly endpoint: AnyEndpoint;
  readonly wire: RequestWire;
  readonly codes = new Map<RequestCode, number>();
  readonly durations = new Histogram(longBoundsMs);
  running = 0;

  constructor(endpoint: AnyEndpoint, wire: RequestWire) {
    this.endpoint = endpoint;
    this.wire = wire;
  }
}

/** One request on its way to its answer. */
export class MeasuredRequest {
  readonly #options: RequestMetricsOptions;
  readonly #guests: Guests;
  readonly #span: RequestSpan | undefined;
  readonly #startedMs: number;
  readonly trace: Trace;

  constructor(
    options: RequestMetricsOptions,
    guests: Guests,
    protocol: RequestProtocol,
    traceparent: string | undefined,
  ) {
    this.#options = options;
    this.#guests = guests;
    this.#startedMs = options.world.monotonicMs();
    this.#span = options.spans?.begin(guests.endpoint, protocol, traceparent);
    this.trace = this.#span?.trace ?? new RequestTrace(options.world, traceparent);
    guests.running++;
  }

  /** The visit is over: answered, refused, or the client has gone. To be called once. */
  end(outcome: "ok" | "gone" | ServiceError): void {
    const guests = this.#guests;
    const code = typeof outcome === "string" ? outcome : outcome.code;
    const durationMs = this.#options.world.monotonicMs() - this.#startedMs;
    guests.running--;
    guests.durations.note(durationMs);
    guests.codes.set(code, (guests.codes.get(code) ?? 0) + 1);
    this.#span?.end(code, typeof outcome === "string" ? undefined : outcome.detail.httpStatus);
    this.#options.log.debug?.("a request is over", {
      endpoint: guests.endpoint.name,
      wire: guests.wire,
      code,
      durationMs: Math.round(durationMs * 1_000) / 1_000,
      traceId: this.trace.traceId,
    });
  }
}

/** All requests of a node. */
export class RequestMetrics {
  readonly #options: RequestMetricsOptions;
  readonly #guests: Readonly<Record<RequestWire, Map<AnyEndpoint, Guests>>> = {
    rest: new Map(),
    rpc: new Map(),
    mcp: new Map(),
  };
  readonly #strays = new Map<ErrorCode, number>();

  constructor(options: RequestMetricsOptions) {
    this.#options = options;
  }

  /** A request for the endpoint, with the `traceparent` header that it came with. */
  begin(endpoint: AnyEndpoint, protocol: RequestProtocol, traceparent: string | undefined): MeasuredRequest {
    const wire = protocol === "rest" || protocol === "mcp" ? protocol : "rpc";
    let guests = this.#guests[wire].get(endpoint);
    if (!guests) this.#guests[wire].set(endpoint, (guests = new Guests(endpoint, wire)));
    return new MeasuredRequest(this.#options, guests, protocol, traceparent);
  }

  /** A request for no endpoint was refused. */
  strayed(refusal: ServiceError): void {
    this.#strays.set(refusal.code, (this.#strays.get(refusal.code) ?? 0) + 1);
  }

  /** What was counted so far. */
  get counts(): readonly RequestCounts[] {
    return Object.values(this.#guests).flatMap((guests) =>
      [...guests.values()].map(({ endpoint, wire, codes, running, durations }) => ({
        endpoint: endpoint.name,
        wire,
        codes: [...codes],
        running,
        durations: durations.counts,
      })),
    );
  }

  /** Refusals of requests that were for no endpoint, by code. */
  get strays(): readonly (readonly [ErrorCode, number])[] {
    return [...this.#strays];
  }
}
