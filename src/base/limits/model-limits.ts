/** The bounds of calls to outside models; a part of base/limits/limits, through which they are read. */

const KiB = 1024;
const MiB = 1024 * KiB;

export const modelLimits = {
  // Embedding (ai/, service/embedding/embedding)
  /** Text of one memory or turn that is embedded: 8,192 tokens at the very most, which hosted models take. */
  embedTextBytesMax: 8 * KiB,
  /** Texts, and bytes of text, in one request: well under what providers take, however a model counts tokens. */
  embedBatchItemsMax: 128,
  embedBatchBytesMax: 96 * KiB,
  /**
   * Requests to the embedder that are under way at once, and bytes of texts that wait for them; further ones go without
   * vectors.
   */
  embedRequestsMax: 4,
  embedWaitingBytesMax: 64 * MiB,
  /** How long a write or a recall waits for its vectors, and never longer than half of the time it has left. */
  embedWriteMs: 10_000,
  embedRecallMs: 3_000,
  embedRequestMs: 5_000,
  /** An attempt that had less time than this and ran out of it says nothing of the provider. */
  embedPatienceMs: 1_000,
  embedAttemptsMax: 3,
  /** Requests of one call that a model does not take; halving 128 texts finds one that it does not with 8. */
  embedRejectionsMax: 16,
  /** The longest pause before the first repeat; it doubles with each. */
  embedBackoffMs: 250,
  /** An answer: 128 vectors of 4096 numbers of 24 digits each. */
  embedAnswerBytesMax: 16 * MiB,
  /** Failures in a row after which a provider is left alone, and for how long: it doubles with each failed probe. */
  breakerFailures: 5,
  breakerOpenMs: 1_000,
  breakerOpenMsMax: 60_000,
  /** Vectors that are made in one step of a backfill or of a reembed, and bytes of content that are read for it. */
  embedStepItemsMax: 64,
  embedStepBytesMax: 4 * MiB,
  /** Rows that are looked at in one step. */
  embedStepLooksMax: 2_000,
  /** Vectors of another model that are removed in one step. */
  embedRetiredRowsMax: 500,
  /** Databases that wait for a backfill, and those that are remembered to need none. */
  backfillsWaitingMax: 10_000,
  backfillsCompleteMax: 100_000,
  /** Pause between steps of a backfill, and after one that came to nothing. */
  backfillPauseMs: 20,
  backfillRetryMs: 2_000,
  /** A database that needed none is looked at again after this, while it is in use. */
  backfillAgainMs: 600_000,

  // Models that write (ai/assistant, service/memory/ask, service/memory/extract)
  /** Calls of one model under way; each waits for seconds, and they must not take all of the node's places. */
  assistantCallsMax: 64,
  /** Attempts of one call, within its time. */
  assistantAttemptsMax: 3,
  /** The longest pause before the second attempt; it doubles with each. */
  assistantBackoffMs: 500,
  /** An answer of the provider, whatever is in it. */
  assistantAnswerBytesMax: 1 * MiB,
  /** What a model may write for one question, and for one extraction: its thinking counts too. */
  askTokensMax: 8_192,
  extractTokensMax: 16_384,
  /** Content of one memory as a model sees it; a longer one is cut. */
  askContentBytesMax: 16 * KiB,
  /** All memories as a model sees them, about 60,000 tokens; the less relevant ones are left out. */
  askMemoriesBytesMax: 256 * KiB,
  /** Turns of one extraction, and their JSON: about 60,000 tokens. */
  extractTurnsMax: 500,
  extractTurnsBytesMax: 256 * KiB,
} as const;
