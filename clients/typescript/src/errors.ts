/**
 * What a call can end in other than its answer: one class for each stable code, and two for calls that got none.
 *
 * Always true: the message is the node's, which holds neither content nor credentials.
 */
import type { ErrorCode } from "./generated/operations.ts";

/** What a node said of a call that it refused. */
export interface Refusal {
  readonly code: string;
  readonly message: string;
  /** The HTTP status. */
  readonly status: number;
  /** Milliseconds after which a retry is expected to succeed; undefined where the node does not say. */
  readonly retryAfterMs: number | undefined;
  /** The operation that was called, such as `recall`. */
  readonly operation: string;
}

/** The base of everything that this client throws about a call. */
export class PalimpsestError extends Error {
  override readonly name: string = "PalimpsestError";
}

/** The node refused the call. */
export class RefusedError extends PalimpsestError {
  override readonly name: string = "RefusedError";
  /** The stable code, for programs. */
  readonly code: string;
  /** The HTTP status. */
  readonly status: number;
  /** Milliseconds after which a retry is expected to succeed; undefined where the node does not say. */
  readonly retryAfterMs: number | undefined;
  /** The operation that was called, such as `recall`. */
  readonly operation: string;

  constructor({ code, message, status, retryAfterMs, operation }: Refusal) {
    super(message);
    this.code = code;
    this.status = status;
    this.retryAfterMs = retryAfterMs;
    this.operation = operation;
  }
}

/** The credential is missing, wrong, expired or revoked. */
export class Unauthorized extends RefusedError {
  override readonly name = "Unauthorized";
}
/** The credential or a policy does not allow it. */
export class Forbidden extends RefusedError {
  override readonly name = "Forbidden";
}
/** There is no such memory, document, value, file, vector, erasure or checkpoint. */
export class NotFound extends RefusedError {
  override readonly name: string = "NotFound";
}
/** There is no such database. */
export class DatabaseNotFound extends NotFound {
  override readonly name = "DatabaseNotFound";
}
/** There is no such branch. */
export class BranchNotFound extends NotFound {
  override readonly name = "BranchNotFound";
}
/** The name is taken. */
export class AlreadyExists extends RefusedError {
  override readonly name = "AlreadyExists";
}
/** The state does not allow it: a condition that does not hold, a policy that would be loosened, a key used twice. */
export class Conflict extends RefusedError {
  override readonly name: string = "Conflict";
}
/**
 * The transaction that this client had read or written is gone with the node that had not shipped it yet. What the client
 * kept of the branch is dropped, so that the same call goes through when it is made again.
 */
export class LostWrite extends Conflict {
  override readonly name = "LostWrite";
}
/** The request is not one that the interface allows; the message names what is wrong and what is allowed. */
export class InvalidRequest extends RefusedError {
  override readonly name = "InvalidRequest";
}
/** A body beyond its cap. */
export class PayloadTooLarge extends RefusedError {
  override readonly name = "PayloadTooLarge";
}
/** The node did not finish within its own limit; a write may have happened. */
export class RequestTimeout extends RefusedError {
  override readonly name = "RequestTimeout";
}
/** Too much is asked at once: `retryAfterMs` says when to come back. */
export class Overloaded extends RefusedError {
  override readonly name = "Overloaded";
}
/** The node is not configured for it, such as for an embedder or a model. */
export class Unconfigured extends RefusedError {
  override readonly name = "Unconfigured";
}
/** The node or something that it needs is away for now. */
export class Unavailable extends RefusedError {
  override readonly name = "Unavailable";
}
/** A fault of the node; its log has the rest. */
export class Internal extends RefusedError {
  override readonly name = "Internal";
}

/** No answer came: the node cannot be reached, or the connection broke. A write may have happened. */
export class ConnectionError extends PalimpsestError {
  override readonly name = "ConnectionError";
}

/** No answer within the time that the call was given. A write may have happened. */
export class DeadlineExceeded extends PalimpsestError {
  override readonly name = "DeadlineExceeded";
}

/** The class of each code. */
export const errorClasses: { readonly [Code in ErrorCode]: typeof RefusedError } = {
  unauthorized: Unauthorized,
  forbidden: Forbidden,
  not_found: NotFound,
  database_not_found: DatabaseNotFound,
  branch_not_found: BranchNotFound,
  already_exists: AlreadyExists,
  conflict: Conflict,
  invalid_request: InvalidRequest,
  payload_too_large: PayloadTooLarge,
  request_timeout: RequestTimeout,
  overloaded: Overloaded,
  unconfigured: Unconfigured,
  unavailable: Unavailable,
  internal: Internal,
};

/** The error of a refusal; of a code that this client does not know yet, the common base. */
export function toError(refusal: Refusal): RefusedError {
  const known = Object.hasOwn(errorClasses, refusal.code) ? errorClasses[refusal.code as ErrorCode] : RefusedError;
  return new known(refusal);
}
