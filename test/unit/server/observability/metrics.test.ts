/** The parts that count, one by one, and the text that comes of them. */
import { expect, test } from "vitest";
import { errorCodes, ServiceError, StoreError } from "../../../../src/base/faults/errors.ts";
import { silentLog, type LogFields } from "../../../../src/base/log.ts";
import { shortBoundsMs, Histogram } from "../../../../src/base/collections/histogram.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { TurnedAway } from "../../../../src/engine/api/engine-port.ts";
import { sumBacklogs, type EngineMeasures } from "../../../../src/engine/api/measures.ts";
import { ClusterCounts } from "../../../../src/server/observability/cluster-counts.ts";
import { EgressCounts } from "../../../../src/server/observability/egress-counts.ts";
import { metricsText, type Snapshot } from "../../../../src/server/observability/metrics.ts";
import { RequestMetrics } from "../../../../src/server/wire/request-metrics.ts";
import { Concurrency } from "../../../../src/service/pipeline/admission.ts";
import { endpoints } from "../../../../src/service/call/methods.ts";
import { type PeerHost, type Peers, Unreachable } from "../../../../src/service/placement/peers.ts";
import { MeasuredStore, parseObjectKind } from "../../../../src/store/measured-store.ts";
import { MemoryStore } from "../../../../src/store/memory-store.ts";
import { buildCall } from "../../../support/peer-node.ts";
import { readMetrics, sumSamples } from "../../../support/metrics-text.ts";

const world = realWorld();
const ingest = endpoints.find(({ name }) => name === "MemoryService.Ingest")!;
const uuid = "00000000-0000-4000-8000-000000000001";

function makeHistogram(...durationsMs: number[]): Histogram {
  const tally = new Histogram(shortBoundsMs);
  for (const ms of durationsMs) tally.note(ms);
  return tally;
}

function engineMeasures(): EngineMeasures {
  const store = new MeasuredStore(new MemoryStore(world), world);
  return {
    counters: { groups: 2, writes: 7, fsyncs: 3, manifestPuts: 1, bytesPut: 100, opened: 5, evicted: 4, stopped: 6 },
    backlogs: { databases: 1, writes: 6, writesMax: 4, txids: 3, bytes: 2048, ms: 1_500 },
    packs: 1,
    rebases: 2,
    compactionsOwed: 4,
    timelineRefsMax: 17,
    collections: 3,
    replicas: { open: 2, lagTxidsMax: 9, lookedMsMax: 2_500 },
    past: { states: 3, bytes: 12_288, restored: 8 },
    vectorBytes: 4_096,
    alarms: { quarantined: 4, lost: 2, wentBack: 1 },
    syncs: makeHistogram(0.05, 3, 5_000).counts,
    store: store.measures,
    loopDelay: makeHistogram(1).counts,
    heapBytes: 10,
  };
}

function buildSnapshot(given: Partial<Snapshot> = {}): Snapshot {
  const counts = new ClusterCounts();
  return {
    node: { id: "01HF7YAT00000000000000000N", name: "db-1", version: "0.0.0" },
    requestMetrics: [],
    strays: [],
    calls: new Concurrency(1),
    engines: [],
    main: {
      store: new MeasuredStore(new MemoryStore(world), world).measures,
      loopDelay: makeHistogram().counts,
      heapBytes: 1,
    },
    cluster: {
      forwarded: counts.forwarded,
      linksLost: 0,
      renewalsFailed: 0,
      leasesLost: 0,
      leasesHeld: 0,
      leaseLive: true,
    },
    egress: [],
    embedder: undefined,
    webhooks: { delivered: 0, failed: 0, dead: 0, active: 0, lagMs: 0 },
    auditDropped: 0,
    clockAheadMs: 0,
    process: { cpuSecs: 1, residentBytes: 2, startedAtSecs: 3 },
    ...given,
  };
}

test("a tally puts each duration into the first class that it fits in, and what fits in none into the last", () => {
  const { boundsMs, counts, sumMs } = makeHistogram(0, 0.1, 0.1000001, 1_000, 1_000.5).counts;
  expect(boundsMs).toEqual(shortBoundsMs);
  expect([counts[0], counts[1], counts.at(-2), counts.at(-1)]).toEqual([2, 1, 1, 1]);
  expect(counts).toHaveLength(boundsMs.length + 1);
  expect(sumMs).toBeCloseTo(2_000.7, 5);
});

