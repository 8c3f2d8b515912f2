/**
 * Spans of what this node does for a request, sent to a collector by OTLP over HTTP.
 *
 * Loaded only where an operator has asked for spans. Always true: a span holds the name of an endpoint or of a command,
 * codes, and times, never content, credentials, addresses of clients, or names of databases; what cannot be sent is
 * left out and never holds up a request. Parents are handed from call to call, never looked up in the surroundings.
 * Must not know: what is counted.
 */
import {
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace as traces,
  TraceFlags,
  type Attributes,
  type Context,
  type Span,
  type Tracer,
} from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { detectResources, envDetector, resourceFromAttributes } from "@opentelemetry/resources";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
  type ReadableSpan,
  type Sampler,
  type SpanExporter,
} from "@opentelemetry/sdk-trace";
import { Code } from "@connectrpc/connect";
import { errorCodes, ServiceError } from "../../base/faults/errors.ts";
import type { Log } from "../../base/log.ts";
import { newSpanId, newTraceId, parseTraceparent, formatTraceparent, type Trace } from "../../base/trace.ts";
import { sleep, type World } from "../../base/world.ts";
import { EnginePort, type CallOptions, type PortCall } from "../../engine/api/engine-port.ts";
import type { Answer, Target } from "../../engine/api/protocol.ts";
import { pathTemplate, type AnyEndpoint } from "../../service/call/methods.ts";
import type { ForwardedCall, PeerHost, Peers } from "../../service/placement/peers.ts";
import type { Sampling, TracingSettings } from "../config/tracing-settings.ts";
import type { RequestCode, RequestProtocol, RequestSpan, RequestSpans } from "../wire/request-metrics.ts";

/** Ended spans that wait to be sent, about 1 KiB each; further ones are left out. */
const tracesWaitingMax = 4_096;
/** Spans in one request to the collector, and how long they wait for it. */
export const tracesSentMax = 512;
const tracesSendMs = 2_000;
/** How long a stopping node tries to send what is left. */
export const tracesDrainMs = 5_000;

export interface TracingOptions {
  readonly settings: TracingSettings;
  readonly world: World;
  readonly log: Log;
  /** The node's identity, and its name for people. */
  readonly nodeId: string;
  readonly nodeName: string;
}

const serviceNameDefault = "palimpsest";

export class Tracing implements RequestSpans {
  readonly #options: TracingOptions;
  readonly #provider: TracerProvider;
  readonly #tracer: Tracer;

  constructor(options: TracingOptions) {
    this.#options = options;
    const { settings, world, nodeId, nodeName } = options;
    const exporter = new ToldExporter(new OTLPTraceExporter({ url: settings.address }), options.log);
    // What the operator says of the service comes after what we say, and the variable for its name alone comes last.
    const resource = resourceFromAttributes({
      "service.name": serviceNameDefault,
      "service.instance.id": nodeId,
      "palimpsest.node.name": nodeName,
    })
      .merge(detectResources({ detectors: [envDetector] }))
      .merge(
        resourceFromAttributes(settings.serviceName === undefined ? {} : { "service.name": settings.serviceName }),
      );
    this.#provider = new TracerProvider({
      resource,
      sampler: buildSampler(settings.sampling),
      idGenerator: { generateTraceId: () => newTraceId(world), generateSpanId: () => newSpanId(world) },
      spanProcessors: [
        new BatchSpanProcessor({
          exporter,
          maxQueueSize: tracesWaitingMax,
          maxExportBatchSize: tracesSentMax,
          scheduledDelayMillis: tracesSendMs,
          exportTimeoutMillis: tracesDrainMs,
        }),
      ],
    });
    this.#tracer = this.#provider.getTracer("palimpsest");
  }

  begin(endpoint: AnyEndpoint, protocol: RequestProtocol, traceparent: string | undefined): RequestSpan {
    const span = this.#tracer.startSpan(
      endpoint.name,
      { kind: SpanKind.SERVER, attributes: buildAttributes(endpoint, protocol) },
      buildContext(parseTraceparent(traceparent)),
    );
    return {
      trace: toTrace(span),
      end(code, httpStatus) {
        span.setAttributes(
          protocol === "rest"
            ? { "http.response.status_code": httpStatus ?? getHttpStatus(endpoint, code) }
            : { "rpc.response.status_code": getRpcStatus(code) },
        );
        endSpan(span, code);
      },
    };
  }

  /** The engine, with a span for each call that belongs to a request. */
  engine(engine: EnginePort): EnginePort {
    return new TracedEngine(engine, (name, trace, act) => this.#spanned(name, SpanKind.INTERNAL, trace, act));
  }

  /** The other nodes, with a span for each call that is forwarded. */
  peers(peers: Peers): Peers {
    return {
      forward: (address, call) =>
        this.#forwarded(`forward ${describeCall(call.call)}`, SpanKind.CLIENT, call, (traced) =>
          peers.forward(address, traced),
        ),
      follow: (address, uuid) => peers.follow(address, uuid),
      nudge: (address) => peers.nudge(address),
      close: () => peers.close(),
    };
  }

  /** What this node does for the others, with a span for each call that one of them has forwarded. */
  host(host: PeerHost): PeerHost {
    return {
      serve: (call) =>
        this.#forwarded(`serve ${describeCall(call.call)}`, SpanKind.SERVER, call, (traced) => host.serve(traced)),
      followed: (uuid, hint) => host.followed(uuid, hint),
      hinted: (uuid) => host.hinted(uuid),
      nudged: () => host.nudged(),
    };
  }

  /** Sends what is left, for as long as a stopping node may take. */
  async close(): Promise<void> {
    const { world, log } = this.#options;
    const outcome = await Promise.race([
      this.#provider.shutdown().then(
        () => "sent",
        () => "unsent",
      ),
      sleep(world, tracesDrainMs).then(() => "unsent"),
    ]);
    if (outcome === "unsent") log.warn("the collector did not take the last traces in time; they are left out");
  }

  #forwarded(
    name: string,
    kind: SpanKind,
    call: ForwardedCall,
    act: (call: ForwardedCall) => Promise<Answer>,
  ): Promise<Answer> {
    return this.#spanned(name, kind, parseTraceparent(call.traceparent), (trace) =>
      act(trace ? { ...call, traceparent: formatTraceparent(trace) } : call),
    );
  }

  /** What belongs to no request, such as a job of the node itself, has no span. */
  async #spanned<Value>(
    name: string,
    kind: SpanKind,
    parent: Trace | undefined,
    act: (trace: Trace | undefined) => Promise<Value>,
  ): Promise<Value> {
    if (!parent) return act(undefined);
    const span = this.#tracer.startSpan(name, { kind }, buildContext(parent));
    try {
      const value = await act(toTrace(span));
      endSpan(span, "ok");
      return value;
    } catch (error) {
      endSpan(span, error instanceof ServiceError ? error.code : error instanceof Error ? error.name : "internal");
      throw error;
    }
  }
}

