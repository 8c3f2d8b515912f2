/** The suites that need more than npm: they run in the gate (`.ci/run`), which brings what they need. */

/** Whether this run is the gate, in which nothing may be skipped. */
export const inGate = process.env["PALIMPSEST_GATE"] === "1";

/** A tool that the gate has prepared and named by a variable; missing, the test fails instead of skipping. */
export function gateTool(variable: string): string {
  const path = process.env[variable];
  if (!path) throw new Error(`${variable} names no tool; run .ci/run, which prepares it`);
  return path;
}
