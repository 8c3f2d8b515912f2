/**
 * Traces of calls, where the program has OpenTelemetry: the caller's context goes along as `traceparent`, and calls on
 * memory become spans by the GenAI conventions once the program opts in to them.
 *
 * Always true: no content, no query, no id of a memory and no credential is in a span. The API package is found by the
 * place where it registers itself, so that nothing is imported that a program may not have.
 */
import type { Operation } from "./operation.ts";

/** Where `@opentelemetry/api` 1.x keeps what is registered with it. */
const registry = Symbol.for("opentelemetry.js.api.1");

interface Span {
  setAttribute(name: string, value: string | number): unknown;
  setStatus(status: { code: number }): unknown;
  end(): void;
}

interface Api {
  readonly trace?: { getTracer(name: string): { startSpan(name: string, options: object, context?: unknown): Span } };
  readonly context?: { active(): unknown };
  readonly propagation?: {
    inject(context: unknown, carrier: object, setter: { set(carrier: object, key: string, value: string): void }): void;
  };
}

/** The convention's names of what is done with memories. */
const memoryOperations: { readonly [id: string]: string } = {
  ingest: "upsert_memory",
  extract: "create_memory",
  updateMemory: "update_memory",
  forgetMemory: "delete_memory",
  forgetMemories: "delete_memory",
  createErasure: "delete_memory",
  recall: "search_memory",
  getContext: "search_memory",
};

const optIn = "gen_ai_latest_experimental";
const spanKindClient = 2;
const statusError = 2;

function findApi(): Api | undefined {
  return (globalThis as { [key: symbol]: unknown })[registry] as Api | undefined;
}

function isOptedIn(): boolean {
  const { process } = globalThis as { process?: { env?: { [name: string]: string | undefined } } };
  return (process?.env?.["OTEL_SEMCONV_STABILITY_OPT_IN"] ?? "").split(",").some((name) => name.trim() === optIn);
}

/** A call as traces see it. `isOn` undefined: as the environment opts in. */
export function startTrace(
  { id }: Operation,
  store: string | undefined,
  isOn: boolean | undefined,
): { readonly headers: Readonly<Record<string, string>>; end(failure?: string): void } {
  const api = findApi();
  const headers: Record<string, string> = {};
  const context = api?.context?.active();
  api?.propagation?.inject(context, headers, { set: (_, key, value) => (headers[key] = value) });
  const name = memoryOperations[id];
  if (name === undefined || !(isOn ?? isOptedIn())) return { headers, end: () => {} };
  const attributes = {
    "gen_ai.operation.name": name,
    "gen_ai.provider.name": "palimpsest",
    ...(store !== undefined && { "gen_ai.memory.store.id": store }),
  };
  const tracer = api?.trace?.getTracer("@palimpsest/client");
  const span = tracer?.startSpan(
    store === undefined ? name : `${name} ${store}`,
    { kind: spanKindClient, attributes },
    context,
  );
  return {
    headers,
    end: (failure) => {
      if (failure !== undefined) {
        span?.setAttribute("error.type", failure);
        span?.setStatus({ code: statusError });
      }
      span?.end();
    },
  };
}
