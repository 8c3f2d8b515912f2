/** Where a command that needs no node finds the objects: a URL as SERVICE_OBJECT_STORE takes it, and the standard variables. */
import { existsSync } from "node:fs";
import type { StoreLocation } from "../store/open-store.ts";
import { readConfig, type Environment } from "./config.ts";
import { startRefusals } from "./start-checks.ts";

/** The location, or what is wrong with it. */
export function storeLocationOf(env: Environment, url: string): Exclude<StoreLocation, { kind: "memory" }> | string {
  const standard = Object.fromEntries(Object.entries(env).filter(([variable]) => variable.startsWith("AWS_")));
  const reading = readConfig({ ...standard, SERVICE_OBJECT_STORE: url }, { pid: 0, cores: 1 });
  if ("problems" in reading) return reading.problems.join("\n  ");
  const [refusal] = startRefusals(reading.config);
  if (refusal !== undefined) return refusal;
  const { objectStore } = reading.config;
  if (objectStore.kind === "memory") return "mem:// holds nothing beyond its process";
  // Opening a directory of objects would create it.
  if (objectStore.kind === "file" && !existsSync(objectStore.directory)) return `there is no directory ${objectStore.directory}`;
  return objectStore;
}
