/**
 * The instruments of a node: what it counts of itself on the main thread, its page of metrics, and its spans where an
 * operator wants them.
 *
 * Owns no part of the node: parts are handed in and given back wrapped in something that counts or traces, and behave
 * as before. Must not know: how a node is put together.
 */
import { LoopDelay } from "../../base/loop-delay.ts";
import type { Log } from "../../base/log.ts";
import type { TrustedTime } from "../../base/trusted-time.ts";
import type { World } from "../../base/world.ts";
import type { AuditLog } from "../../control/audit/audit-log.ts";
import type { EngineClient } from "../../engine/threads/client.ts";
import type { EnginePort } from "../../engine/api/engine-port.ts";
import type { Embedding } from "../../service/embedding/embedding.ts";
import type { WebhookDeliveries } from "../../service/webhooks/webhook-deliveries.ts";
import { Concurrency } from "../../service/pipeline/admission.ts";
import type { PeerHost, Peers } from "../../service/placement/peers.ts";
import type { MeasuredStore } from "../../store/measured-store.ts";
import { ClusterCounts } from "./cluster-counts.ts";
import type { Config } from "../config/config.ts";
import { EgressCounts } from "./egress-counts.ts";
import type { Snapshot } from "./metrics.ts";
import { packageVersion } from "../config/package-version.ts";
import type { Page, PageContent } from "../rest/rest.ts";
import type { Tracing } from "./tracing.ts";
import { RequestMetrics } from "../wire/request-metrics.ts";

/** What the page of metrics asks when it is read. */
export interface Gauged {
  readonly engine: Pick<EngineClient, "measure">;
  readonly store: Pick<MeasuredStore, "measures">;
  readonly audit: Pick<AuditLog, "dropped">;
  readonly time: Pick<TrustedTime, "aheadMs">;
  /** Undefined on a node without coordination. */
  readonly leases: { readonly heldCount: number; readonly isLeased: boolean } | undefined;
  /** Undefined on a node without an embedder. */
  readonly embedding: Pick<Embedding, "measures"> | undefined;
  readonly webhooks: Pick<WebhookDeliveries, "measures">;
}

export interface InstrumentsOptions {
  readonly config: Pick<Config, "tracing" | "concurrencyMax" | "nodeId">;
  readonly world: World;
  readonly log: Log;
  readonly nodeId: string;
}

export class Instruments {
  /** Sees every request for an endpoint. */
  readonly requestMetrics: RequestMetrics;
  /** The places that calls take while they run. */
  readonly concurrency: Concurrency;
  /** Told of every entry of the audit log. */
  readonly egress = new EgressCounts();
  readonly cluster = new ClusterCounts();
  readonly #tracing: Tracing | undefined;
  readonly #loopDelay: LoopDelay;
  readonly #startedAtMs: number;
  readonly #node: Snapshot["node"];

  private constructor({ config, world, log, nodeId }: InstrumentsOptions, tracing: Tracing | undefined) {
    this.#tracing = tracing;
    this.#node = { id: nodeId, name: config.nodeId, version: packageVersion() };
    this.requestMetrics = new RequestMetrics({ world, log, spans: tracing });
    this.concurrency = new Concurrency(config.concurrencyMax);
    this.#loopDelay = new LoopDelay(world);
    this.#startedAtMs = world.nowMs();
  }

  static async open(options: InstrumentsOptions): Promise<Instruments> {
    const { config, world, log, nodeId } = options;
    if (!config.tracing) return new Instruments(options, undefined);
    // Its packages take half a second to load, which no other node should spend.
    const { Tracing } = await import("./tracing.ts");
    return new Instruments(
      options,
      new Tracing({ settings: config.tracing, world, log, nodeId, nodeName: config.nodeId }),
    );
  }

  /** The engine, with a span for each call of a request where spans are wanted. */
  engine(engine: EnginePort): EnginePort {
    return this.#tracing?.engine(engine) ?? engine;
  }

  /** The other nodes, with what is sent to them counted and traced. */
  peers(peers: Peers): Peers {
    const counted = this.cluster.peers(peers);
    return this.#tracing?.peers(counted) ?? counted;
  }

  /** What this node does for the others, counted and traced. */
  host(host: PeerHost): PeerHost {
    const counted = this.cluster.host(host);
    return this.#tracing?.host(counted) ?? counted;
  }

  /** The page of metrics. */
  page(gauged: Gauged): Page {
    return { answer: () => this.#content(gauged) };
  }

  /** Measures no more, and sends what spans are left. */
  async close(): Promise<void> {
    this.#loopDelay.stop();
    await this.#tracing?.close();
  }

  async #content(gauged: Gauged): Promise<PageContent> {
    // Loading its package takes a tenth of a second, which a start has no use for.
    const { metricsText, metricsType } = await import("./metrics.ts");
    return { status: 200, contentType: metricsType, body: await metricsText(await this.#snapshot(gauged)) };
  }

  async #snapshot({ engine, store, audit, leases, time, embedding, webhooks }: Gauged): Promise<Snapshot> {
    const engines = await engine.measure();
    const { user, system } = process.cpuUsage();
    const { rss, heapUsed } = process.memoryUsage();
    const { forwarded, linksLost, renewalsFailed, leasesLost } = this.cluster;
    return {
      node: this.#node,
      requestMetrics: this.requestMetrics.counts,
      strays: this.requestMetrics.strays,
      calls: this.concurrency,
      engines,
      main: { store: store.measures, loopDelay: this.#loopDelay.counts, heapBytes: heapUsed },
      cluster: {
        forwarded,
        linksLost,
        renewalsFailed,
        leasesLost,
        leasesHeld: leases?.heldCount ?? 0,
        leaseLive: leases?.isLeased ?? true,
      },
      egress: this.egress.counts,
      embedder: embedding?.measures,
      webhooks: webhooks.measures,
      auditDropped: audit.dropped,
      clockAheadMs: time.aheadMs,
      process: { cpuSecs: (user + system) / 1e6, residentBytes: rss, startedAtSecs: this.#startedAtMs / 1_000 },
    };
  }
}