type Spanned = (
  name: string,
  trace: Trace | undefined,
  act: (trace: Trace | undefined) => Promise<Answer>,
) => Promise<Answer>;

class TracedEngine extends EnginePort {
  readonly #engine: EnginePort;
  readonly #spanned: Spanned;

  constructor(engine: EnginePort, spanned: Spanned) {
    super();
    this.#engine = engine;
    this.#spanned = spanned;
  }

  run(target: Target, call: PortCall, options: CallOptions): Promise<Answer> {
    return this.#spanned(`engine ${describeCall(call)}`, options.trace, (trace) =>
      this.#engine.run(target, call, { ...options, trace }),
    );
  }
}

/** Tells the log once when the collector does not take spans, and once when it does again; never what it answered. */
class ToldExporter implements SpanExporter {
  readonly #exporter: SpanExporter;
  readonly #log: Log;
  #failing = false;

  constructor(exporter: SpanExporter, log: Log) {
    this.#exporter = exporter;
    this.#log = log;
  }

  export(spans: ReadableSpan[], done: Parameters<SpanExporter["export"]>[1]): void {
    this.#exporter.export(spans, (result) => {
      const failed = result.error !== undefined || result.code !== exportSucceeded;
      if (failed && !this.#failing)
        this.#log.warn("the collector takes no traces; they are left out", { reason: result.error?.name });
      if (!failed && this.#failing) this.#log.info("the collector takes traces again");
      this.#failing = failed;
      // What could not be sent ends here: as a failure it would only be reported once more, by the library's own means.
      done({ code: exportSucceeded });
    });
  }

  shutdown(): Promise<void> {
    return this.#exporter.shutdown();
  }
}

/** ExportResultCode.SUCCESS of @opentelemetry/core. */
const exportSucceeded = 0;

function buildSampler({ followsCaller, ratio }: Sampling): Sampler {
  const root =
    ratio === 1 ? new AlwaysOnSampler() : ratio === 0 ? new AlwaysOffSampler() : new TraceIdRatioBasedSampler(ratio);
  return followsCaller ? new ParentBasedSampler({ root }) : root;
}

function buildContext(parent: Trace | undefined): Context {
  if (!parent) return ROOT_CONTEXT;
  const { traceId, spanId, sampled } = parent;
  return traces.setSpanContext(ROOT_CONTEXT, {
    traceId,
    spanId,
    traceFlags: sampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
    isRemote: true,
  });
}

function toTrace(span: Span): Trace {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return { traceId, spanId, sampled: (traceFlags & TraceFlags.SAMPLED) !== 0 };
}

/** A command's name, or the kind of what has none: a fixed number of texts. */
function describeCall(call: PortCall): string {
  if (call.kind === "write" || call.kind === "read") return `${call.kind} ${call.command}`;
  return call.kind === "branch" ? `${call.kind} ${call.act.act}` : call.kind;
}

/** By OpenTelemetry's semantic conventions of HTTP and RPC. */
function buildAttributes({ httpMethod, segments, method }: AnyEndpoint, protocol: RequestProtocol): Attributes {
  if (protocol === "rest") return { "http.request.method": httpMethod, "http.route": pathTemplate(segments) };
  return {
    "rpc.system.name": protocol === "connect" ? "connectrpc" : protocol === "mcp" ? "mcp" : "grpc",
    "rpc.method": `${method.parent.typeName}/${method.name}`,
  };
}

/** A client that has gone gets no status; what would have been sent is told. */
function getHttpStatus({ rule }: AnyEndpoint, code: RequestCode): number {
  return code === "ok" || code === "gone" ? rule.status : errorCodes[code].http;
}

function getRpcStatus(code: RequestCode): string {
  if (code === "ok" || code === "gone") return code === "ok" ? "OK" : "CANCELLED";
  return Code[errorCodes[code].connect]!.replace(/(?<=[a-z])[A-Z]/g, "_$&").toUpperCase();
}

/** Only what is the node's fault is an error of its span: a refusal is an answer. */
function endSpan(span: Span, code: string): void {
  span.setAttribute("palimpsest.code", code);
  const row = Object.hasOwn(errorCodes, code) ? errorCodes[code as keyof typeof errorCodes] : undefined;
  if (row && row.http >= 500) {
    span.setAttribute("error.type", code);
    span.setStatus({ code: SpanStatusCode.ERROR });
  }
  span.end();
}
