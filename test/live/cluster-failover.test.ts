/**
 * Nodes of a cluster that die, sleep, lose etcd or object storage, or are stopped in good order: who writes then, how
 * soon, and that nothing is acknowledged that does not hold.
 */
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { judge } from "../support/cluster-chaos.ts";
import { ClusterLoad } from "../support/cluster-load.ts";
import { Cluster, clusterNeed, eventually, hasCluster, leaseTtlMs, type ClusterNode } from "../support/cluster.ts";
import type { Trouble, Write } from "../support/history-checker.ts";
import type { callRest } from "../support/node-process.ts";
import { seeded } from "../support/random.ts";

/** From the death of a writer to the first write elsewhere. */
const takeoverMs = leaseTtlMs + 2_000;
const durable = { "service-durability": "durable" };
const say = (text: string): void => console.log(text);

/** What came of one try of a steady writer. */
interface Tried {
  readonly key: string;
  readonly startMs: number;
  readonly endMs: number;
  /** Undefined when there was no answer. */
  readonly status: number | undefined;
  readonly text: string;
  readonly txid: number;
  readonly durableTxid: number;
}

const keysPath = (db: string): string => `/v1/db/${db}/kv/steady`;

function put(
  node: ClusterNode,
  db: string,
  key: string,
  headers: Record<string, string> = {},
): ReturnType<typeof callRest> {
  return node.call("PUT", `${keysPath(db)}/${key}`, key, { "content-type": "text/plain", ...headers });
}

async function must(answer: ReturnType<typeof callRest>): Promise<Awaited<ReturnType<typeof callRest>>> {
  const given = await answer;
  if (given.status >= 300) throw new Error(`${given.status}: ${given.text}`);
  return given;
}

const readTxid = ({ headers }: { readonly headers: Headers }): number => Number(headers.get("service-txid"));

async function keysAt(node: ClusterNode, db: string, headers: Record<string, string> = {}): Promise<string[]> {
  const keys: string[] = [];
  for (let cursor = ""; ;) {
    const { json } = await must(node.call("GET", `${keysPath(db)}?limit=1000${cursor}`, undefined, headers));
    keys.push(...json.keys);
    if (json.next_cursor === null) return keys;
    cursor = `&cursor=${encodeURIComponent(json.next_cursor)}`;
  }
}

/** One client that writes all the time through one node, a new key each time. */
class SteadyWriter {
  readonly tried: Tried[] = [];
  readonly #node: ClusterNode;
  readonly #db: string;
  readonly #headers: Record<string, string>;
  #isOver = false;
  readonly #running: Promise<void>;

  constructor(node: ClusterNode, db: string, headers: Record<string, string> = {}) {
    this.#node = node;
    this.#db = db;
    this.#headers = headers;
    this.#running = this.#run();
  }

  async #run(): Promise<void> {
    for (let step = 0; !this.#isOver; step++) {
      const key = `${this.#node.name}-${this.#headers["service-durability"] ?? "standard"}-${step}`;
      const startMs = performance.now();
      const answer = await put(this.#node, this.#db, key, this.#headers).catch(() => undefined);
      const readNumber = (name: string): number => Number(answer?.headers.get(name) ?? 0);
      this.tried.push({
        key,
        startMs,
        endMs: performance.now(),
        status: answer?.status,
        text: answer?.text ?? "",
        txid: readNumber("service-txid"),
        durableTxid: readNumber("service-durable-txid"),
      });
      await pause(10);
    }
  }

  get acknowledged(): readonly Tried[] {
    return this.tried.filter(({ status }) => status === 200);
  }

  /** The longest time without an acknowledgement. */
  get longestGapMs(): number {
    const ends = this.acknowledged.map(({ endMs }) => endMs);
    return Math.max(...ends.map((endMs, index) => endMs - (ends[index - 1] ?? endMs)));
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }
}

function expectAll(keys: readonly string[], tried: readonly Tried[]): void {
  const present = new Set(keys);
  expect(
    tried.filter(({ key }) => !present.has(key)),
    "acknowledged and not there",
  ).toEqual([]);
}

