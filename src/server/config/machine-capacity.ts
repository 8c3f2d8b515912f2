/**
 * How many databases and connections a node may have open, by the machine's descriptors and memory.
 *
 * Always true: what open databases, sockets and the store take together stays below what the process may have.
 */
import { readFileSync } from "node:fs";
import { limits } from "../../base/limits.ts";
import type { ListenerRoom } from "../wire/listener.ts";

/** What an open database is counted as in memory, so that handles never outgrow half of it. */
const hotHandleBytes = 512 * 1024;

/** Soft limit of open descriptors; what the platform does not tell is taken as the common least. */
export function descriptorsMax(): number {
  const soft = Number(readLinuxLimit() ?? readReportedLimit());
  return Number.isFinite(soft) && soft > 0 ? soft : 1024;
}

/** Linux tells it in a file; undefined elsewhere. */
function readLinuxLimit(): string | undefined {
  try {
    return /^Max open files +(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1"))?.[1];
  } catch {
    return undefined;
  }
}

/** Node tells it with all else that there is to tell of the process, which takes 10 ms. */
function readReportedLimit(): unknown {
  const report = process.report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } };
  return report.userLimits?.open_files?.soft;
}

/** Connections of one port: what open databases leave of the descriptors, but for a part that is the store's. */
export function connectionsAllowed(descriptorsMax: number): ListenerRoom {
  const connectionsMax = Math.max(16, Math.min(limits.connectionsMax, Math.floor(descriptorsMax * 0.15)));
  return { connectionsMax, connectionsPerAddressMax: Math.ceil(connectionsMax * limits.connectionsShareMax) };
}

/**
 * Handles a thread may hold: five descriptors each (file, log, its index, and the log again for our fsync and our
 * reading) with a fifth left for sockets and the store, and memory's share.
 */
export function hotHandlesAllowed(asked: number, descriptorsMax: number, memoryBytes: number, threads: number): number {
  const byDescriptors = Math.floor((descriptorsMax * 0.8) / 5);
  const byMemory = Math.floor((memoryBytes * 0.5) / hotHandleBytes);
  return Math.max(1, Math.floor(Math.min(asked, byDescriptors, byMemory) / threads));
}
