/** The configuration of an environment, or what is wrong with it, on a machine that is always the same. */
import { readConfig, type Config, type Environment } from "../../src/server/config/config.ts";

export const host = { pid: 7, cores: 4 };

export function buildConfig(environment: Environment, machine = host): Config {
  const reading = readConfig(environment, machine);
  if ("config" in reading) return reading.config;
  throw new Error(reading.problems.join("; "));
}

export function listProblems(environment: Environment): readonly string[] {
  const reading = readConfig(environment, host);
  return "problems" in reading ? reading.problems : [];
}