describe.skipIf(!hasCluster)(`failover${clusterNeed}`, { timeout: 180_000 }, () => {
  let cluster: Cluster;
  let a: ClusterNode, b: ClusterNode, c: ClusterNode;
  let names = 0;
  beforeAll(async () => {
    cluster = await Cluster.start({ variables: { SERVICE_REQUEST_TIMEOUT: "5" } });
    [a, b, c] = cluster.nodes as [ClusterNode, ClusterNode, ClusterNode];
  }, 120_000);
  afterAll(() => cluster?.end());

  /** A database that the node writes, on a cluster in which all is well; heals it in the end too. */
  async function ownedBy(owner: ClusterNode): Promise<{ readonly db: string; readonly uuid: string }> {
    onTestFinished(() => cluster.heal());
    const db = `failover-${names++}`;
    const { json } = await must(owner.call("POST", "/v1/databases", { name: db }));
    await eventually(20_000, () => must(put(owner, db, "first", durable)));
    expect(await cluster.findOwner(json.uuid)).toBe(owner);
    return { db, uuid: json.uuid };
  }

  /** A load on databases of this test, all of them written by the node. */
  async function loadOn(owner: ClusterNode, clientsPerNode: number): Promise<ClusterLoad> {
    onTestFinished(() => cluster.heal());
    const number = names++;
    const databases = [`failover-${number}`, `load--f${number}`];
    const load = new ClusterLoad(cluster, { random: seeded(number), databases, clientsPerNode });
    onTestFinished(() => load.end());
    for (const name of databases) {
      const [ns, profile] = name.split("--");
      if (profile === undefined) await must(owner.call("POST", "/v1/databases", { name }));
      else
        await must(
          owner.call("POST", `/v1/memory/${ns}/${profile}/memories`, {
            memories: [{ type: "event", summary: "the load begins", content: null }],
          }),
        );
      await must(put(owner, name, "first", durable));
    }
    load.begin();
    return load;
  }

  /** Writes through the node until one is accepted; gives when. */
  async function firstAccepted(node: ClusterNode, db: string, withinMs: number, headers = durable): Promise<number> {
    let step = 0;
    await eventually(withinMs, () => must(put(node, db, `probe-${node.name}-${step++}`, headers)));
    return performance.now();
  }

  test("kill -9 of the writer: another node writes in lease time + 2 s, and nothing durable is lost", async () => {
    const load = await loadOn(a, 2);
    await pause(3_000);
    const startMs = performance.now();
    await a.kill();
    const acceptedMs = await firstAccepted(b, load.databases[0]!, takeoverMs + 5_000);
    say(`the first write after the kill was accepted after ${((acceptedMs - startMs) / 1_000).toFixed(1)} s`);
    expect(acceptedMs - startMs).toBeLessThan(takeoverMs);
    await pause(2_000);
    await a.start();
    const verdict = await judge(
      cluster,
      load,
      [{ what: "kill", overtakes: true, startMs, endMs: performance.now() }],
      say,
    );
    say(JSON.stringify(verdict.counts));
    expect(verdict.violations).toEqual([]);
    expect(load.faults).toEqual([]);
    expect(verdict.counts.durable).toBeGreaterThan(20);
  });

  test("F60: what a dead writer had acknowledged and not shipped is lost, and every node says so", async () => {
    const { db } = await ownedBy(a);
    a.links.store.silence();
    const lost = readTxid(await must(put(a, db, "lost")));
    await a.kill();
    await firstAccepted(b, db, takeoverMs + 5_000);
    a.links.store.restore();
    await a.start();
    for (const node of [b, c, a]) {
      const { status, json } = await node.call("GET", keysPath(db), undefined, { "service-min-txid": String(lost) });
      expect({ node: node.name, status, code: json.code }).toEqual({ node: node.name, status: 409, code: "conflict" });
      expect(await keysAt(node, db)).not.toContain("lost");
    }
  });

  test("F46: a writer that sleeps with a manifest on its way is overtaken; both come too late", async () => {
    const { db, uuid } = await ownedBy(a);
    a.links.store.silence("requests");
    const late = put(a, db, "late", durable).catch(() => undefined);
    const dirty = readTxid(await must(put(a, db, "dirty")));
    await pause(1_500);
    a.pause();
    const startMs = performance.now();
    await firstAccepted(b, db, takeoverMs + 5_000);
    expect(await cluster.findOwner(uuid)).not.toBe(a);
    // Now the store gets what the sleeper had sent.
    a.links.store.restore();
    const { txid } = await must(put(b, db, "by the new owner", durable)).then((answer) => ({ txid: readTxid(answer) }));
    await pause(Math.max(0, startMs + 15_000 - performance.now()));
    a.resume();
    expect((await late)?.status, "nothing durable was acknowledged").not.toBe(200);
    for (const node of [b, c, a]) {
      const keys = await eventually(10_000, () => keysAt(node, db, { "service-min-txid": String(txid) }));
      expect(keys).toContain("by the new owner");
      expect(keys).not.toContain("late");
      expect(keys).not.toContain("dirty");
      expect((await node.call("GET", keysPath(db), undefined, { "service-min-txid": String(dirty) })).status).toBe(409);
    }
    await eventually(10_000, () => must(put(a, db, "through the one who slept", durable)));
  });

  test("F49, F55: a writer without etcd writes durably until another claims, then acknowledges nothing", async () => {
    const { db, uuid } = await ownedBy(a);
    a.links.coordination.silence();
    const startMs = performance.now();
    const writer = new SteadyWriter(a, db);
    onTestFinished(() => writer.stop());
    await pause(leaseTtlMs + 6_000);
    const { acknowledged } = writer;
    const late = acknowledged.filter((tried) => tried.startMs > startMs + leaseTtlMs);
    expect(late.length, "it goes on when its lease is over").toBeGreaterThan(10);
    expect(
      late.filter((tried) => tried.durableTxid < tried.txid),
      "and acknowledges what is durable only",
    ).toEqual([]);
    expect(writer.longestGapMs).toBeLessThan(4_000);

    await must(put(b, db, "by the new owner", durable));
    const takenMs = performance.now();
    expect(await cluster.findOwner(uuid)).not.toBe(a);
    await pause(4_000);
    expect(
      writer.acknowledged.filter((tried) => tried.startMs > takenMs),
      "overtaken, and without a way to know by whom",
    ).toEqual([]);
    expect((await keysAt(a, db)).length, "reads go on").toBeGreaterThan(10);
    a.links.coordination.restore();
    await eventually(20_000, async () => expect(writer.acknowledged.at(-1)!.startMs).toBeGreaterThan(takenMs));
    await writer.stop();
    for (const node of [a, b, c])
      expectAll(await keysAt(node, db, { "service-consistency": "primary" }), writer.acknowledged);
  });

  test("F50: without etcd for anybody, the writer goes on, each write durable, and every node reads", async () => {
    const { db } = await ownedBy(a);
    for (const node of [b, c]) await keysAt(node, db);
    const startMs = performance.now();
    cluster.etcd.freeze();
    const writers = [a, b].map((node) => new SteadyWriter(node, db));
    onTestFinished(async () => void (await Promise.all(writers.map((writer) => writer.stop()))));
    while (performance.now() < startMs + leaseTtlMs + 6_000) {
      for (const node of [a, b, c]) {
        const askedMs = performance.now();
        expect((await keysAt(node, db)).length).toBeGreaterThan(0);
        expect(performance.now() - askedMs, `${node.name} reads and waits for nothing`).toBeLessThan(2_000);
      }
      await pause(200);
    }
    const late = writers[0]!.acknowledged.filter((tried) => tried.startMs > startMs + leaseTtlMs);
    expect(late.length).toBeGreaterThan(10);
    expect(late.filter((tried) => tried.durableTxid < tried.txid)).toEqual([]);
    for (const { status, text } of writers[1]!.tried) expect([200, 503, 408], text).toContain(status);
    cluster.etcd.awaken();
    const awakenedMs = performance.now();
    await eventually(20_000, async () => {
      for (const writer of writers) expect(writer.acknowledged.at(-1)?.startMs).toBeGreaterThan(awakenedMs);
    });
    for (const writer of writers) await writer.stop();
    for (const node of [a, b, c])
      for (const writer of writers)
        expectAll(await keysAt(node, db, { "service-consistency": "primary" }), writer.acknowledged);
  });

  test("F56: a writer that reaches etcd but not object storage gives the database up", async () => {
    const load = await loadOn(a, 1);
    await pause(1_000);
    const startMs = performance.now();
    a.links.store.cut();
    const acceptedMs = await firstAccepted(b, load.databases[0]!, 90_000);
    say(
      `a durable write was accepted ${((acceptedMs - startMs) / 1_000).toFixed(1)} s after the writer had ` +
        "lost object storage",
    );
    await cluster.heal();
    const verdict = await judge(
      cluster,
      load,
      [{ what: "no store", overtakes: true, startMs, endMs: performance.now() }],
      say,
    );
    say(JSON.stringify(verdict.counts));
    expect(verdict.violations).toEqual([]);
    expect(acceptedMs - startMs).toBeLessThan(60_000);
  });

  test("a stopped writer hands over in under a second, and nothing is lost", async () => {
    const { db, uuid } = await ownedBy(a);
    const writer = new SteadyWriter(b, db);
    onTestFinished(() => writer.stop());
    await pause(2_000);
    const stoppedMs = performance.now();
    await a.stop();
    await pause(2_000);
    await writer.stop();
    say(
      `the longest time without an accepted write was ${writer.longestGapMs.toFixed(0)} ms; ` +
        `refused: ${writer.tried.length - writer.acknowledged.length}`,
    );
    expect(await cluster.findOwner(uuid)).not.toBe(a);
    expect(writer.acknowledged.at(-1)!.startMs).toBeGreaterThan(stoppedMs);
    expectAll(await keysAt(c, db, { "service-consistency": "primary" }), writer.acknowledged);
    expect(writer.longestGapMs).toBeLessThan(1_000);
  });

  test("F62: a rolling restart under load loses nothing; 99 of 100 writes take less than 2 s", async () => {
    const load = await loadOn(a, 2);
    await pause(1_000);
    const troubles: Trouble[] = [];
    for (const node of [a, b, c]) {
      const startMs = performance.now();
      await node.stop();
      await pause(500);
      await node.start();
      troubles.push({ what: "restart", overtakes: false, startMs, endMs: performance.now() });
      await pause(2_000);
    }
    const tookMs = load.operations
      .filter((operation): operation is Write => operation.kind === "write" && operation.outcome === "ok")
      .map(({ startMs, endMs }) => endMs - startMs)
      .sort((x, y) => x - y);
    const p99Ms = tookMs[Math.floor(tookMs.length * 0.99)]!;
    const verdict = await judge(cluster, load, troubles, say);
    say(
      `${JSON.stringify(verdict.counts)}; refusals ${JSON.stringify(Object.fromEntries(load.refusals))}; ` +
        `p99 ${p99Ms.toFixed(0)} ms, longest ${tookMs.at(-1)!.toFixed(0)} ms`,
    );
    expect(verdict.violations).toEqual([]);
    expect(verdict.counts.lost).toBe(0);
    expect(load.faults).toEqual([]);
    expect(p99Ms).toBeLessThan(2_000);
  });
});

describe.skipIf(!hasCluster)(`two nodes that do not know of each other${clusterNeed}`, () => {
  test("F58: the second claim wins; the first stops for good and says why", { timeout: 120_000 }, async () => {
    const cluster = await Cluster.start({ nodes: 2, coordinated: false });
    onTestFinished(() => cluster.end());
    const [a, b] = cluster.nodes as [ClusterNode, ClusterNode];
    const db = "shared";
    await must(a.call("POST", "/v1/databases", { name: db }));
    await must(put(a, db, "by the first", durable));
    const taken = readTxid(await must(put(b, db, "by the second", durable)));
    expect((await put(a, db, "too late", durable)).status).toBe(503);
    const endMs = performance.now() + 5_000;
    while (performance.now() < endMs) {
      const { status, json } = await put(a, db, "refused");
      expect(status).toBe(503);
      expect(json.error).toMatch(/another node has claimed/);
      await pause(200);
    }
    expect(readTxid(await must(put(b, db, "by the second again", durable)))).toBe(taken + 1);
    expect(await keysAt(b, db)).toEqual(["by the first", "by the second", "by the second again"]);
    expect(a.log()).toMatch(/another node/);
  });
});
