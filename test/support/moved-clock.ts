/**
 * Loaded into a node's process before anything else (`NODE_OPTIONS=--import …`), its threads included: its wall clock
 * is ahead by as many seconds as TEST_CLOCK_AHEAD_SECS says. Timers and the monotonic clock run as ever.
 */
const aheadMs = Number(process.env["TEST_CLOCK_AHEAD_SECS"] ?? 0) * 1_000;
const now = Date.now;
Date.now = () => now() + aheadMs;

/** The variables of a node whose wall clock is ahead. */
export function clockAhead(secs: number): Record<string, string> {
  return { NODE_OPTIONS: `--import ${import.meta.filename}`, TEST_CLOCK_AHEAD_SECS: String(secs) };
}