test("a histogram's classes add up, in seconds, to its count", async () => {
  const families = readMetrics(await metricsText(buildSnapshot({ engines: [engineMeasures()] })));
  const { samples } = families.get("palimpsest_disk_sync_seconds")!;
  const buckets = samples.filter(({ name }) => name.endsWith("_bucket"));
  expect(buckets.map(({ value }) => value)).toEqual(buckets.map(({ value }) => value).toSorted((a, b) => a - b));
  expect(buckets.map(({ labels }) => labels["le"])).toEqual([...shortBoundsMs.map((ms) => String(ms / 1_000)), "+Inf"]);
  expect([buckets[0]!.value, buckets.at(-2)!.value, buckets.at(-1)!.value]).toEqual([1, 2, 3]);
  expect(sumSamples(families, "palimpsest_disk_sync_seconds", {}, "palimpsest_disk_sync_seconds_count")).toBe(3);
  expect(sumSamples(families, "palimpsest_disk_sync_seconds", {}, "palimpsest_disk_sync_seconds_sum")).toBeCloseTo(
    5.00305,
    6,
  );
});

test("an engine thread's numbers stand under its thread; one that does not answer is down, with none", async () => {
  // In seconds and bytes.
  const families = readMetrics(await metricsText(buildSnapshot({ engines: [undefined, engineMeasures()] })));
  const at = { thread: "engine-1" };
  expect(families.get("palimpsest_engine_up")!.samples.map(({ labels, value }) => [labels["thread"], value])).toEqual([
    ["engine-0", 0],
    ["engine-1", 1],
  ]);
  for (const [name, value] of [
    ["write_groups_total", 2],
    ["writes_total", 7],
    ["write_queue_waiting", 6],
    ["write_queue_waiting_max", 4],
    ["unshipped_txids", 3],
    ["unshipped_bytes", 2_048],
    ["unshipped_age_seconds", 1.5],
    ["heads_landed_total", 1],
    ["shipped_bytes_total", 100],
    ["packs_total", 1],
    ["rebases_total", 2],
    ["upkeep_owed", 4],
    ["line_objects_max", 17],
    ["collections_total", 3],
    ["databases_open", 1],
    ["databases_opened_total", 5],
    ["slices_over_total", 6],
    ["databases_evicted_total", 4],
    ["replicas_open", 2],
    ["replica_lag_txids_max", 9],
    ["replica_looked_seconds_max", 2.5],
    ["past_states", 3],
    ["past_bytes", 12_288],
    ["past_restores_total", 8],
    ["vector_cache_bytes", 4_096],
  ] as const) {
    expect(families.get(`palimpsest_${name}`)!.samples, name).toEqual([
      { name: `palimpsest_${name}`, labels: at, value },
    ]);
  }
});

test("a model of the node's own is told of where there is one, with what its process takes", async () => {
  const embedder = {
    isRunning: true,
    residentBytes: 300,
    waitingTexts: 4,
    texts: { query: 5, document: 6 },
    cpuMs: 7_000,
    starts: 8,
    losses: 9,
  };
  const families = readMetrics(await metricsText(buildSnapshot({ embedder })));
  const told = [...families].flatMap(([name, { samples }]) =>
    name.startsWith("palimpsest_embedder_") ? samples.map(({ value }) => [name.slice(20), value]) : [],
  );
  expect(told).toEqual([
    ["up", 1],
    ["resident_memory_bytes", 300],
    ["cpu_seconds_total", 7],
    ["texts_total", 5],
    ["texts_total", 6],
    ["waiting_texts", 4],
    ["starts_total", 8],
    ["losses_total", 9],
  ]);
  expect([...readMetrics(await metricsText(buildSnapshot())).keys()].join()).not.toContain("embedder");
});

test("every name says what it counts: a prefix, a unit if there is one, _total on counters only", async () => {
  const families = readMetrics(await metricsText(buildSnapshot({ engines: [engineMeasures()] })));
  expect(families.size).toBeGreaterThan(40);
  for (const [name, { type, help }] of families) {
    expect(name).toMatch(/^palimpsest_[a-z_]+$/);
    expect(name.endsWith("_total"), name).toBe(type === "counter");
    if (type === "histogram") expect(name).toMatch(/_seconds$/);
    expect(help.length, name).toBeGreaterThan(10);
  }
});

