/**
 * Clients that write and read all the time, at all nodes of a cluster, over both wires, and remember what they were
 * told, for the history checker.
 *
 * Every write is a value of its own: a key, a turn or a memory. A write is sent twice only with the same
 * `Idempotency-Key`, to whichever node, so that what is there twice is the service's doing.
 */
import { setTimeout as pause } from "node:timers/promises";
import { type Cluster, type ClusterNode } from "./cluster.ts";
import type { FinalState, Operation, Probe, Read, Seen, Write } from "./history-checker.ts";
import { grpcWire, restWire, type Reply, type Wire, type WireName } from "./wires.ts";
import { type Medium, namespace, listMedia, findMedium } from "./load-media.ts";

export interface LoadOptions {
  readonly random: () => number;
  readonly clientsPerNode?: number;
  readonly databases?: readonly string[];
  /** How long a client waits between two calls, at most. */
  readonly restMs?: number;
  /** How long it waits for an answer. */
  readonly patienceMs?: number;
  /** Share of calls that are writes, and of these that are durable. */
  readonly writeShare?: number;
  readonly durableShare?: number;
}

/** Refusals that say that nothing has happened. */
const definiteRefusals = [
  "overloaded",
  "invalid_request",
  "conflict",
  "forbidden",
  "not_found",
  "database_not_found",
  "branch_not_found",
  "payload_too_large",
];
const valuesPerStream = 40;
/** Share of the writes that have an `Idempotency-Key`, and how often one whose outcome is unknown is sent again. */
const keyedShare = 0.5;
const repeatsMax = 6;

/** What became of a write. */
type Sent =
  | { readonly outcome: "ok"; readonly reply: Reply; readonly place?: number | undefined }
  | { readonly outcome: "failed" | "unknown" };
/** Sends one write to a node. */
type Send = (wire: Wire, node: ClusterNode) => Promise<Sent>;

/** A call that did not come to an answer. */
class NoAnswer extends Error {}

