/**
 * Every way a call can be refused, in one table: the stable code, its HTTP status and its Connect code.
 *
 * Three kinds of failure are kept apart: a refusal (ServiceError) is an answer to the client; a fault of the outside
 * (StoreError) is translated to a refusal at the edge; a bug (AssertionFault, base/faults/assert) becomes `internal`
 * with an id that is in the log, and its text never reaches a client.
 */

/** A row of the table: `connect` is the numeric Connect/gRPC status code; `retryable` says whether a retry can help. */
interface CodeRow {
  readonly http: number;
  readonly connect: number;
  readonly retryable: boolean;
}

export const errorCodes = {
  unauthorized: { http: 401, connect: 16, retryable: false },
  forbidden: { http: 403, connect: 7, retryable: false },
  not_found: { http: 404, connect: 5, retryable: false },
  database_not_found: { http: 404, connect: 5, retryable: false },
  branch_not_found: { http: 404, connect: 5, retryable: false },
  already_exists: { http: 409, connect: 6, retryable: false },
  conflict: { http: 409, connect: 10, retryable: false },
  invalid_request: { http: 400, connect: 3, retryable: false },
  payload_too_large: { http: 413, connect: 8, retryable: false },
  request_timeout: { http: 408, connect: 4, retryable: true },
  overloaded: { http: 429, connect: 8, retryable: true },
  unconfigured: { http: 503, connect: 9, retryable: false },
  unavailable: { http: 503, connect: 14, retryable: true },
  internal: { http: 500, connect: 13, retryable: false },
} as const satisfies Record<string, CodeRow>;

/** The stable, machine-readable name of a refusal (spec: Errors). */
export type ErrorCode = keyof typeof errorCodes;

export interface ServiceErrorDetail {
  /** Whole seconds after which a retry is expected to succeed; sent as `Retry-After` and RetryInfo. */
  readonly retryAfterSecs?: number;
  /** Asking again would give the same, and may cost the same: there is no time after which to try. */
  readonly isLasting?: true;
  /** Overrides the table's HTTP status where HTTP itself demands another (405, 415); the code stays. */
  readonly httpStatus?: number;
  /** Extra response headers that HTTP demands with the status, such as `Allow`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The transaction id of the database's state when the refusal was decided. */
  readonly txid?: number;
}

/**
 * An outcome the client is told about. The message names what is wrong and what is allowed; it never holds content or
 * credentials.
 */
export class ServiceError extends Error {
  override readonly name = "ServiceError";
  readonly code: ErrorCode;
  readonly detail: ServiceErrorDetail;

  constructor(code: ErrorCode, message: string, detail: ServiceErrorDetail = {}) {
    super(message);
    this.code = code;
    this.detail = detail;
  }
}

/** A refusal as plain data, so that it can cross a thread. */
export interface RefusalData {
  readonly code: ErrorCode;
  readonly message: string;
  readonly detail: ServiceErrorDetail;
}

/** The plain-data form of an error; anything that is not a refusal is passed on for the caller to log and hide. */
export function toRefusalData(error: unknown): RefusalData | undefined {
  if (error instanceof ServiceError) return { code: error.code, message: error.message, detail: error.detail };
  return undefined;
}

/** The error again, on the other side of a thread. */
export function toServiceError(refusal: RefusalData): ServiceError {
  return new ServiceError(refusal.code, refusal.message, refusal.detail);
}

/** Shorthand for the commonest refusal. */
export function invalid(message: string): ServiceError {
  return new ServiceError("invalid_request", message);
}

/** Names a lower floor's fault of the outside by what the caller should do about it. */
export type StoreErrorKind =
  /** The outcome of a write is unknown: read back before deciding. */
  | "unknown_outcome"
  /** The store did not answer or refused for now: try again later. */
  | "unavailable"
  /** What was read is not what was written: do not use it, tell the operator. */
  | "corrupt"
  /** The store will never do this (credentials, missing bucket, unsupported condition). */
  | "misconfigured";

/** A fault of object storage or of the local disk. */
export class StoreError extends Error {
  override readonly name = "StoreError";
  readonly kind: StoreErrorKind;
  /** What is wrong with the outside, in a few words that a client may be told too: "the disk is full". */
  readonly reason: string | undefined;

  constructor(kind: StoreErrorKind, message: string, options?: { cause?: unknown; reason?: string | undefined }) {
    super(message, options);
    this.kind = kind;
    this.reason = options?.reason;
  }
}

/** What went wrong, in a word that may be logged: never a message, which may quote a statement. */
export function getErrorCode(error: unknown): string {
  if (error instanceof StoreError) return error.kind;
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : error instanceof Error ? error.name : "fault";
}
