/** Spans and trace ids, from the request of a client to the collector and the log. */
import { PassThrough } from "node:stream";
import { expect, onTestFinished, test } from "vitest";
import { jsonLog, silentLog } from "../../src/base/log.ts";
import { parseTraceparent, formatTraceparent } from "../../src/base/trace.ts";
import { realWorld } from "../../src/base/world.ts";
import { ServiceError } from "../../src/base/faults/errors.ts";
import { Tracing, tracesSentMax, tracesDrainMs } from "../../src/server/observability/tracing.ts";
import type { TracingSettings } from "../../src/server/config/tracing-settings.ts";
import { endpoints } from "../../src/service/call/methods.ts";
import type { ForwardedCall, PeerHost, Peers } from "../../src/service/placement/peers.ts";
import { platformKey } from "../support/credentials.ts";
import { openEcho } from "../support/echo-node.ts";
import { startGuarded } from "../support/guarded-service.ts";
import { buildCall } from "../support/peer-node.ts";
import { ok, startService } from "../support/service.ts";
import { startCollector, type CollectedSpan, type TraceCollector } from "../support/trace-collector.ts";
import { grpcWire, restWire, wireNames } from "../support/wires.ts";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const spanId = "b7ad6b7169203331";
const traceparent = `00-${traceId}-${spanId}-01`;
const onBoth = test.each(wireNames);

function named(spans: readonly CollectedSpan[], name: string): CollectedSpan {
  const found = spans.filter((span) => span.name === name);
  expect(found.map((span) => span.name)).toEqual([name]);
  return found[0]!;
}

function buildSettings({ address }: TraceCollector): TracingSettings {
  return { address: `${address}/v1/traces`, serviceName: undefined, sampling: { followsCaller: true, ratio: 1 } };
}

const sentTo = (collector: TraceCollector): Record<string, string> => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.address}/`,
});

onBoth(
  "over %s a request has a server span under the caller's, and spans for its calls of the engine under that",
  async (name) => {
    const collector = await startCollector();
    const service = await startService({ ...sentTo(collector), OTEL_SERVICE_NAME: "memory-of-acme" });
    const db = await service.database();
    collector.spans.length = 0;
    await ok(
      service
        .wire(name)
        .call("DataService.PutValue", { db, ns: "n", key: "k", value: Buffer.from("v") }, { traceparent }),
    );
    await service.close();
    const spans = collector.spans.filter((span) => span.traceId === traceId);
    const request = named(spans, "DataService.PutValue");
    expect(request).toMatchObject({ parentSpanId: spanId, kind: 2, status: 0 });
    expect(request.attributes).toEqual(
      name === "rest"
        ? {
            "http.request.method": "PUT",
            "http.route": "/v1/db/{db}/kv/{ns}/{key}",
            "http.response.status_code": 200,
            "palimpsest.code": "ok",
          }
        : {
            "rpc.system.name": "grpc",
            "rpc.method": "palimpsest.v1.DataService/PutValue",
            "rpc.response.status_code": "OK",
            "palimpsest.code": "ok",
          },
    );
    expect(named(spans, "engine write kv.put")).toMatchObject({
      parentSpanId: request.spanId,
      kind: 1,
      attributes: { "palimpsest.code": "ok" },
    });
    expect(request.resource).toMatchObject({
      "service.name": "memory-of-acme",
      "service.instance.id": expect.stringMatching(/^[0-9A-Z]{26}$/),
    });
    expect(new Set(collector.paths)).toEqual(new Set(["/v1/traces"]));
  },
);

test("a request without a trace begins one; only the node's own faults are errors of its span", async () => {
  const collector = await startCollector();
  const service = await startService({
    OTEL_TRACES_EXPORTER: "otlp",
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.address}/own/path`,
  });
  await service.call("GET", "/v1/db/none/kv/n/k");
  await service.call("POST", "/v1/memory/acme/alice/ask", { question: "what" });
  await service.close();
  const refused = named(collector.spans, "DataService.GetValue");
  expect(refused.parentSpanId).toBeUndefined();
  expect(refused.traceId).toMatch(/^[0-9a-f]{32}$/);
  expect(refused).toMatchObject({
    status: 0,
    attributes: { "http.response.status_code": 404, "palimpsest.code": "database_not_found" },
  });
  expect(named(collector.spans, "MemoryService.Ask")).toMatchObject({
    status: 2,
    attributes: { "http.response.status_code": 503, "error.type": "unconfigured" },
    resource: { "service.name": "palimpsest" },
  });
  expect(new Set(collector.paths)).toEqual(new Set(["/own/path"]));
});