async function within<Value>(patienceMs: number, act: Promise<Value>): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>(
    (_resolve, reject) => (timer = setTimeout(() => reject(new NoAnswer("no answer in time")), patienceMs)),
  );
  try {
    return await Promise.race([act, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Whether nothing was listening, so that the call never reached a node. */
function neverLeft(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if ((cause as { code?: unknown }).code === "ECONNREFUSED") return true;
  return false;
}

export class ClusterLoad {
  readonly operations: Operation[] = [];
  /** Refusals by code, and calls without an answer. */
  readonly refusals = new Map<string, number>();
  /** Answers that no client should get: faults of the service, and reads that were refused as never possible. */
  readonly faults: string[] = [];
  readonly databases: readonly string[];
  readonly #cluster: Cluster;
  readonly #options: Required<LoadOptions>;
  readonly #streams = new Map<string, Set<string>>();
  readonly #running: Promise<void>[] = [];
  readonly #values = new Map<string, number>();
  #isOver = false;
  #number = 0;
  #clients = 0;

  constructor(cluster: Cluster, options: LoadOptions) {
    this.#cluster = cluster;
    this.#options = {
      clientsPerNode: 3,
      databases: ["plain-0", "plain-1", `${namespace}--p0`, `${namespace}--p1`],
      restMs: 30,
      patienceMs: 10_000,
      writeShare: 0.65,
      durableShare: 0.3,
      ...options,
    };
    this.databases = this.#options.databases;
  }

  /** Makes the databases, one half at one node and one at another. */
  async prepare(): Promise<void> {
    for (const [index, name] of this.databases.entries()) {
      const node = this.#cluster.nodes[index % this.#cluster.nodes.length]!;
      const [ns, profile] = name.split("--");
      const { status, text } =
        profile === undefined
          ? await node.call("POST", "/v1/databases", { name })
          : await node.call("POST", `/v1/memory/${ns}/${profile}/memories`, {
              memories: [{ type: "event", summary: "the load begins", content: null, session_id: "before" }],
            });
      if (status !== 201) throw new Error(`${name} was not made: ${text}`);
    }
  }

  /** Starts clients at the nodes, or at these. */
  begin(nodes: readonly ClusterNode[] = this.#cluster.nodes): void {
    for (const node of nodes) {
      for (let index = 0; index < this.#options.clientsPerNode; index++)
        this.#running.push(this.#client(node, index % 2 === 0 ? "rest" : "grpc"));
    }
  }

  /** Resolves when no client has a call under way any more. */
  async end(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#running);
  }

  async #client(node: ClusterNode, wireName: "rest" | "grpc"): Promise<void> {
    const { random, restMs, writeShare } = this.#options;
    const client = `${node.name}${this.#clients++}-${wireName}`;
    const wire = wireName === "rest" ? restWire(node.address) : grpcWire(node.address);
    /** The newest transaction id that it was told, of each database. */
    const known = new Map<string, number>();
    while (!this.#isOver) {
      const database = this.databases[Math.floor(random() * this.databases.length)]!;
      const act = random() < writeShare ? this.#write : this.#read;
      const isSound = await act.call(this, client, node, wire, database, known);
      // Whoever is refused comes back later.
      await pause(isSound ? random() * restMs : 100 + random() * 200);
    }
    wire.close();
  }

  async #write(
    client: string,
    node: ClusterNode,
    wire: Wire,
    database: string,
    known: Map<string, number>,
  ): Promise<boolean> {
    const { random, durableShare } = this.#options;
    const media = listMedia(database);
    const medium = media[Math.floor(random() * media.length)]!;
    const stream = this.#streamFor(database, medium);
    const value = `${client}-${this.#number++}`;
    const durable = random() < durableShare;
    const begun = {
      kind: "write",
      client,
      node: node.name,
      database,
      stream,
      value,
      durable,
      startMs: performance.now(),
    } as const;
    const done = (rest: Pick<Write, "outcome" | "txid" | "place" | "isRepeated">): boolean => {
      this.operations.push({ ...begun, ...rest, endMs: performance.now() });
      return rest.outcome === "ok";
    };
    const headers = {
      ...(durable && { "service-durability": "durable" }),
      ...(random() < keyedShare && { "idempotency-key": value }),
    };
    const send: Send = (by, at) => this.#send(at, medium, () => medium.write(by, database, stream, value, headers));
    const first = await send(wire, node);
    const isRepeated = first.outcome === "unknown" && "idempotency-key" in headers;
    const sent = isRepeated ? await this.#sendAgain(wire.name, send) : first;
    if (sent.outcome !== "ok") return done({ outcome: sent.outcome, isRepeated });
    const { reply, place } = sent;
    if (durable && !(reply.durableTxid! >= reply.txid!))
      this.faults.push(
        `${value}: a durable write of txid ${reply.txid} was answered at durable txid ${reply.durableTxid}`,
      );
    known.set(database, Math.max(known.get(database) ?? 0, reply.txid!));
    return done({ outcome: "ok", txid: reply.txid, place, isRepeated });
  }

  async #send(node: ClusterNode, medium: Medium, write: () => ReturnType<Medium["write"]>): Promise<Sent> {
    try {
      const { reply, place } = await within(this.#options.patienceMs, write());
      if (reply.code === "ok") return { outcome: "ok", reply, place };
      this.#refused(node, reply, medium.name);
      return { outcome: definiteRefusals.includes(reply.code) ? "failed" : "unknown" };
    } catch (error) {
      this.#count(neverLeft(error) ? "not reached" : error instanceof NoAnswer ? "no answer in time" : "broken off");
      return { outcome: neverLeft(error) ? "failed" : "unknown" };
    }
  }

  /** Repeats a write whose outcome is unknown, at any node. That one is refused says nothing of the one before. */
  async #sendAgain(wireName: WireName, send: Send): Promise<Sent> {
    const { random } = this.#options;
    for (let round = 0; round < repeatsMax && !this.#isOver; round++) {
      await pause(100 + random() * 1_000);
      const { nodes } = this.#cluster;
      const node = nodes[Math.floor(random() * nodes.length)]!;
      const wire = wireName === "rest" ? restWire(node.address) : grpcWire(node.address);
      const sent = await send(wire, node);
      wire.close();
      if (sent.outcome !== "ok") continue;
      this.#count(sent.reply.isRepeat ? "repeated: known" : "repeated: new");
      return sent;
    }
    return { outcome: "unknown" };
  }

  async #read(
    client: string,
    node: ClusterNode,
    wire: Wire,
    database: string,
    known: Map<string, number>,
  ): Promise<boolean> {
    const { random } = this.#options;
    const stream = this.#someStream(database);
    if (stream === undefined) return true;
    const draw = random();
    const isPrimary = draw < 0.2;
    const minTxid = draw > 0.5 ? (known.get(database) ?? 0) : 0;
    const headers = {
      ...(isPrimary ? { "service-consistency": "primary" } : {}),
      ...(minTxid > 0 ? { "service-min-txid": String(minTxid) } : {}),
    };
    const startMs = performance.now();
    try {
      const { reply, seen } = await within(
        this.#options.patienceMs,
        findMedium(stream).read(wire, database, stream, headers),
      );
      if (reply.code === "ok") {
        const txid = reply.txid!;
        this.operations.push({
          kind: "read",
          client,
          node: node.name,
          database,
          stream,
          startMs,
          endMs: performance.now(),
          txid,
          minTxid,
          isPrimary,
          seen,
        } satisfies Read);
        known.set(database, Math.max(known.get(database) ?? 0, txid));
        return true;
      }
      this.#refused(node, reply, `read with Min-Txid ${minTxid}`);
      // What the client knew is lost: it begins anew.
      if (reply.code === "conflict") known.delete(database);
    } catch (error) {
      this.#count(neverLeft(error) ? "not reached" : error instanceof NoAnswer ? "no answer in time" : "broken off");
    }
    return false;
  }

  #refused(node: ClusterNode, { code, message }: Reply, what: string): void {
    this.#count(code);
    const isExpected =
      ["overloaded", "unavailable", "request_timeout"].includes(code) ||
      (code === "conflict" && what.startsWith("read"));
    if (!isExpected) this.faults.push(`${node.name}, ${what}: ${code}: ${message}`);
  }

  #count(what: string): void {
    this.refusals.set(what, (this.refusals.get(what) ?? 0) + 1);
  }

  /** The stream that is being filled; a new one when it has had its share. */
  #streamFor(database: string, medium: Medium): string {
    const key = `${database}/${medium.name}`;
    const count = this.#values.get(key) ?? 0;
    this.#values.set(key, count + 1);
    const stream = `${medium.name}-${Math.floor(count / valuesPerStream)}`;
    const streams = this.#streams.get(database) ?? new Set();
    this.#streams.set(database, streams.add(stream));
    return stream;
  }

  /** One of the newest streams. */
  #someStream(database: string): string | undefined {
    const newest = [...(this.#streams.get(database) ?? [])].slice(-4);
    return newest[Math.floor(this.#options.random() * newest.length)];
  }

  /** Everything that a node shows, at least of these transaction ids. */
  async finalState(
    node: ClusterNode,
    leastTxids: ReadonlyMap<string, number>,
    headers: Record<string, string> = {},
  ): Promise<FinalState> {
    const wire = restWire(node.address);
    const databases = new Map<string, Map<string, readonly Seen[]>>();
    for (const database of this.databases) {
      const streams = new Map<string, readonly Seen[]>();
      for (const stream of this.#streams.get(database) ?? []) {
        const { reply, seen } = await findMedium(stream).read(wire, database, stream, {
          "service-min-txid": String(leastTxids.get(database) ?? 0),
          ...headers,
        });
        if (reply.code !== "ok")
          throw new Error(`${node.name} does not show ${database}/${stream}: ${reply.code}: ${reply.message}`);
        streams.set(stream, seen);
      }
      databases.set(database, streams);
    }
    return { name: node.name, databases };
  }

  /** Asks for acknowledged transaction ids: those that look lost by the final state, and some of the others. */
  async probe(node: ClusterNode, { databases }: FinalState): Promise<readonly Probe[]> {
    const probes: Probe[] = [];
    for (const database of this.databases) {
      const present = new Set(
        [...(databases.get(database)?.values() ?? [])].flatMap((seen) => seen.map(({ value }) => value)),
      );
      const writes = this.operations.filter(
        (operation) => operation.kind === "write" && operation.database === database && operation.outcome === "ok",
      ) as Write[];
      const lost = writes.filter(({ value }) => !present.has(value));
      const known = writes.filter(({ value }) => present.has(value));
      const some = known.filter((_, index) => index % Math.ceil(known.length / probesPerKind) === 0);
      for (const txid of new Set([...lost.slice(-probesPerKind), ...some].map((write) => write.txid!))) {
        const reply = await restWire(node.address).call(
          "DataService.ListKeys",
          { db: database, ns: "probe" },
          { "service-min-txid": String(txid) },
        );
        if (reply.code !== "ok" && reply.code !== "conflict")
          throw new Error(`${database} at ${txid}: ${reply.code}: ${reply.message}`);
        probes.push({ database, txid, answer: reply.code === "ok" ? "known" : "lost" });
      }
    }
    return probes;
  }
}

const probesPerKind = 20;
