/**
 * What a failed S3 request means, read from the error that the client throws.
 *
 * The one question that matters is whether the server may have done what was asked. Always true: a failure is called
 * `refused`, `unsupported` or `busy` only when it cannot have; whatever is not understood is `lost`.
 */

/** A failure by what may be done next. */
export type S3FailureKind =
  /** The condition of a put does not hold. Nothing was changed. */
  | "unmet"
  /** The object of a get is the one that its caller has. */
  | "same"
  /** There is no such object. */
  | "absent"
  /** Refused this time, or never sent: nothing was changed, and a repeat may pass. */
  | "busy"
  /** No answer, or one that does not say whether the request was carried out. */
  | "lost"
  /** Will be refused for ever: wrong credentials, permissions, bucket, region. */
  | "refused"
  /** The server lacks the feature. */
  | "unsupported";

/** A failure and how to name it to an operator. */
export interface S3Failure {
  readonly kind: S3FailureKind;
  /** Code and status, such as `SlowDown, 503`. */
  readonly name: string;
}

/** Refusals that pass: two writers met, a clock was corrected, credentials that ran out are renewed by the client. */
const passingCodes = new Set([
  "ConditionalRequestConflict",
  "OperationAborted",
  "RequestTimeout",
  "RequestTimeTooSkewed",
  "ExpiredToken",
  "ExpiredTokenException",
  "TokenRefreshRequired",
  "RequestExpired",
  "CredentialsProviderError",
]);
const passingStatuses = new Set([408, 409, 425, 429]);
const absentCodes = new Set(["NoSuchKey", "NotFound", "NoSuchVersion", "NoSuchUpload"]);
/** Unlike other answers of the 500s, this one comes before anything is done. */
const notImplemented = 501;

/** Faults of a connection that was never made, so that nothing was sent. */
const unsentCodes = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);

/** Faults of a connection while an answer was being read: its status came, and not why. */
const cutCodes = new Set(["ECONNRESET", "EPIPE", "ETIMEDOUT", "ERR_STREAM_PREMATURE_CLOSE"]);

/** The parts of the client's errors that are read here. */
interface ClientError {
  readonly name?: unknown;
  readonly code?: unknown;
  readonly $metadata?: { readonly httpStatusCode?: number };
}

/** Reads an error of the client. */
export function toS3Failure(error: unknown): S3Failure {
  const { name, code, $metadata } = error as ClientError;
  const status = $metadata?.httpStatusCode;
  const label = typeof code === "string" ? code : String(name);
  return { kind: classifyFailure(label, status), name: status === undefined ? label : `${label}, ${status}` };
}

function classifyFailure(code: string, status: number | undefined): S3FailureKind {
  if (passingCodes.has(code)) return "busy";
  if (status === undefined) return unsentCodes.has(code) ? "busy" : "lost";
  if (status === 412) return "unmet";
  if (status === 304) return "same";
  if (status === 404 && absentCodes.has(code)) return "absent";
  if (passingStatuses.has(status)) return "busy";
  if (status === notImplemented) return "unsupported";
  // A refusal that did not say why before the line broke: a repeat hears the reason, which may be that there is no such
  // object.
  if (status >= 300 && status < 500 && cutCodes.has(code)) return "busy";
  if (status >= 300 && status < 500) return "refused";
  return "lost";
}
