/** Processes of a process as the system shows them (Linux): who there is, and what they burn. */
import { readdirSync, readFileSync } from "node:fs";

interface Seen {
  readonly pid: number;
  readonly parent: number;
  readonly state: string;
  /** Processor time so far, in ms. */
  readonly cpuMs: number;
}

/** A clock tick of the system, in ms: 100 a second wherever Linux runs. */
const tickMs = 10;

function seen(pid: number): Seen | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name stands in parentheses and may hold anything.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return {
      pid,
      state: fields[0]!,
      parent: Number(fields[1]),
      cpuMs: (Number(fields[11]) + Number(fields[12])) * tickMs,
    };
  } catch {
    // It has ended meanwhile.
    return undefined;
  }
}

/** Whether the process is there and not only its remains. */
export function isAlive(pid: number): boolean {
  const found = seen(pid);
  return found !== undefined && found.state !== "Z" && found.state !== "X";
}

/** Processes that the process has started and that run user SQL. */
export function listSqlProcesses(parent: number): readonly Seen[] {
  const pids = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
  return pids.flatMap((pid) => {
    const found = seen(pid);
    return found?.parent === parent &&
      isAlive(pid) &&
      readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("sql-child")
      ? [found]
      : [];
  });
}

/** Processor time that those processes use in so long, in ms; those that end in it count until then. */
export async function burntBy(parent: number, forMs: number): Promise<number> {
  const before = new Map(listSqlProcesses(parent).map(({ pid, cpuMs }) => [pid, cpuMs]));
  await new Promise((resolve) => setTimeout(resolve, forMs));
  return listSqlProcesses(parent).reduce(
    (sum, { pid, cpuMs }) => sum + (before.has(pid) ? cpuMs - before.get(pid)! : 0),
    0,
  );
}