test("what the caller does not sample, or the node is told not to, is not sent", async () => {
  const collector = await startCollector();
  const service = await startService(sentTo(collector));
  await service.call("GET", "/v1/databases", undefined, { traceparent: traceparent.replace(/01$/, "00") });
  await service.call("GET", "/v1/databases");
  await service.close();
  expect(collector.spans.map(({ name }) => name)).toEqual(["ControlService.ListDatabases"]);
  expect(collector.spans[0]!.traceId).not.toBe(traceId);
  const silent = await startService({ ...sentTo(collector), OTEL_TRACES_SAMPLER: "always_off" });
  await silent.call("GET", "/v1/databases", undefined, { traceparent });
  await silent.close();
  expect(collector.spans).toHaveLength(1);
});

test("no content, credential, name or key ever stands in what a collector gets", async () => {
  const collector = await startCollector();
  const { service, mint, call, create } = await startGuarded(sentTo(collector));
  await create("hidden-database");
  const token = await mint({ db: "hidden-database" }, "admin");
  const inside = (method: string, path: string, body?: unknown): ReturnType<typeof call> =>
    call(token, method, `/v1/db/hidden-database${path}`, body);
  expect((await inside("PUT", "/kv/hidden-space/hidden-key", "hidden-value")).status).toBe(200);
  expect(
    (
      await inside("POST", "/sql", {
        stmts: [{ q: "CREATE TABLE hidden_table (a)" }, { q: "SELECT hidden_column FROM hidden_table" }],
      })
    ).status,
  ).toBe(400);
  expect(
    (await inside("POST", "/docs/hidden-collection/find", { filter: { hidden_field: "hidden_words" } })).status,
  ).toBe(200);
  expect((await call("hidden-credential", "GET", "/v1/db/hidden-database/kv/hidden-space/hidden-key")).status).toBe(
    401,
  );
  await service.close();
  expect(collector.spans.length).toBeGreaterThan(6);
  const sent = [...collector.bodies, JSON.stringify(collector.headers)].join("\n");
  expect(sent).not.toMatch(/hidden/i);
  for (const secret of [platformKey, ...token.split(".").filter((part) => part.length > 20)])
    expect(sent).not.toContain(secret);
});

/** Ends a few spans and stops, as a node does; gives what the log was told and how long the stop took. */
async function stopWith(
  collector: TraceCollector,
): Promise<{ readonly said: readonly string[]; readonly tookMs: number }> {
  const said: string[] = [];
  const world = realWorld();
  const tracing = new Tracing({
    settings: buildSettings(collector),
    world,
    log: { ...silentLog, warn: (message) => said.push(message) },
    nodeId: "n",
    nodeName: "n1",
  });
  for (let number = 0; number < tracesSentMax * 2; number++)
    tracing.begin(endpoints[0]!, "rest", undefined).end("ok", undefined);
  const startMs = world.monotonicMs();
  await tracing.close();
  return { said, tookMs: world.monotonicMs() - startMs };
}

test("a collector that takes nothing is told to the log once", async () => {
  const collector = await startCollector();
  collector.status = 400;
  const { said } = await stopWith(collector);
  expect(collector.bodies.length).toBeGreaterThan(1);
  expect(said).toEqual([expect.stringContaining("collector")]);
});

test("a collector that does not answer holds up a stopping node no longer than is allowed", async () => {
  const collector = await startCollector();
  collector.status = 0;
  const { said, tookMs } = await stopWith(collector);
  expect(tookMs).toBeLessThan(tracesDrainMs + 1_000);
  expect(said).toEqual([expect.stringContaining("last traces")]);
});

