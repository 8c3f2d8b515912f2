/**
 * How many databases and connections a node may have open, by the machine's descriptors and memory.
 *
 * Always true: what open databases, sockets and the store take together stays below what the process may have.
 */
import { limits } from "../../base/limits.ts";
import type { ListenerRoom } from "../wire/listener.ts";

/** What an open database is counted as in memory, so that handles never outgrow half of it. */
const hotHandleBytes = 512 * 1024;

/** Soft limit of open descriptors; what the platform does not tell is taken as the common least. */
export function descriptorsMax(): number {
  const report = process.report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } };
  const soft = Number(report.userLimits?.open_files?.soft);
  return Number.isFinite(soft) && soft > 0 ? soft : 1024;
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
