/**
 * Bounds of what a node tells its operators (server/observability/metrics, server/observability/tracing); part of
 * `limits`.
 */
export const operationsLimits = {
  /** How often a thread looks how late its timers are. */
  loopProbeMs: 100,
  /** An engine thread that does not say by then what it measures is left out of an answer. */
  measureMs: 1_000,
  /** Branches and databases that a thread counts as lost or put back; further ones stand in the log alone. */
  alarmsMax: 10_000,
  /** Ended spans that wait to be sent, about 1 KiB each; further ones are left out. */
  tracesWaitingMax: 4_096,
  /** Spans in one request to the collector, and how long they wait for it. */
  tracesSentMax: 512,
  tracesSendMs: 2_000,
  /** How long a stopping node tries to send what is left. */
  tracesDrainMs: 5_000,
} as const;
