/**
 * Whether this node can serve: the pages `/health` and `/health/ready`, and grpc.health.v1.
 *
 * Always true: `/health` says only that the process answers; everything else says not serving from the moment a
 * drain begins, so that load balancers send their next calls elsewhere while the last ones finish.
 */
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import {
  Health as HealthService,
  HealthCheckResponse_ServingStatus as Status,
} from "../../../gen/grpc/health/v1/health_pb.ts";
import type { World } from "../../base/world.ts";
import type { AlarmCounts } from "../../engine/api/alarms.ts";
import type { Page } from "../rest/rest.ts";

/** How often a health watch looks whether the answer has changed. */
const healthWatchMs = 1_000;

/**
 * What an operator must look at, as checks of its own: in words, and without making the node unready, as it serves all
 * else.
 */
export function buildChecks({ quarantined, lost, wentBack }: AlarmCounts): Readonly<Record<string, string>> {
  return {
    ...(quarantined > 0 && { quarantine: `${quarantined} set aside under quarantine/ in the data directory` }),
    ...(lost > 0 && { storage_lost: `${lost} without manifest or catalog in object storage` }),
    ...(wentBack > 0 && { storage_put_back: `${wentBack} older in object storage than this node has seen` }),
  };
}

/** What a node says of itself: each check by name, in words. */
export interface Readiness {
  readonly ready: boolean;
  readonly checks: Readonly<Record<string, string>>;
}

export interface HealthOptions {
  readonly isReady: () => Readiness;
  /** Finds out what `isReady` tells of, where that takes asking others. Never rejects for what they do. */
  readonly look?: (() => Promise<void>) | undefined;
  /** Full names of the services that have a state of their own in grpc.health.v1; all have the node's. */
  readonly services: readonly string[];
  readonly world: World;
}

/** The answer to "can you serve". */
export class Health {
  readonly #options: HealthOptions;
  readonly #names: ReadonlySet<string>;
  readonly #drained = new AbortController();

  constructor(options: HealthOptions) {
    this.#options = options;
    // The empty name means the node as a whole (grpc.health.v1).
    this.#names = new Set(["", ...options.services]);
  }

  /** Aborted when the drain begins. */
  get draining(): AbortSignal {
    return this.#drained.signal;
  }

  /** From now on this node is not serving. Watches are told, and end. */
  drain(): void {
    this.#drained.abort();
  }

  /** What the node says of itself now. */
  readiness(): Readiness {
    const { ready, checks } = this.#options.isReady();
    if (!this.draining.aborted) return { ready, checks };
    return { ready: false, checks: { ...checks, drain: "draining" } };
  }

  /** `/health` for everyone; `/health/ready` for the callers that `admit` lets in. */
  pages(admit: (credential: string | undefined) => void | Promise<void>): [string, Page][] {
    const alive: Page = { answer: () => ({ status: 200, contentType: "text/plain", body: "ok" }) };
    const ready: Page = {
      answer: async (credential) => {
        await admit(credential);
        await this.#options.look?.();
        const readiness = this.readiness();
        return {
          status: readiness.ready ? 200 : 503,
          contentType: "application/json",
          body: JSON.stringify(readiness),
        };
      },
    };
    return [
      ["/health", alive],
      ["/health/ready", ready],
    ];
  }

  /** Adds grpc.health.v1.Health, which needs no credential. */
  addTo(router: ConnectRouter): void {
    router.service(HealthService, {
      check: async ({ service }) => {
        await this.#options.look?.();
        if (!this.#names.has(service)) throw new ConnectError("no such service", Code.NotFound);
        return { status: this.#status() };
      },
      list: async () => {
        await this.#options.look?.();
        const status = this.#status();
        return { statuses: Object.fromEntries([...this.#names].map((name) => [name, { status }])) };
      },
      watch: ({ service }, { signal }) => this.#watch(service, signal),
    });
  }

  #status(): Status {
    return this.readiness().ready ? Status.SERVING : Status.NOT_SERVING;
  }

  async *#watch(service: string, gone: AbortSignal): AsyncGenerator<{ status: Status }> {
    let told: Status | undefined;
    while (!gone.aborted) {
      await this.#options.look?.();
      const status = this.#names.has(service) ? this.#status() : Status.SERVICE_UNKNOWN;
      if (status !== told) yield { status };
      told = status;
      if (this.draining.aborted) return;
      await this.#pause(gone);
    }
  }

  /** Ends after a while, at a drain, or when the client goes: whichever is first. */
  #pause(gone: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        cancel();
        gone.removeEventListener("abort", end);
        this.draining.removeEventListener("abort", end);
        resolve();
      };
      const cancel = this.#options.world.after(healthWatchMs, end);
      gone.addEventListener("abort", end);
      this.draining.addEventListener("abort", end);
      if (gone.aborted || this.draining.aborted) end();
    });
  }
}
