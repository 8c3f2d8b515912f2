/**
 * `/metrics`: what a node has counted, in the text form that Prometheus reads.
 *
 * Always true: labels take their values from fixed lists (endpoints, codes, outcomes, threads, the node's own name), so
 * that no client can add to them, and none names a database, a namespace or a credential; counters begin anew with the
 * thread that counts them. Must not know: where anything is counted.
 */
import { Registry, type Metric } from "prom-client";
import type { LocalEmbedderMeasures } from "../../ai/embedder.ts";
import type { HistogramCounts } from "../../base/collections/histogram.ts";
import type { EngineMeasures } from "../../engine/api/measures.ts";
import type { WebhookMeasures } from "../../service/webhooks/webhook-deliveries.ts";
import type { StoreMeasures } from "../../store/measured-store.ts";
import type { ClusterCounts } from "./cluster-counts.ts";
import type { EgressCount } from "./egress-counts.ts";
import { answered, engineFamilies } from "./engine-metrics.ts";
import { Family, histogram, single, type Sample } from "./metric-family.ts";
import { type RequestCounts, requestWires } from "../wire/request-metrics.ts";

/** Everything that a node has counted. */
export interface Snapshot {
  /** The node's identity, its name for people, and its build. */
  readonly node: { readonly id: string; readonly name: string; readonly version: string };
  readonly requestMetrics: readonly RequestCounts[];
  /** Refusals of requests that were for no endpoint, by code. */
  readonly strays: readonly (readonly [code: string, count: number])[];
  /** Calls that run, and those that wait for a place. */
  readonly calls: { readonly running: number; readonly waiting: number };
  /** By thread; undefined for one that did not answer. */
  readonly engines: readonly (EngineMeasures | undefined)[];
  /** Of the main thread. */
  readonly main: { readonly store: StoreMeasures; readonly loopDelay: HistogramCounts; readonly heapBytes: number };
  readonly cluster: Pick<ClusterCounts, "forwarded" | "linksLost" | "renewalsFailed" | "leasesLost"> & {
    readonly leasesHeld: number;
    readonly leaseLive: boolean;
  };
  readonly egress: readonly Readonly<EgressCount>[];
  /** Undefined on a node without a model of its own. */
  readonly embedder: LocalEmbedderMeasures | undefined;
  readonly webhooks: WebhookMeasures;
  readonly auditDropped: number;
  /** How far the machine's clock is ahead of the time that is trusted. */
  readonly clockAheadMs: number;
  readonly process: { readonly cpuSecs: number; readonly residentBytes: number; readonly startedAtSecs: number };
}

/** The snapshot as text. */
export async function metricsText(snapshot: Snapshot): Promise<string> {
  const registry = new Registry();
  // A registry reads what a metric is called and asks it for its samples, whatever class it has; ours were counted
  // elsewhere.
  for (const family of listFamilies(snapshot)) registry.registerMetric(family as unknown as Metric);
  return registry.metrics();
}

/** What `metricsText` gives. */
export const metricsType: string = Registry.PROMETHEUS_CONTENT_TYPE;

/** Every metric of a node. */
function listFamilies(snapshot: Snapshot): readonly Family[] {
  return [
    ...requestFamilies(snapshot),
    ...engineFamilies(snapshot.engines),
    ...storeFamilies(snapshot),
    ...clusterFamilies(snapshot),
    ...nodeFamilies(snapshot),
    ...webhookFamilies(snapshot.webhooks),
    ...(snapshot.embedder ? embedderFamilies(snapshot.embedder) : []),
    ...processFamilies(snapshot),
  ];
}

