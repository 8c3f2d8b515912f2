/** A real process that can be killed, and lose its databases, on object storage that outlives it. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { startNodeProcess, type NodeProcess } from "./node-process.ts";
import { restWire, type Wire } from "./wires.ts";

/** A real process on a directory that outlives it; killed with the test. */
export async function start(
  directory: string,
  variables: Record<string, string> = {},
): Promise<{ readonly node: NodeProcess; readonly wire: Wire }> {
  const node = await startNodeProcess(directory, { SERVICE_CONTROL_RATE: "100000", ...variables });
  onTestFinished(async () => {
    if (node.child.exitCode === null && node.child.signalCode === null) await node.end("SIGKILL");
  });
  return { node, wire: restWire(`http://127.0.0.1:${node.port}`) };
}

/** Kills the process, takes the node's databases away and starts it again on the same object storage. */
export async function loseNode(
  node: NodeProcess,
  directory: string,
  variables: Record<string, string> = {},
): Promise<{ readonly node: NodeProcess; readonly wire: Wire }> {
  await node.end("SIGKILL");
  rmSync(join(directory, "db"), { recursive: true });
  return start(directory, variables);
}
