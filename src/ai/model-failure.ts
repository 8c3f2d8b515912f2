/** Why an outside model gave nothing, in our words: a provider's own may repeat what was sent, or a part of the key. */

/** What a caller can make of it. */
export type ModelFailureKind =
  /** It did not answer in time, cannot be reached, or is overloaded: it may do so later. */
  | "unavailable"
  /** It will not serve this node: key, permission, address or model are wrong. */
  | "refused"
  /** It does not take this request, whatever else it takes. */
  | "rejected"
  /** It answered with something that is no answer. */
  | "unusable"
  /** It was not asked, as it has failed too often. */
  | "resting"
  /** It was not asked, as too much waits for it already or the time was over. */
  | "crowded";

export class ModelFailure extends Error {
  override readonly name = "ModelFailure";
  readonly kind: ModelFailureKind;
  /** When the provider wants to be asked again. */
  readonly retryAfterMs: number | undefined;

  constructor(kind: ModelFailureKind, retryAfterMs?: number) {
    super(`the model gave nothing: ${kind}`);
    this.kind = kind;
    this.retryAfterMs = retryAfterMs;
  }
}

/** What an HTTP status of a provider means. */
export function classifyStatus(status: number): ModelFailureKind {
  if (status === 408 || status === 409 || status === 429 || status >= 500) return "unavailable";
  return status === 400 || status === 413 || status === 422 ? "rejected" : "refused";
}

/** The pause that a `Retry-After` header asks for, in seconds or as a date. */
export function retryAfterMs(header: string | null | undefined, nowMs: number): number | undefined {
  if (header === null || header === undefined || header.trim() === "") return undefined;
  const seconds = Number(header);
  const ms = Number.isFinite(seconds) ? seconds * 1_000 : Date.parse(header) - nowMs;
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined;
}
