/**
 * Bounds of how a node goes by clocks (base/trusted-time); part of `limits`.
 */
export const clockLimits = {
  /**
   * Clocks that differ by no more than this tell the same time. More than the steps of NTP, than what a slow answer
   * leaves open of a store's clock, and than nodes of a cluster differ; far less than anything is kept for.
   */
  clockSlackMs: 60_000,
  /** So long a time has to be told steadily before anything is removed for good by it, unless two clocks tell it. */
  clockSteadyMs: 3_600_000,
  /**
   * A machine that was suspended or switched off finds its clock ahead by as much as it was away. By more than this it
   * is taken for a wrong clock, also for what is written and shown.
   */
  clockJumpMsMax: 30 * 86_400_000,
  /** How often a node looks whether its clock was moved. */
  clockLookMs: 1_000,
  /** A node that was down for no longer than this goes by its clock at once, and an operator hears nothing of less. */
  clockToldMs: 3_600_000,
  /** How often a node notes what time it is: the next start knows then how far its clock was moved meanwhile. */
  clockNoteMs: 300_000,
} as const;