test("what waits is added up over open databases; of ages the oldest counts", () => {
  const backlogs = [
    { writes: 1, txids: 10, bytes: 100, ms: 5 },
    { writes: 3, txids: 1, bytes: 1, ms: 70 },
  ].map((backlog) => ({ backlog }));
  expect(sumBacklogs(backlogs)).toEqual({ databases: 2, writes: 4, writesMax: 3, txids: 11, bytes: 101, ms: 70 });
  expect(sumBacklogs([])).toEqual({ databases: 0, writes: 0, writesMax: 0, txids: 0, bytes: 0, ms: 0 });
});

test("requests are counted by endpoint, wire and code, run until they end, and are told at debug", () => {
  // With their trace.
  const told: (LogFields | undefined)[] = [];
  const requestMetrics = new RequestMetrics({
    world,
    log: { ...silentLog, debug: (_message, fields) => void told.push(fields) },
  });
  const trace = "0af7651916cd43dd8448eb211c80319c";
  const first = requestMetrics.begin(ingest, "rest", `00-${trace}-b7ad6b7169203331-01`);
  const others = (["grpc", "grpc-web", "connect"] as const).map((protocol) =>
    requestMetrics.begin(ingest, protocol, undefined),
  );
  expect(requestMetrics.counts.map(({ wire, running }) => [wire, running])).toEqual([
    ["rest", 1],
    ["rpc", 3],
  ]);
  first.end("ok");
  others[0]!.end(new ServiceError("overloaded", "secret words of a message"));
  others[1]!.end("gone");
  requestMetrics.strayed(new ServiceError("not_found", "no such route"));
  expect(requestMetrics.counts.map(({ endpoint, wire, running, codes }) => [endpoint, wire, running, codes])).toEqual([
    ["MemoryService.Ingest", "rest", 0, [["ok", 1]]],
    [
      "MemoryService.Ingest",
      "rpc",
      1,
      [
        ["overloaded", 1],
        ["gone", 1],
      ],
    ],
  ]);
  expect(requestMetrics.strays).toEqual([["not_found", 1]]);
  expect(told.map((fields) => [fields?.["code"], fields?.["wire"]])).toEqual([
    ["ok", "rest"],
    ["overloaded", "rpc"],
    ["gone", "rpc"],
  ]);
  expect(told[0]).toMatchObject({ endpoint: "MemoryService.Ingest", traceId: trace });
  expect(JSON.stringify(told)).not.toContain("secret words");
});

test("the places of calls: those that run and those that wait", async () => {
  const concurrency = new Concurrency(1);
  expect(concurrency.enter()).toBeUndefined();
  const place = concurrency.enter();
  expect([concurrency.running, concurrency.waiting]).toEqual([1, 1]);
  concurrency.leave();
  await place;
  expect([concurrency.running, concurrency.waiting]).toEqual([1, 0]);
  concurrency.leave();
  expect([concurrency.running, concurrency.waiting]).toEqual([0, 0]);
});

test("requests of a store are counted by operation, kind of object and outcome, never by key", async () => {
  const failing = new (class extends MemoryStore {
    override async delete(): Promise<void> {
      throw new StoreError("unavailable", "down");
    }
  })(world);
  const store = new MeasuredStore(failing, world);
  const manifest = `db/${uuid}/head/main`;
  await store.get(manifest);
  const put = await store.put(manifest, Buffer.from("12345"), { kind: "absent" });
  await store.put(manifest, Buffer.from("1234567"), { kind: "absent" });
  await store.get(manifest);
  if (put.kind === "stored") expect(await store.get(manifest, put.version)).toBe("same");
  await store.put("policies/acme/namespace", Buffer.from("1"), { kind: "absent" });
  await expect(store.delete(`db/${uuid}/seg/x`)).rejects.toThrow("down");
  const { requests, durations, bytesPut, bytesGot } = store.measures;
  expect(requests.map(({ operation, object, outcome, count }) => `${operation} ${object} ${outcome} ${count}`)).toEqual(
    [
      "get head absent 1",
      "put head ok 1",
      "put head conflict 1",
      "get head ok 1",
      "get head same 1",
      "put other ok 1",
      "delete seg unavailable 1",
    ],
  );
  expect([bytesPut, bytesGot]).toEqual([6, 5]);
  const count = (operation: keyof typeof durations): number =>
    durations[operation].counts.reduce((sum, one) => sum + one, 0);
  expect([count("get"), count("put"), count("delete"), count("list")]).toEqual([3, 3, 1, 0]);
});

