/**
 * Keeps audit streams as short as the policies of their namespaces say.
 *
 * Always true: only whole days are removed, by a trusted time; where a policy cannot be read, everything stays. Must
 * not know: events, and how they are stored.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import { Rounds } from "../../base/rounds.ts";
import type { World } from "../../base/world.ts";
import type { AuditPolicy } from "./audit-entry.ts";
import type { AuditStreams } from "./audit-streams.ts";

/** Objects that one sweep removes; the rest waits for the next one. */
const auditSweepObjectsMax = 100_000;

/** What the sweeps need to know. */
export interface AuditSweepsOptions {
  readonly world: World;
  readonly log: Log;
  /** What the policy says now; rejects while it cannot be known. */
  readonly readPolicy: (namespace: string) => Promise<AuditPolicy>;
  /** Whether this node is the one to remove what is too old in the namespace; absent when there is no other. */
  readonly tends?: ((namespace: string) => Promise<boolean>) | undefined;
}

/** The sweeps of one node: one an hour, each over all the namespaces that are its own. */
export class AuditSweeps {
  readonly #streams: AuditStreams;
  readonly #options: AuditSweepsOptions;
  readonly #rounds: Rounds;

  constructor(streams: AuditStreams, options: AuditSweepsOptions) {
    this.#streams = streams;
    this.#options = options;
    const { world, log } = options;
    const told = (error: unknown): void =>
      log.error("audit events that are too old were not removed; the next sweep will", error);
    this.#rounds = new Rounds({ world, pauseMs: limits.auditSweepMs, round: () => this.sweep().catch(told) });
  }

  /** Removes what is older than its policy allows, now and every hour. */
  start(): void {
    void this.#rounds.start();
  }

  /**
   * Removes whole days that ended before what a policy keeps, in the namespaces that are this node's to sweep. Gives
   * the number of objects. Two nodes that sweep one namespace at once do no harm: what is removed is never written
   * again.
   */
  async sweep(): Promise<number> {
    const { world, log, tends = async () => true } = this.#options;
    let removed = 0;
    for await (const namespace of this.#streams.namespaces()) {
      if (!(await tends(namespace))) continue;
      const retentionSecs = await this.#readRetention(namespace);
      if (retentionSecs === undefined) continue;
      const cutoffMs = Math.max(0, world.time.sureMs() - retentionSecs * 1_000);
      removed += await this.#streams.removeBefore(namespace, cutoffMs, auditSweepObjectsMax - removed);
      if (this.#rounds.closing || removed === auditSweepObjectsMax) break;
    }
    if (removed > 0) log.info("audit events that were too old are removed", { objects: removed });
    return removed;
  }

  /** Ends after the namespace that it is at; waits for that, at most this long. */
  close(withinMs: number): Promise<void> {
    return this.#rounds.close(withinMs);
  }

  /** How long events are kept; undefined for good, and while it cannot be told. */
  async #readRetention(namespace: string): Promise<number | undefined> {
    try {
      return (await this.#options.readPolicy(namespace)).retentionSecs;
    } catch (error) {
      this.#options.log.warn("old audit events stay: the policy of their namespace cannot be read", {
        namespace,
        reason: error instanceof StoreError ? error.kind : "fault",
      });
      return undefined;
    }
  }
}
