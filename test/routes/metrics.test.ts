/** `/metrics` of a real node: who may read it, and whether what clients do shows. */
import { expect, onTestFinished, test } from "vitest";
import { startNode } from "../../src/server/node/compose.ts";
import { silentLog } from "../../src/base/log.ts";
import { metricsType } from "../../src/server/observability/metrics.ts";
import { startAssistantServer } from "../support/assistant-server.ts";
import { assistedBy } from "../support/assisted-service.ts";
import { bearer, guardedVariables, platformKey } from "../support/credentials.ts";
import { startGuarded } from "../support/guarded-service.ts";
import { readMetrics, sumSamples, type MetricFamily } from "../support/metrics-text.ts";
import { buildConfig, ok, startService, type Service } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { wireNames } from "../support/wires.ts";

type Metrics = ReadonlyMap<string, MetricFamily>;

async function fetchMetrics(service: Service, headers: Record<string, string> = {}): Promise<Metrics> {
  const { status, headers: given, text } = await service.call("GET", "/metrics", undefined, headers);
  expect(status, text).toBe(200);
  expect(given.get("content-type")).toBe(metricsType);
  return readMetrics(text);
}

const onBoth = test.each(wireNames);

test("it is the operator's: the platform key opens it, on the operators' own port nobody is asked", async () => {
  const running = await startNode(
    buildConfig(temporaryDirectory(), { ...guardedVariables, SERVICE_ADMIN_LISTEN: "127.0.0.1:0" }),
    silentLog,
  );
  onTestFinished(() => running.close());
  const get = (address: string, credential?: string): Promise<number> =>
    fetch(`${address}/metrics`, { headers: bearer(credential) }).then(({ status }) => status);
  const minted = await fetch(`${running.address}/v1/namespaces/acme/tokens`, {
    method: "POST",
    headers: { ...bearer(platformKey), "content-type": "application/json" },
    body: '{"scope":"admin"}',
  });
  const { token } = (await minted.json()) as { token: string };
  expect(
    await Promise.all([undefined, "garbage", token, platformKey].map((credential) => get(running.address, credential))),
  ).toEqual([401, 401, 403, 200]);
  expect(await get(running.adminAddress!)).toBe(200);
  expect((await fetch(`${running.adminAddress!}/metrics`, { method: "POST" })).status).toBe(405);
});

onBoth(
  "over %s what clients do shows: requests by endpoint, wire and code, their time, groups, writes, fsyncs, shipping",
  async (name) => {
    const service = await startService({ SERVICE_SPARE_DATABASES: "0" });
    onTestFinished(() => service.close());
    const wire = service.wire(name);
    const db = await service.database();
    for (const key of ["a", "b", "c"])
      await ok(wire.call("DataService.PutValue", { db, ns: "n", key, value: Buffer.from(key) }));
    await wire.call("DataService.GetValue", { db, ns: "n", key: "absent" });
    await ok(wire.call("DataService.Sync", { db }));
    const metrics = await fetchMetrics(service);
    const sum = (metric: string, labels: Record<string, string> = {}, part = ""): number =>
      sumSamples(metrics, `palimpsest_${metric}`, labels, `palimpsest_${metric}${part}`);
    const side = name === "rest" ? "rest" : "rpc";
    expect(sum("requests_total", { endpoint: "DataService.PutValue", wire: side, code: "ok" })).toBe(3);
    expect(sum("requests_total", { endpoint: "DataService.GetValue", wire: side, code: "not_found" })).toBe(1);
    expect(sum("request_seconds", { endpoint: "DataService.PutValue", wire: side }, "_count")).toBe(3);
    expect(sum("request_seconds", { endpoint: "DataService.PutValue", wire: side }, "_sum")).toBeGreaterThan(0);
    expect([sum("requests_running"), sum("calls_running"), sum("calls_waiting")]).toEqual([0, 0, 0]);
    expect([
      sum("engine_up"),
      sum("write_groups_total"),
      sum("writes_total"),
      sum("databases_open"),
      sum("databases_opened_total"),
    ]).toEqual([1, 3, 3, 1, 1]);
    expect(sum("disk_sync_seconds", {}, "_count")).toBeGreaterThanOrEqual(3);
    expect([
      sum("unshipped_txids"),
      sum("unshipped_bytes"),
      sum("unshipped_age_seconds"),
      sum("write_queue_waiting"),
    ]).toEqual([0, 0, 0, 0]);
    expect(sum("heads_landed_total")).toBe(
      sum("store_requests_total", { operation: "put", object: "head", outcome: "ok" }),
    );
    expect(sum("shipped_bytes_total")).toBeGreaterThan(0);
    expect([sum("lease_live"), sum("leases_held"), sum("forwarded_calls_total"), sum("replicas_open")]).toEqual([
      1, 0, 0, 0,
    ]);
    expect(sum("process_resident_memory_bytes")).toBeGreaterThan(1_000_000);
    expect(sum("process_cpu_seconds_total")).toBeGreaterThan(0);
    // Ten times a second, and all of the above may take less.
    await expect
      .poll(async () =>
        sumSamples(
          await fetchMetrics(service),
          "palimpsest_loop_delay_seconds",
          { thread: "engine-0" },
          "palimpsest_loop_delay_seconds_count",
        ),
      )
      .toBeGreaterThan(0);
  },
);

