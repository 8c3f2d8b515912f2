/** Bounds of requests of object storage: their time, their repeats, how many at once (store/); part of `limits`. */

export const storeLimits = {
  /** One attempt of a request must have its answer by then; an answer's body has as long again. */
  storeAnswerMs: 10_000,
  /** A body that is sent or read adds time at this rate: slower lines are taken for dead. */
  storeBytesPerMsMin: 256,
  /** Attempts of one request, as long as a repeat is safe. */
  storeAttemptsMax: 8,
  /**
   * The longest pause before the first repeat; it doubles with each. Pauses are random below it, so that a crowd
   * disperses.
   */
  storeBackoffMs: 50,
  storeBackoffMsMax: 4_000,
  /** After this long a request is not repeated any more. */
  storeRepeatMs: 30_000,
  /** Connections of one thread to the object store; further requests wait for one. */
  storeConnectionsMax: 64,
  /** Keys in one page of a listing; S3 gives no more. */
  storeListMax: 1_000,
  /** Removals of old versions at once: there may be one for every manifest that was ever written. */
  storePurgesAtOnceMax: 16,
} as const;
