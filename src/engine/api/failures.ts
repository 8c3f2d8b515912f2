/**
 * Turns what was thrown into what may cross the thread: a refusal for the client, a call turned away, or a fault for
 * the log.
 */
import { describeDiskFault } from "../../base/disk.ts";
import { getErrorCode, toRefusalData, StoreError, type RefusalData } from "../../base/faults/errors.ts";
import { isSliceOver } from "../../sqlite/slices.ts";
import { TurnedAway } from "./engine-port.ts";
import type { EngineAnswer } from "./protocol.ts";

/** The part of an answer that says what went wrong. */
export function toFailureAnswer(error: unknown): Pick<EngineAnswer, "refusal" | "fault" | "turnedAway" | "isLong"> {
  if (error instanceof TurnedAway) return { turnedAway: error.reason };
  if (isSliceOver(error)) return { isLong: true };
  const refusal = toRefusalData(error) ?? toFaultRefusal(error);
  if (refusal) return { refusal };
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  return { fault: { message, stack: stack ?? "" } };
}

/** Whether waiting will not help. */
export function needsOperator(error: unknown): error is StoreError {
  return error instanceof StoreError && (error.kind === "corrupt" || error.kind === "misconfigured");
}

function toFaultRefusal(error: unknown): RefusalData | undefined {
  if (error instanceof StoreError) {
    const { reason } = error;
    // What cannot be read is never taken for an empty database: an operator must look. Such messages name objects and
    // transaction ids, never content.
    if (needsOperator(error))
      return {
        code: "unavailable",
        message: `stored data cannot be used: ${error.message}`,
        detail: { retryAfterSecs: 60 },
      };
    const why = reason === undefined ? "" : `: ${reason}`;
    return { code: "unavailable", message: `storage did not answer${why}`, detail: { retryAfterSecs: 1 } };
  }
  const fault = describeDiskFault(error);
  if (fault !== undefined)
    return { code: "unavailable", message: `the node's storage failed: ${fault}`, detail: { retryAfterSecs: 30 } };
  if (getErrorCode(error).startsWith("SQLITE_BUSY")) {
    return {
      code: "unavailable",
      message: "the database's file is held by another handle for a moment",
      detail: { retryAfterSecs: 1 },
    };
  }
  return undefined;
}
