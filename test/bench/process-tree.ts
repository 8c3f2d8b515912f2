/** What the system says of a server, which may be many processes (Linux): processor time, memory, bytes on disk. */
import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** A clock tick of the system, in ms: 100 a second wherever Linux runs. */
const tickMs = 10;

interface Seen {
  readonly pid: number;
  readonly parent: number;
  /** Processor time so far with that of its children that have ended, in ms. */
  readonly cpuMs: number;
}

/** The fields of a line of `/proc/<pid>/stat` from the state on: the name before them may hold anything. */
function fieldsOf(stat: string): readonly string[] {
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

function findProcess(pid: number): Seen | undefined {
  try {
    const fields = fieldsOf(readFileSync(`/proc/${pid}/stat`, "utf8"));
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    return { pid, parent: Number(fields[1]), cpuMs: ticks * tickMs };
  } catch {
    // It has ended meanwhile.
    return undefined;
  }
}

function listTree(roots: readonly number[]): readonly Seen[] {
  const all = readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? (findProcess(Number(name)) ?? []) : []));
  const within = new Set(roots);
  // Parents may stand behind their children: once more until nothing is added.
  for (let size = -1; size !== within.size;) {
    size = within.size;
    for (const { pid, parent } of all) if (within.has(parent)) within.add(pid);
  }
  return all.filter(({ pid }) => within.has(pid));
}

/** The processes and all that they have started. */
export function listPids(roots: readonly number[]): readonly number[] {
  return listTree(roots).map(({ pid }) => pid);
}

/** Processor time of the tree so far, in ms. */
export function cpuMsOf(roots: readonly number[]): number {
  return listTree(roots).reduce((sum, { cpuMs }) => sum + cpuMs, 0);
}

/** Memory of the tree in MiB, shared pages divided among those that share them. */
export function memoryMiBOf(roots: readonly number[]): number {
  const kib = listPids(roots).map((pid) => {
    try {
      return Number(/^Pss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))?.[1] ?? 0);
    } catch {
      // It has ended meanwhile.
      return 0;
    }
  });
  return kib.reduce((sum, one) => sum + one, 0) / 1024;
}

/** Processor time of the whole machine so far, in ms, without what it was idle or waited for disks. */
export function busyMs(): number {
  const fields = readFileSync("/proc/stat", "utf8").split("\n", 1)[0]!.trim().split(/\s+/).slice(1).map(Number);
  const [user = 0, nice = 0, system = 0, , , irq = 0, softIrq = 0, steal = 0] = fields;
  return (user + nice + system + irq + softIrq + steal) * tickMs;
}

/** Bytes that the directory takes on its disk. */
export function diskBytesOf(directory: string): number {
  return readdirSync(directory, { recursive: true, encoding: "utf8" }).reduce((sum, name) => {
    try {
      return sum + lstatSync(join(directory, name)).blocks * 512;
    } catch {
      // It has been removed meanwhile.
      return sum;
    }
  }, 0);
}
