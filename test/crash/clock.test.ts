/** A node in a process of its own that is started while its clock is wrong. */
import { expect, test } from "vitest";
import { clockAhead } from "../support/moved-clock.ts";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const day = 86_400;

test(
  "F42: a node that starts four days ahead removes nothing, says so, and is itself again when its clock is right",
  { timeout: 300_000 },
  async () => {
    const directory = temporaryDirectory();
    const told: string[] = [];
    async function at<Value>(aheadSecs: number, act: (node: NodeProcess) => Promise<Value>): Promise<Value> {
      const node = await startNodeProcess(directory, clockAhead(aheadSecs));
      try {
        return await act(node);
      } finally {
        await node.end("SIGTERM");
        told.push(node.log());
      }
    }
    const call = async (node: NodeProcess, method: string, path: string, body?: unknown): Promise<any> => {
      const { status, text, json } = await node.call(
        method,
        path,
        body,
        typeof body === "string" ? { "content-type": "text/plain" } : {},
      );
      expect(status, text).toBeLessThan(300);
      return json ?? text;
    };
    const burner = async (node: NodeProcess): Promise<readonly string[]> =>
      (await call(node, "GET", "/v1/db/d/branches")).branches.map(({ name }: { name: string }) => name);
    await at(0, async (node) => {
      await call(node, "POST", "/v1/databases", { name: "d" });
      await call(node, "PUT", "/v1/db/d/kv/n/one?ttl=259200", "1");
      await call(node, "POST", "/v1/db/d/branches", { name: "x", ttl: 3 * day });
      await call(node, "POST", "/v1/db/d/sync");
      expect(await burner(node)).toEqual(["main", "x"]);
      expect((await call(node, "GET", "/health/ready")).checks.clock).toBeUndefined();
    });
    await at(4 * day, async (node) => {
      // The first write of a node to a database is followed by a sweep.
      await call(node, "PUT", "/v1/db/d/kv/n/two", "2");
      expect((await node.call("GET", "/v1/db/d/kv/n/one")).status).toBe(404);
      expect(await burner(node)).toEqual(["main"]);
      expect(await call(node, "GET", "/health/ready")).toMatchObject({ ready: true, checks: { clock: "doubted" } });
      expect(await call(node, "GET", "/metrics")).toMatch(/^palimpsest_clock_ahead_seconds 3456\d\d/m);
      await new Promise((resolve) => setTimeout(resolve, 3_000));
      await call(node, "POST", "/v1/db/d/sync");
    });
    await at(0, async (node) => {
      expect(await burner(node)).toEqual(["main", "x"]);
      expect(await call(node, "GET", "/v1/db/d/kv/n/one")).toBe("1");
      expect(await call(node, "GET", "/v1/db/d/kv/n/two")).toBe("2");
      expect((await call(node, "GET", "/health/ready")).checks.clock).toBeUndefined();
    });
    expect(told.map((log) => log.includes("this node's clock was moved"))).toEqual([false, true, false]);
  },
);
