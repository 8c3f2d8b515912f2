/**
 * The one translation, for every wire, of what was thrown into what a client may be told.
 *
 * Always true: a bug or a fault of the outside never shows its own text to a client, but for the few words that say
 * what is wrong with a disk; a bug shows the id that it has in the log.
 */
import { ServiceError, StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import type { Trace } from "../../base/trace.ts";
import type { World } from "../../base/world.ts";

/** The refusal that answers an error. `where` names the method or route for the log, `trace` the request. */
export function refusalFor(error: unknown, where: string, world: World, log: Log, trace?: Trace): ServiceError {
  if (error instanceof ServiceError) return error;
  const isPassing = error instanceof StoreError && (error.kind === "unavailable" || error.kind === "unknown_outcome");
  if (isPassing) {
    log.warn("a call failed because storage did not answer", { where, reason: error.message, traceId: trace?.traceId });
    const why = error.reason === undefined ? "" : `: ${error.reason}`;
    return new ServiceError("unavailable", `storage does not answer at the moment${why}`, {
      retryAfterSecs: limits.retryAfterSecsMin,
    });
  }
  const id = world.ulid();
  log.error("a call failed by a fault of ours", error, { where, id, traceId: trace?.traceId });
  return new ServiceError("internal", `internal error ${id}: the log of the node has it under this id`);
}

/** The seconds of `Retry-After`, on refusals that a retry can help; undefined on all others. */
export function computeRetryAfterSecs(refusal: ServiceError): number | undefined {
  const { retryAfterSecs, isLasting } = refusal.detail;
  if (isLasting) return undefined;
  const isExpected = refusal.code === "overloaded" || refusal.code === "unavailable";
  if (retryAfterSecs === undefined && !isExpected) return undefined;
  return Math.max(limits.retryAfterSecsMin, Math.ceil(retryAfterSecs ?? 0));
}

/** The headers of a refusal, the same on every wire. */
export function refusalHeaders(refusal: ServiceError): [string, string][] {
  const headers: [string, string][] = Object.entries(refusal.detail.headers ?? {});
  const isChallenged = headers.some(([name]) => name === "WWW-Authenticate");
  if (refusal.code === "unauthorized" && !isChallenged) headers.push(["WWW-Authenticate", "Bearer"]);
  const retryAfterSecs = computeRetryAfterSecs(refusal);
  if (retryAfterSecs !== undefined) headers.push(["Retry-After", String(retryAfterSecs)]);
  if (refusal.detail.txid !== undefined) headers.push(["Service-Txid", String(refusal.detail.txid)]);
  return headers;
}