function requestFamilies({ requestMetrics, strays, calls }: Snapshot): readonly Family[] {
  const ended = requestMetrics.flatMap(({ endpoint, wire, codes }) =>
    codes.map(([code, value]) => ({ labels: { endpoint, wire, code }, value })),
  );
  const strayed = strays.map(([code, value]) => ({ labels: { endpoint: "none", wire: "rest", code }, value }));
  const running = requestWires.map((wire) => ({
    labels: { wire },
    value: requestMetrics.reduce((sum, visit) => sum + (visit.wire === wire ? visit.running : 0), 0),
  }));
  return [
    new Family(
      "counter",
      "requests_total",
      "Requests of clients that are over, by endpoint, wire (rest, rpc, mcp) and code; overloaded is 429",
      [...ended, ...strayed],
    ),
    new Family(
      "histogram",
      "request_seconds",
      "Time from a request's headers to its answer",
      requestMetrics.flatMap(({ endpoint, wire, durations }) =>
        histogram("request_seconds", { endpoint, wire }, durations),
      ),
    ),
    new Family("gauge", "requests_running", "Requests that are not over yet", running),
    new Family(
      "gauge",
      "calls_running",
      "Calls that have one of the SERVICE_MAX_CONCURRENCY places",
      single(calls.running),
    ),
    new Family("gauge", "calls_waiting", "Calls that wait for a place", single(calls.waiting)),
  ];
}

function storeFamilies(snapshot: Snapshot): readonly Family[] {
  const stores: (readonly [string, StoreMeasures])[] = [
    ["main", snapshot.main.store],
    ...answered(snapshot.engines).map(([thread, { store }]) => [thread, store] as const),
  ];
  const requests = stores.flatMap(([thread, store]) =>
    store.requests.map(({ operation, object, outcome, count }) => ({
      labels: { thread, operation, object, outcome },
      value: count,
    })),
  );
  const durations = stores.flatMap(([thread, store]) =>
    Object.entries(store.durations).flatMap(([operation, counts]) =>
      histogram("store_request_seconds", { thread, operation }, counts),
    ),
  );
  const bytes = (read: (store: StoreMeasures) => number): readonly Sample[] =>
    stores.map(([thread, store]) => ({ labels: { thread }, value: read(store) }));
  return [
    new Family(
      "counter",
      "store_requests_total",
      "Requests of object storage; a put of a manifest that ends as conflict was fenced, or had landed before its " +
        "answer was lost",
      requests,
    ),
    new Family(
      "histogram",
      "store_request_seconds",
      "Time of a request of object storage, repeats included",
      durations,
    ),
    new Family(
      "counter",
      "store_put_bytes_total",
      "Bytes put into object storage",
      bytes(({ bytesPut }) => bytesPut),
    ),
    new Family(
      "counter",
      "store_got_bytes_total",
      "Bytes got from object storage",
      bytes(({ bytesGot }) => bytesGot),
    ),
  ];
}

function clusterFamilies({ cluster }: Snapshot): readonly Family[] {
  const forwarded = Object.entries(cluster.forwarded).flatMap(([direction, counts]) =>
    Object.entries(counts).map(([outcome, value]) => ({ labels: { direction, outcome }, value })),
  );
  return [
    new Family(
      "counter",
      "forwarded_calls_total",
      "Calls that this node had others answer (out) or answered for them (in)",
      forwarded,
    ),
    new Family("counter", "links_lost_total", "Links to other nodes that were lost", single(cluster.linksLost)),
    new Family("gauge", "leases_held", "Databases that this node holds", single(cluster.leasesHeld)),
    new Family(
      "gauge",
      "lease_live",
      "Whether the node's lease certainly holds; 1 where there is no coordination",
      single(cluster.leaseLive ? 1 : 0),
    ),
    new Family(
      "counter",
      "lease_renewals_failed_total",
      "Renewals of the node's lease that failed",
      single(cluster.renewalsFailed),
    ),
    new Family(
      "counter",
      "leases_lost_total",
      "Leases of the node that ended before it left",
      single(cluster.leasesLost),
    ),
  ];
}

