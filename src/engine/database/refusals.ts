/** The refusals of calls that an open branch cannot carry through. */
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { Fenced } from "../history/manifest-writer.ts";
import { TurnedAway } from "../api/engine-port.ts";

/** The node ends in order. */
export function closed(): ServiceError {
  return new ServiceError(
    "unavailable",
    "the node is shutting down; whether object storage covers this write is not known",
    { retryAfterSecs: 1 },
  );
}

/** The disk, or what is on it, failed. */
export function storageFailed(): ServiceError {
  return new ServiceError("unavailable", "the database's storage failed; whether this write happened is not known", {
    retryAfterSecs: 1,
  });
}

/** SQLite had no room for a transaction: on the disk, or in a file of as many pages as a database may have. */
export function noRoom(isDatabaseFull: boolean): ServiceError {
  if (isDatabaseFull) return invalid("the database is as large as it may be; delete something first");
  return new ServiceError("unavailable", "the node's disk is full; nothing was written", { retryAfterSecs: 30 });
}

/** The handle failed for this reason while the call was under way. */
export function lossBy(reason: unknown): ServiceError {
  return reason instanceof Fenced ? reason : storageFailed();
}

/** The handle failed for this reason before the write began. Where nodes share databases, another one may take it. */
export function refusalBy(reason: unknown, isShared: boolean): Error {
  return isShared && reason instanceof Fenced ? new TurnedAway("unheld") : lossBy(reason);
}

/** A write needs object storage, and this node has none. */
export function notShipping(): ServiceError {
  return new ServiceError("unavailable", "this node ships nothing to object storage", { retryAfterSecs: 60 });
}