test("what a key is of", () => {
  for (const [key, kind] of [
    ["head/main", "head"],
    ["seg/x", "seg"],
    ["hist/x", "hist"],
    ["catalog", "catalog"],
    ["else/x", "other"],
    ["", "other"],
  ])
    expect(parseObjectKind(`db/${uuid}/${key}`)).toBe(kind);
  for (const key of ["names/acme--alice.json", "policies/acme/namespace", "db/", ""])
    expect(parseObjectKind(key)).toBe("other");
});

test("forwarded calls are counted by what came of them, in both directions, and pass unchanged", async () => {
  const ends = [
    undefined,
    new ServiceError("conflict", "no"),
    new ServiceError("unavailable", "nobody knows"),
    new TurnedAway("unheld"),
    new Unreachable("gone"),
    new Error("bug"),
  ];
  const answer = { value: 1, txid: 2, durableTxid: 3 };
  const call = buildCall({ call: { kind: "sync" } });
  const left = [...ends, ...ends];
  const serve = async (): Promise<typeof answer> => {
    const end = left.shift();
    if (end) throw end;
    return answer;
  };
  const followed: string[] = [];
  const peers: Peers = {
    forward: serve,
    follow: (address, id) => void followed.push(`${address} ${id}`),
    nudge: (address) => void followed.push(`nudge ${address}`),
    close: async () => {},
  };
  const host: PeerHost = {
    serve,
    followed: () => () => {},
    hinted: (id) => void followed.push(id),
    nudged: () => void followed.push("nudged"),
  };
  const counts = new ClusterCounts();
  for (const act of [() => counts.peers(peers).forward("http://a", call), () => counts.host(host).serve(call)]) {
    const seen: unknown[] = [];
    for (const _ of ends) seen.push(await act().catch((error: unknown) => error));
    expect(seen).toEqual([answer, ...ends.slice(1)]);
  }
  const each = { answered: 1, refused: 1, unavailable: 1, turned_away: 1, unreachable: 1, fault: 1 };
  expect(counts.forwarded).toEqual({ out: each, in: each });
  counts.peers(peers).follow("http://a", uuid);
  counts.host(host).hinted(uuid);
  counts.peers(peers).nudge("http://a");
  counts.host(host).nudged();
  expect(followed).toEqual([`http://a ${uuid}`, uuid, "nudge http://a", "nudged"]);
});

test("egress is counted by use, provider and outcome; what policy kept back has not left", () => {
  const counts = new EgressCounts();
  const egress = {
    provider: "anthropic",
    model: "m",
    endpointHost: "h",
    selfHosted: false,
    inputItems: 2,
    inputBytes: 30,
    outputItems: 1,
    durationMs: 5,
  };
  const entry = { namespace: "acme", identity: { kind: "anonymous" } } as const;
  counts.note({ ...entry, action: "ai.ask", outcome: "ok", egress });
  counts.note({ ...entry, action: "ai.ask", outcome: "ok", egress });
  counts.note({ ...entry, action: "ai.embed", outcome: "denied", egress });
  counts.note({ ...entry, action: "memory.ask", outcome: "ok" });
  expect(counts.counts).toEqual([
    { use: "ask", provider: "anthropic", outcome: "ok", requests: 2, items: 4, bytes: 60 },
    { use: "embed", provider: "anthropic", outcome: "denied", requests: 1, items: 0, bytes: 0 },
  ]);
});

test("labels have the values that stand in our own lists", async () => {
  const requestMetrics = new RequestMetrics({ world, log: silentLog });
  for (const endpoint of endpoints)
    for (const code of Object.keys(errorCodes) as (keyof typeof errorCodes)[])
      requestMetrics.begin(endpoint, "grpc", "00-garbage").end(new ServiceError(code, "no"));
  const families = readMetrics(
    await metricsText(buildSnapshot({ requestMetrics: requestMetrics.counts, engines: [engineMeasures()] })),
  );
  const samples = families.get("palimpsest_requests_total")!.samples;
  expect(samples).toHaveLength(endpoints.length * Object.keys(errorCodes).length);
  const labels = new Set(
    [...families.values()].flatMap((family) => family.samples.flatMap((sample) => Object.keys(sample.labels))),
  );
  expect([...labels].toSorted()).toEqual([
    "code",
    "direction",
    "endpoint",
    "le",
    "name",
    "node",
    "operation",
    "outcome",
    "thread",
    "version",
    "wire",
  ]);
});