test("what object storage does not cover yet shows with its age", async () => {
  const service = await startService();
  onTestFinished(() => service.close());
  const db = await service.database();
  await service.call("PUT", `/v1/db/${db}/kv/n/a`, "a");
  await service.call("POST", `/v1/db/${db}/sync`);
  await service.call("PUT", `/v1/db/${db}/kv/n/b`, "b");
  const metrics = await fetchMetrics(service);
  // It is shipped within a second, and asking takes a few milliseconds.
  expect(sumSamples(metrics, "palimpsest_unshipped_txids")).toBe(1);
  expect(sumSamples(metrics, "palimpsest_unshipped_bytes")).toBeGreaterThan(0);
  expect(sumSamples(metrics, "palimpsest_unshipped_age_seconds")).toBeGreaterThan(0);
  expect(sumSamples(metrics, "palimpsest_unshipped_age_seconds")).toBeLessThan(2);
});

test("429s and requests for nothing are counted, and scrapes are not", async () => {
  const service = await startService({ SERVICE_CONTROL_RATE: "1" });
  onTestFinished(() => service.close());
  const statuses = await Promise.all(
    Array.from({ length: 6 }, () => service.call("GET", "/v1/databases").then(({ status }) => status)),
  );
  const shed = statuses.filter((status) => status === 429).length;
  expect(shed).toBeGreaterThan(0);
  expect((await service.call("GET", "/v1/nothing/of/the/kind")).status).toBe(404);
  await fetchMetrics(service);
  const metrics = await fetchMetrics(service);
  expect(sumSamples(metrics, "palimpsest_requests_total", { code: "overloaded" })).toBe(shed);
  expect(sumSamples(metrics, "palimpsest_requests_total", { endpoint: "none", code: "not_found" })).toBe(1);
  expect(sumSamples(metrics, "palimpsest_requests_total")).toBe(statuses.length + 1);
});

test("what leaves for a model shows by use, provider and outcome, also where no audit stream is kept", async () => {
  const server = await startAssistantServer();
  const service = await startService(assistedBy(server));
  onTestFinished(() => service.close());
  await service.call("POST", "/v1/memory/acme/alice/memories", {
    memories: [{ type: "fact", summary: "Alice has a cat", content: null }],
  });
  server.say({ json: { answer: "A cat.", sources: [] } });
  expect((await service.call("POST", "/v1/memory/acme/alice/ask", { question: "which animal has Alice" })).status).toBe(
    200,
  );
  await service.call("PUT", "/v1/namespaces/closed/policy", { policy: { ai_egress: { extract: "deny" } } });
  expect(
    (await service.call("POST", "/v1/memory/closed/bob/extract", { turns: [{ role: "user", content: "words" }] }))
      .status,
  ).toBe(403);
  const metrics = await fetchMetrics(service);
  expect(
    sumSamples(metrics, "palimpsest_egress_requests_total", { use: "ask", provider: "anthropic", outcome: "ok" }),
  ).toBe(1);
  expect(sumSamples(metrics, "palimpsest_egress_items_total", { use: "ask", outcome: "ok" })).toBe(1);
  expect(sumSamples(metrics, "palimpsest_egress_bytes_total", { use: "ask", outcome: "ok" })).toBeGreaterThan(10);
  expect(sumSamples(metrics, "palimpsest_egress_requests_total", { use: "extract", outcome: "denied" })).toBe(1);
  expect(sumSamples(metrics, "palimpsest_egress_bytes_total", { use: "extract" })).toBe(0);
});

test("no name, key or credential of anybody stands in it", async () => {
  const { service, create, call, mint } = await startGuarded();
  onTestFinished(() => service.close());
  await create("hidden-database");
  const token = await mint({ ns: "hidden-namespace" }, "write");
  await call(token, "POST", "/v1/memory/hidden-namespace/hidden-profile/memories", {
    memories: [{ type: "fact", topic_key: "hidden-topic", summary: "hidden words", content: null }],
  });
  await call("hidden-credential", "GET", "/v1/db/hidden-database/kv/hidden/hidden");
  await call(token, "GET", "/hidden/path");
  const { text } = await call(platformKey, "GET", "/metrics");
  expect(text).toContain("palimpsest_requests_total{");
  expect(text).not.toMatch(/hidden/);
  expect(text).not.toContain(token.split(".")[2]);
  expect(text).not.toMatch(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}/);
});