test("nothing is sent where nobody asks for it", async () => {
  const collector = await startCollector();
  for (const variables of [
    {},
    { ...sentTo(collector), OTEL_SDK_DISABLED: "true" },
    { ...sentTo(collector), OTEL_TRACES_EXPORTER: "none" },
  ] as Record<string, string>[]) {
    const service = await startService(variables);
    expect((await service.call("GET", "/v1/databases", undefined, { traceparent })).status).toBe(200);
    await service.close();
  }
  expect(collector.bodies).toEqual([]);
});

test("a forwarded call's spans hang together: the request's, the sender's, the receiver's", async () => {
  const collector = await startCollector();
  const tracing = new Tracing({
    settings: buildSettings(collector),
    world: realWorld(),
    log: silentLog,
    nodeId: "n",
    nodeName: "n1",
  });
  const received: ForwardedCall[] = [];
  const host: PeerHost = {
    serve: async (call) => {
      received.push(call);
      throw new ServiceError("unavailable", "down");
    },
    followed: () => () => {},
    hinted() {},
    nudged() {},
  };
  const peers: Peers = {
    forward: (_address, call) => tracing.host(host).serve(call),
    follow() {},
    nudge() {},
    close: async () => {},
  };
  const call = buildCall({
    target: { uuid: "hidden-uuid", branch: "hidden-branch" },
    call: { kind: "read", command: "kv.get", input: { key: "hidden-key" } },
    traceparent,
  });
  await expect(tracing.peers(peers).forward("http://hidden-address", call)).rejects.toThrow("down");
  await expect(
    tracing.peers(peers).forward("http://hidden-address", { ...call, traceparent: undefined }),
  ).rejects.toThrow("down");
  await tracing.close();
  expect(collector.spans).toHaveLength(2);
  const [sender, receiver] = [
    named(collector.spans, "forward read kv.get"),
    named(collector.spans, "serve read kv.get"),
  ];
  expect(sender).toMatchObject({
    traceId,
    parentSpanId: spanId,
    kind: 3,
    status: 2,
    attributes: { "palimpsest.code": "unavailable", "error.type": "unavailable" },
  });
  expect(receiver).toMatchObject({ traceId, parentSpanId: sender.spanId, kind: 2 });
  // The receiver's calls of its own engine stand below its span; a job of the node itself has none.
  expect(received.map(({ traceparent: given }) => given)).toEqual([
    formatTraceparent({ traceId, spanId: receiver.spanId, sampled: true }),
    undefined,
  ]);
  expect(collector.bodies.join("")).not.toContain("hidden");
});

onBoth(
  "over %s the id in an internal error stands in the log together with the request's trace, given or made",
  async (name) => {
    const lines: string[] = [];
    const output = new PassThrough();
    output
      .setEncoding("utf8")
      .on("data", (chunk: string) => lines.push(...chunk.split("\n").filter((line) => line !== "")));
    const { address } = await openEcho({
      dispatch: () => Promise.reject(new Error("a bug")),
      doors: { log: jsonLog("debug", output) },
    });
    const wire = name === "rest" ? restWire(address) : grpcWire(address);
    onTestFinished(() => wire.close());
    for (const headers of [{ traceparent }, {}] as Record<string, string>[]) {
      lines.length = 0;
      const { code, message } = await wire.call("ControlService.ListDatabases", {}, headers);
      expect(code).toBe("internal");
      const id = /internal error (\S+):/.exec(message)![1];
      const [fault, over] = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
      expect(fault).toMatchObject({ level: 50, id, err: { message: "a bug" } });
      expect(over).toMatchObject({
        level: 20,
        endpoint: "ControlService.ListDatabases",
        wire: name === "rest" ? "rest" : "rpc",
        code: "internal",
        traceId: fault!["traceId"],
      });
      if (headers["traceparent"]) expect(fault!["traceId"]).toBe(traceId);
      else expect(parseTraceparent(`00-${String(fault!["traceId"])}-${spanId}-00`)).toBeDefined();
    }
  },
);
