/** What the codes of a file system's errors mean to the file store, and in which words they reach an operator. */
import { describeDiskFault } from "../../base/disk.ts";
import { StoreError } from "../../base/faults/errors.ts";

function getFaultCode(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? "fault";
}

/** The file, or a directory above it, is not there. */
export function isMissing(error: unknown): boolean {
  return ["ENOENT", "ENOTDIR"].includes(getFaultCode(error));
}

/** The name is taken, or the directory is not empty. */
export function isTaken(error: unknown): boolean {
  return ["EEXIST", "ENOTEMPTY"].includes(getFaultCode(error));
}

/**
 * After these a link or a rename was not carried out; after any other one it may have been, though its answer was a
 * failure.
 */
const certain = new Set([
  "ENOSPC",
  "EDQUOT",
  "EROFS",
  "EMFILE",
  "ENFILE",
  "EACCES",
  "EPERM",
  "EMLINK",
  "EXDEV",
  "ENAMETOOLONG",
  "ENOENT",
  "ENOTDIR",
]);

export function isCertain(error: unknown): boolean {
  return certain.has(getFaultCode(error));
}

/** The fault as the port tells it: nothing was stored. */
export function fault(what: string, error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const code = getFaultCode(error);
  const reason = describeDiskFault(error);
  return new StoreError(
    "unavailable",
    `file store: ${what} failed: ${reason ?? "the file system refused it"} (${code})`,
    { cause: error, reason },
  );
}

/** The fault of a put that may have been carried out. */
export function doubt(error: unknown): StoreError {
  const code = getFaultCode(error);
  const reason = describeDiskFault(error);
  const why = reason === undefined ? "" : `: ${reason} (${code})`;
  return new StoreError(
    "unknown_outcome",
    `file store: the put was written but is not settled${why}; read the object back`,
    { cause: error, reason },
  );
}

/** Awaits all of them, so that nothing is under way any more when one has failed. */
export async function allDone(steps: readonly Promise<unknown>[]): Promise<void> {
  for (const result of await Promise.allSettled(steps)) if (result.status === "rejected") throw result.reason;
}
