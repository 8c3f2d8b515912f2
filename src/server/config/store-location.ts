/**
 * Where a command that needs no node finds the objects: a URL as SERVICE_OBJECT_STORE takes it, and the standard
 * variables.
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { StoreLocation } from "../../store/open-store.ts";
import { readConfig, type Environment } from "./config.ts";
import { startRefusals } from "./start-checks.ts";

/** A place that outlives its process. */
export type LastingLocation = Exclude<StoreLocation, { kind: "memory" }>;

/** The location, or what is wrong with it. `isNew`: what is not there yet is made when it is opened. */
export function parseStoreLocation(env: Environment, url: string, isNew = false): LastingLocation | string {
  const standard = Object.fromEntries(Object.entries(env).filter(([variable]) => variable.startsWith("AWS_")));
  const reading = readConfig({ ...standard, SERVICE_OBJECT_STORE: url }, { pid: 0, cores: 1 });
  if ("problems" in reading) return reading.problems.join("\n  ");
  const [refusal] = startRefusals(reading.config);
  if (refusal !== undefined) return refusal;
  const { objectStore } = reading.config;
  if (objectStore.kind === "memory") return "mem:// holds nothing beyond its process";
  // Opening a directory of objects would create it.
  if (!isNew && objectStore.kind === "file" && !existsSync(objectStore.directory))
    return `there is no directory ${objectStore.directory}`;
  return objectStore;
}

/** The place as people name it, the same however it was given; without credentials, of which a location has none. */
export function formatLocation(location: LastingLocation): string {
  if (location.kind === "file") return `file://${resolve(location.directory)}`;
  const { bucket, prefix, endpoint } = location;
  const at = endpoint === undefined ? "" : ` at ${endpoint}`;
  return `s3://${bucket}${prefix === "" ? "" : `/${prefix}`}${at}`;
}

/** Whether one place lies within the other: what is written to the one would appear in the other. */
export function areNested(one: LastingLocation, other: LastingLocation): boolean {
  const [left, right] = [formatFolder(one), formatFolder(other)];
  return left.startsWith(right) || right.startsWith(left);
}

function formatFolder(location: LastingLocation): string {
  if (location.kind === "file") return `file ${resolve(location.directory)}/`;
  return `s3 ${location.endpoint ?? ""} ${location.bucket}/${location.prefix === "" ? "" : `${location.prefix}/`}`;
}