function nodeFamilies({ node, egress, auditDropped, clockAheadMs }: Snapshot): readonly Family[] {
  const sent = (read: (count: EgressCount) => number): readonly Sample[] =>
    egress.map((count) => ({
      labels: { use: count.use, provider: count.provider, outcome: count.outcome },
      value: read(count),
    }));
  return [
    new Family("gauge", "node_info", "1; the node's identity (node), its name (SERVICE_NODE_ID) and its build", [
      { labels: { node: node.id, name: node.name, version: node.version }, value: 1 },
    ]),
    new Family(
      "counter",
      "egress_requests_total",
      "Texts for outside models, by use (embed, ask, extract), provider and outcome (ok, denied, error)",
      sent(({ requests }) => requests),
    ),
    new Family(
      "counter",
      "egress_items_total",
      "Items that left for outside models",
      sent(({ items }) => items),
    ),
    new Family(
      "counter",
      "egress_bytes_total",
      "Bytes of text that left for outside models",
      sent(({ bytes }) => bytes),
    ),
    new Family("counter", "audit_events_dropped_total", "Audit events that were lost", single(auditDropped)),
    new Family(
      "gauge",
      "clock_ahead_seconds",
      "How far the machine's clock is ahead of the time that is trusted; negative when it is behind",
      single(clockAheadMs / 1_000),
    ),
  ];
}

function webhookFamilies({ delivered, failed, dead, active, lagMs }: WebhookMeasures): readonly Family[] {
  return [
    new Family(
      "counter",
      "webhook_posts_total",
      "Events that were posted to webhooks' receivers, by outcome (delivered, failed)",
      Object.entries({ delivered, failed }).map(([outcome, value]) => ({ labels: { outcome }, value })),
    ),
    new Family("counter", "webhook_given_up_total", "Transactions that webhooks have given up", single(dead)),
    new Family("gauge", "webhooks", "Webhooks that this node delivers", single(active)),
    new Family(
      "gauge",
      "webhook_lag_seconds",
      "How long ago what the webhook that is most behind has to post was committed",
      single(lagMs / 1_000),
    ),
  ];
}

function embedderFamilies(embedder: LocalEmbedderMeasures): readonly Family[] {
  return [
    new Family(
      "gauge",
      "embedder_up",
      "Whether the process of the local model runs; it is started when it is needed",
      single(embedder.isRunning ? 1 : 0),
    ),
    new Family(
      "gauge",
      "embedder_resident_memory_bytes",
      "Resident memory of that process when it last embedded, 0 without one",
      single(embedder.residentBytes),
    ),
    new Family(
      "counter",
      "embedder_cpu_seconds_total",
      "Processor time of that process and of those before it",
      single(embedder.cpuMs / 1_000),
    ),
    new Family(
      "counter",
      "embedder_texts_total",
      "Texts that the local model was given, by use (query, document)",
      Object.entries(embedder.texts).map(([use, value]) => ({ labels: { use }, value })),
    ),
    new Family("gauge", "embedder_waiting_texts", "Texts that wait for the local model", single(embedder.waitingTexts)),
    new Family("counter", "embedder_starts_total", "Processes that were started for it", single(embedder.starts)),
    new Family(
      "counter",
      "embedder_losses_total",
      "Those of them that ended by themselves, hung or could not load the model",
      single(embedder.losses),
    ),
  ];
}

function processFamilies({ main, engines, process }: Snapshot): readonly Family[] {
  const threads = [["main", main] as const, ...answered(engines)];
  return [
    new Family(
      "histogram",
      "loop_delay_seconds",
      "How late a thread came to a timer, ten times a second",
      threads.flatMap(([thread, { loopDelay }]) => histogram("loop_delay_seconds", { thread }, loopDelay)),
    ),
    new Family(
      "gauge",
      "heap_bytes",
      "JavaScript heap in use",
      threads.map(([thread, { heapBytes }]) => ({ labels: { thread }, value: heapBytes })),
    ),
    new Family("counter", "process_cpu_seconds_total", "Processor time of the process", single(process.cpuSecs)),
    new Family(
      "gauge",
      "process_resident_memory_bytes",
      "Resident memory of the process",
      single(process.residentBytes),
    ),
    new Family(
      "gauge",
      "process_start_time_seconds",
      "When the node was started, in Unix seconds",
      single(process.startedAtSecs),
    ),
  ];
}
