/**
 * What the boundary of user SQL costs: a small SELECT and a small INSERT beside a key-value put and get of the same
 * node, in turn; and a process itself.
 */
import { join } from "node:path";
import { startNodeProcess } from "../support/node-process.ts";
import { listSqlProcesses } from "../support/processes.ts";
import { readFileSync } from "node:fs";
import { median, openClient, quantile } from "./raw-client.ts";
import { report, type Row } from "./report.ts";

const warmCalls = 300;
const calls = 2_000;
const statement = (q: string): string => JSON.stringify({ stmts: [{ q, params: [1] }] });

/** Each act in turn, so that all meet the same moments of the machine. */
export async function benchSql(directory: string): Promise<void> {
  const node = await startNodeProcess(join(directory, "sql"));
  const client = await openClient("node", node.port);
  const acts: readonly (readonly [what: string, method: string, path: string, body: string | undefined])[] = [
    ["key-value get", "GET", "/v1/db/one/kv/n/k", undefined],
    ["SELECT of one row", "POST", "/v1/db/one/sql", statement("SELECT v FROM t WHERE n = ?")],
    ["key-value put", "PUT", "/v1/db/one/kv/n/k", "value"],
    ["INSERT of one row", "POST", "/v1/db/one/sql", statement("INSERT INTO t (v) VALUES (?)")],
  ];
  const firstMs = performance.now();
  await node.call("POST", "/v1/databases", { name: "one" });
  await node.call("POST", "/v1/db/one/sql", {
    stmts: [{ q: "CREATE TABLE t (n INTEGER PRIMARY KEY, v)" }, { q: "INSERT INTO t (v) VALUES (1)" }],
  });
  const coldMs = performance.now() - firstMs;
  await node.call("PUT", "/v1/db/one/kv/n/k", "value", { "content-type": "text/plain" });
  const times = acts.map((): number[] => []);
  for (let call = 0; call < warmCalls + calls; call++) {
    for (const [at, [, method, path, body]] of acts.entries()) {
      const sentAt = performance.now();
      const { status } = await client.send(method, path, body);
      if (status >= 300) throw new Error(`status ${status}`);
      if (call >= warmCalls) times[at]!.push(performance.now() - sentAt);
    }
  }
  const rows = acts.map(([what], at): Row => {
    const sorted = times[at]!.toSorted((a, b) => a - b);
    const beside =
      at % 2 === 1
        ? `${median(times[at]!.map((ms, call) => ms / times[at - 1]![call]!)).toFixed(2)} times ` +
          `the ${acts[at - 1]![0]}, median of pairs`
        : "";
    return { what, p50Ms: quantile(sorted, 0.5), p99Ms: quantile(sorted, 0.99), note: beside };
  });
  const resident = listSqlProcesses(node.child.pid!).map(
    ({ pid }) => Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) / 1024,
  );
  rows[1]!.note +=
    `; the first statement of a node ${coldMs.toFixed(0)} ms, a ` +
    `process ${Math.max(...resident).toFixed(0)} MiB of its own`;
  client.close();
  await node.end("SIGTERM");
  report(`User SQL in processes of its own, 1 client (${calls} calls each, in turn)`, rows);
}
