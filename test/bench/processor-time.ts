/** What processes have used of the processors, as the kernel counts it. */
import { readFileSync } from "node:fs";

/** Of the kernel's clock in /proc, the same on every common Linux. */
const ticksPerSecond = 100;

/** Processor time that the processes have used, user's and system's. */
export function cpuSeconds(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => {
    // The name in parentheses may hold anything; user and system time are the 12th and 13th field behind it.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ");
    return sum + (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
  }, 0);
}
