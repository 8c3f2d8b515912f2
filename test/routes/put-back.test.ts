/**
 * What an operator sees of a node whose object storage was put back to an older state: refusals, readiness, metrics,
 * and the way out.
 */
import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { listQuarantine } from "../../src/engine/local/quarantine.ts";
import { readMetrics, sumSamples } from "../support/metrics-text.ts";
import { startService, type Service } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const durable = { "service-durability": "durable" };

async function readCounter(node: Service, name: string): Promise<number> {
  return sumSamples(readMetrics((await node.call("GET", "/metrics")).text), `palimpsest_${name}`);
}

async function checks(node: Service): Promise<Record<string, string>> {
  const { status, json } = await node.call("GET", "/health/ready");
  expect({ status, ready: json.ready }).toEqual({ status: 200, ready: true });
  return json.checks;
}

test(
  "F40: older object storage is refused, the node stays ready, and what is accepted is set aside",
  { timeout: 60_000 },
  async () => {
    // The refusal is told; what is set aside is counted and listed.
    const directory = temporaryDirectory();
    const older = temporaryDirectory();
    const put = (node: Service, key: string): ReturnType<Service["call"]> =>
      node.call("PUT", `/v1/db/a/kv/n/${key}`, { value: "x" }, durable);
    const keys = async (node: Service): Promise<unknown> => (await node.call("GET", "/v1/db/a/kv/n")).json;

    let node = await startService({}, directory);
    expect((await node.call("POST", "/v1/databases", { name: "a" })).status).toBe(201);
    expect((await put(node, "k1")).status).toBeLessThan(300);
    const before = await keys(node);
    await node.close();
    cpSync(join(directory, "objects"), older, { recursive: true });

    node = await startService({}, directory);
    expect((await put(node, "k2")).status).toBeLessThan(300);
    const quiet = await checks(node);
    expect(Object.keys(quiet).filter((name) => name.startsWith("storage") || name === "quarantine")).toEqual([]);
    await node.close();
    rmSync(join(directory, "objects"), { recursive: true });
    cpSync(older, join(directory, "objects"), { recursive: true });

    node = await startService({}, directory);
    for (const answer of [await node.call("GET", "/v1/db/a/kv/n"), await put(node, "k3")]) {
      expect(answer.status).toBe(503);
      expect(answer.text).toContain("--accept-rollback");
    }
    expect(await checks(node)).toMatchObject({ storage_put_back: expect.stringContaining("1 older") });
    expect(await readCounter(node, "storage_put_back")).toBe(1);
    // Other databases are none the worse for it.
    expect((await node.call("POST", "/v1/databases", { name: "b" })).status).toBe(201);
    expect((await node.call("PUT", "/v1/db/b/kv/n/k", { value: "x" }, durable)).status).toBeLessThan(300);
    await node.close();
    expect(listQuarantine(directory)).toEqual([]);

    node = await startService({ SERVICE_ACCEPT_ROLLBACK: "all" }, directory);
    expect(await keys(node)).toEqual(before);
    expect(await checks(node)).toMatchObject({ quarantine: expect.stringContaining("1 set aside") });
    expect(await readCounter(node, "quarantined_files")).toBe(1);
    expect(listQuarantine(directory)).toMatchObject([
      { label: { branchId: "main", why: expect.stringContaining("accepted") } },
    ]);
    await node.close();

    node = await startService({}, directory);
    expect(await keys(node)).toEqual(before);
    expect((await put(node, "k4")).status).toBeLessThan(300);
    await node.close();
  },
);
