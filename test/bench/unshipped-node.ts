/**
 * A node that ships nothing to object storage, to measure beside one that does. Otherwise the same as `palimpsest
 * serve`.
 */
process.env["UV_THREADPOOL_SIZE"] ??= "16";

const { availableParallelism } = await import("node:os");
const { jsonLog } = await import("../../src/base/log.ts");
const { readConfig } = await import("../../src/server/config/config.ts");
const { startNode } = await import("../../src/server/node/compose.ts");

const reading = readConfig(process.env, { pid: process.pid, cores: availableParallelism() });
if ("problems" in reading) throw new Error(reading.problems.join("; "));
const node = await startNode(reading.config, jsonLog("info", process.stderr), { shipping: false });
process.once("SIGTERM", () => void node.close().then(() => process.exit(0)));

export {};
