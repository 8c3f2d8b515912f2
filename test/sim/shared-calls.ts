/** Calls of one of several nodes, and how each of them ended: what must not be is a Violation. */
import { ServiceError, StoreError } from "../../src/base/faults/errors.ts";
import type { CallOptions, EnginePort } from "../../src/engine/api/engine-port.ts";
import type { Answer, Target } from "../../src/engine/api/protocol.ts";
import { Violation, type Failure } from "./asks.ts";
import { isGone, type BranchModel } from "./branch-model.ts";
import type { Scheduler } from "./scheduler.ts";
import type { SharedNode } from "./shared-node.ts";
import { ProcessGone } from "./sim-node.ts";

const callBudgetMs = 20_000;
/** A node that has just looked at the catalog, or was just stopped, may not know of a branch that is as young. */
const knownWithinMs = 10_000;

export class SharedCalls {
  readonly #scheduler: Scheduler;
  /** Whether two nodes may hold one database, as the coordination store has failed. */
  readonly #areLeasesBroken: () => boolean;
  readonly counts: Record<string, number> = {};

  constructor(scheduler: Scheduler, areLeasesBroken: () => boolean) {
    this.#scheduler = scheduler;
    this.#areLeasesBroken = areLeasesBroken;
  }

  /** What is asked of object storage alone. Undefined when there was no answer. */
  async ofStore<Value>(
    what: string,
    node: SharedNode,
    name: string,
    act: Parameters<typeof node.call<Value>>[0],
    refused = (): void => {},
  ): Promise<Value | undefined> {
    try {
      const value = await node.call(act);
      this.#count(`${what} done`);
      return value;
    } catch (error) {
      if (error instanceof ServiceError && error.code === "database_not_found") refused();
      else if (!(error instanceof ProcessGone || error instanceof StoreError))
        throw error instanceof Violation
          ? error
          : new Violation(`${what} ${name} at ${node.name} ended in ${told(error)}`);
      this.#count(
        `${what} ${error instanceof ServiceError ? error.code : error instanceof StoreError ? error.kind : "gone"}`,
      );
      return undefined;
    }
  }

  /** Makes a call and sorts out how it ended; a fault of the engine itself is a Violation. */
  async ask<Value>(
    what: string,
    node: SharedNode,
    branch: BranchModel,
    act: (port: EnginePort, target: Target, options: CallOptions) => Promise<Value>,
    given: {
      readonly durable?: boolean;
      readonly consistency?: "primary" | "cached";
      readonly minTxid?: number;
      readonly budgetMs?: number;
    } = {},
  ): Promise<Value | Failure> {
    const { budgetMs = callBudgetMs, ...rest } = given;
    const begunAtMs = this.#scheduler.nowMs;
    const end = (how: string): void => {
      this.#count(`${what.split(" ", 1)[0]} ${how.split(" ", 1)[0]}`);
      this.#scheduler.note("client", `${branch.label} at ${node.name}: ${what}: ${how}`);
    };
    try {
      const answer = await node.call(({ placement, world }) =>
        act(
          placement,
          { uuid: branch.database.uuid, branch: branch.name },
          { deadlineMs: world.monotonicMs() + budgetMs, ...rest },
        ),
      );
      const { txid, durableTxid } = (answer ?? {}) as Partial<Answer>;
      end(`done ${txid} ${durableTxid}`);
      return answer;
    } catch (error) {
      if (error instanceof Violation) throw error;
      end(
        error instanceof ServiceError
          ? `${error.code} ${error.message}`
          : error instanceof ProcessGone
            ? "gone"
            : "fault",
      );
      if (error instanceof ProcessGone) return "unknown";
      const failure = error instanceof ServiceError ? this.#failure(what, node, branch, error, begunAtMs) : undefined;
      if (failure === undefined)
        throw new Violation(`${branch.label} at ${node.name}: ${what} ended in ${told(error)}`);
      return failure;
    }
  }

  /** Undefined for what must not be. */
  #failure(
    what: string,
    node: SharedNode,
    branch: BranchModel,
    { code }: ServiceError,
    begunAtMs: number,
  ): Failure | undefined {
    const isData = /^(?:write|remove|read|copy|cached|sync|dropping)/.test(what);
    switch (code) {
      case "overloaded":
        return "nothing happened";
      case "unavailable":
      case "request_timeout":
        return "unknown";
      case "database_not_found":
        return branch.database.goneAtMs === undefined ? undefined : "gone";
      case "branch_not_found": {
        const isYoung = branch.bornAtMs > begunAtMs - knownWithinMs || node.resumedAtMs > begunAtMs - knownWithinMs;
        return isGone(branch) || isYoung || this.#areLeasesBroken() ? "gone" : undefined;
      }
      case "conflict":
      case "invalid_request":
        // A transaction id of a branch that is gone means nothing to the next one of its name.
        if (isData) return isGone(branch) ? "gone" : undefined;
        return code === "conflict" ? "refused" : undefined;
      case "already_exists":
      case "not_found":
        return isData ? undefined : "refused";
      default:
        return undefined;
    }
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }
}

function told(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
