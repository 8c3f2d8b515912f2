/**
 * The clients while the node that writes is killed: through one address that stands before two nodes, nothing durable
 * is lost, nothing is done twice, each reads what it wrote, and the change feed has no gap and no repeat.
 */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Cluster, clusterNeed, eventually, hasCluster } from "../support/cluster.ts";
import { Front } from "../support/front.ts";
import { gateTool, inGate } from "../support/gate.ts";

const resolvePath = (relative: string): string => fileURLToPath(new URL(`../../${relative}`, import.meta.url));

/** What a program found; see test/support/failing-over.ts. */
interface Found {
  readonly kept: readonly string[];
  readonly stale: readonly number[];
  readonly told: readonly Told[];
  readonly lost: readonly (readonly Told[])[];
}

type Told = readonly [afterTxid: number, txid: number, turns: readonly number[]];

const programs: Readonly<Record<string, () => readonly [string, string]>> = {
  typescript: () => [process.execPath, resolvePath("test/support/failing-over.ts")],
  python: () => [gateTool("PALIMPSEST_PYTHON"), resolvePath("test/clients/python/failing_over.py")],
};

/** No gap, no repeat, in order; gives the turns that were told. */
function checkTold(told: readonly Told[]): readonly number[] {
  let position = 0;
  for (const [after, txid] of told) {
    expect(after).toBe(position);
    expect(txid).toBeGreaterThan(position);
    position = txid;
  }
  return told.flatMap(([, , turns]) => turns);
}

/** Runs a program, and lets it be talked with line by line. */
function start(name: string, address: string, db: string) {
  const [program, script] = programs[name]!();
  const child = spawn(program, [script, address, db], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, PYTHONPATH: resolvePath("clients/python/src") },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines: string[] = [];
  let hear = (): void => undefined;
  createInterface({ input: child.stdout }).on("line", (line) => {
    lines.push(line);
    hear();
  });
  child.once("close", () => hear());
  const until = async (line: string): Promise<void> => {
    while (!lines.includes(line)) {
      if (child.exitCode !== null) throw new Error(`${name} ended with ${child.exitCode} after ${lines.at(-1)}`);
      await new Promise<void>((resolve) => (hear = resolve));
    }
  };
  const end = async (): Promise<Found> => {
    while (!lines.at(-1)?.startsWith("{")) {
      if (child.exitCode !== null) throw new Error(`${name} ended with ${child.exitCode} after ${lines.at(-1)}`);
      await new Promise<void>((resolve) => (hear = resolve));
    }
    return JSON.parse(lines.at(-1)!) as Found;
  };
  return { until, end, tell: (line: string) => child.stdin.write(`${line}\n`) };
}

describe.skipIf(!hasCluster || !inGate)(`clients of a cluster${clusterNeed}`, { timeout: 300_000 }, () => {
  let cluster: Cluster;
  let front: Front;
  beforeAll(async () => {
    cluster = await Cluster.start({ nodes: 2, variables: { SERVICE_REQUEST_TIMEOUT: "5" } });
    front = await Front.open(cluster.nodes.map(({ port }) => port));
  }, 120_000);
  afterAll(async () => {
    await front?.close();
    await cluster?.end();
  });

  test.each(Object.keys(programs))("%s: two writers are killed, and nothing is lost, stale or twice", async (name) => {
    onTestFinished(() => cluster.heal());
    const { json } = await cluster.nodes[0]!.call("POST", "/v1/databases", { name: `clients-${name}` });
    const { uuid } = json as { uuid: string };
    const running = start(name, front.address, `clients-${name}`);

    // In the midst of its writes: what was on its way is made again, at another node.
    await running.until("wrote 15");
    const first = await cluster.findOwner(uuid);
    await first.kill();
    await running.until("wrote 25");
    await first.start();
    await running.until("resting");
    await cluster.whole();

    // While it rests: all that was told is durable, and the feed goes on behind it.
    const second = await eventually(20_000, () => cluster.findOwner(uuid));
    expect(second).not.toBe(first);
    await second.kill();
    running.tell("go");

    const { kept, stale, told, lost } = await running.end();
    const expected = Array.from({ length: 60 }, (_, n) => `turn ${n}`);
    expect(kept).toEqual(expected);
    expect(stale).toEqual([]);
    expect(checkTold(told)).toEqual(expected.map((_, n) => n + 1));
    // A reader that had been told of what was not durable yet is told that it was lost, once, at the first kill.
    expect(lost.length).toBeLessThanOrEqual(1);
    for (const before of lost) expect(checkTold(before).length).toBeLessThan(30);
  });
});
