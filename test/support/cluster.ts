/**
 * A cluster of real processes: nodes, one etcd and one S3 server. Everything that a node says to the others, to etcd
 * and to S3 goes through links that a test can break; clients reach a node directly.
 *
 * A node keeps its addresses, its data directory and its links for as long as the cluster stands, however often it is
 * killed and started. Works with and without a test runner around it: whoever starts a cluster ends it.
 */
import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { etcdNeed, hasEtcd, startEtcd, type EtcdServer } from "./etcd-server.ts";
import { LinkProxy } from "./link-proxy.ts";
import { callRest, freePort, startNodeProcess, type NodeProcess } from "./node-process.ts";
import { hasS3Server, s3ServerNeed, startS3Server, type S3Server } from "./s3-server.ts";

/** Whether tests of a cluster run here. */
export const hasCluster = hasEtcd && hasS3Server;

/** What to add to the name of a suite that is skipped. */
export const clusterNeed = `${etcdNeed}${s3ServerNeed}`;

/** How long a lease outlives its node. */
export const leaseTtlMs = 10_000;

/** Tries until it does not throw, and throws what it last threw when the time is over. */
export async function eventually<Value>(withinMs: number, act: () => Promise<Value>): Promise<Value> {
  const endMs = performance.now() + withinMs;
  for (;;) {
    try {
      return await act();
    } catch (error) {
      if (performance.now() > endMs) throw error;
    }
    await pause(50);
  }
}

/** Who may write a database, as etcd has it. */
export interface WriterRecord {
  /** The node's identity, not its name. */
  readonly node: string;
  readonly address: string;
  readonly leaseEpoch: number;
  /** The etcd lease on which it hangs. */
  readonly leaseId: string;
}

/** The links of one node. */
export interface NodeLinks {
  readonly coordination: LinkProxy;
  readonly store: LinkProxy;
  /** From the other nodes to this one. */
  readonly peers: LinkProxy;
}

export type LinkName = keyof NodeLinks;
export const linkNames: readonly LinkName[] = ["coordination", "store", "peers"];

/** What a node runs. */
export interface Build {
  /** Another entry than that of the sources. */
  readonly entry?: string;
  /** Another Node.js than the test's. */
  readonly runtime?: string;
}

export class ClusterNode {
  readonly name: string;
  readonly directory: string;
  readonly port: number;
  readonly links: NodeLinks;
  readonly #variables: Record<string, string>;
  #entry: string | undefined;
  #runtime: string | undefined;
  readonly #logs: string[] = [];
  #process: NodeProcess | undefined;
  #isPaused = false;

  constructor(
    name: string,
    directory: string,
    port: number,
    links: NodeLinks,
    variables: Record<string, string>,
    entry: string | undefined,
  ) {
    this.name = name;
    this.directory = directory;
    this.port = port;
    this.links = links;
    this.#variables = variables;
    this.#entry = entry;
  }

  /** Where clients reach it. */
  get address(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get isUp(): boolean {
    return this.#process !== undefined;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  get pid(): number {
    if (this.#process?.child.pid === undefined) throw new Error(`${this.name} is down`);
    return this.#process.child.pid;
  }

  /** Its identity, which manifests and leases name. */
  get id(): string {
    return readFileSync(join(this.directory, "node-id"), "utf8").trim();
  }

  /** Everything that it has logged, through all its starts. */
  log(): string {
    return [...this.#logs, this.#process?.log() ?? ""].join("");
  }

  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): ReturnType<typeof callRest> {
    return callRest(this.port, method, path, body, headers);
  }

  async start(): Promise<void> {
    this.#process = await startNodeProcess(this.directory, this.#variables, this.#entry, this.port, this.#runtime);
  }

  /** Stops it and starts it as another build, or on another Node.js; by default the sources, on that of the test. */
  async restartAs({ entry, runtime }: Build = {}): Promise<void> {
    await this.stop();
    this.#entry = entry;
    this.#runtime = runtime;
    await this.start();
  }

  /** As the kernel or a power cut ends it: nothing is finished, and what is on disk stays. */
  kill(): Promise<void> {
    return this.#end("SIGKILL");
  }

  /** As an operator stops it. */
  stop(): Promise<void> {
    return this.#end("SIGTERM");
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const ended = this.#process;
    if (!ended) return;
    await ended.end(signal);
    this.#process = undefined;
    this.#isPaused = false;
    this.#logs.push(ended.log());
  }

  /** Keeps the process from running, with its connections open. */
  pause(): void {
    this.#isPaused = this.#process?.child.kill("SIGSTOP") === true;
  }

  resume(): void {
    this.#process?.child.kill("SIGCONT");
    this.#isPaused = false;
  }

  /** The loss of its disk: of its databases, or with its identity too. The node must be down. */
  wipe(everything = false): void {
    if (this.#process) throw new Error(`${this.name} is up`);
    rmSync(everything ? this.directory : join(this.directory, "db"), { recursive: true, force: true });
  }
}

export interface ClusterOptions {
  readonly nodes?: number;
  /** Added to every node's variables. */
  readonly variables?: Record<string, string>;
  /** Another entry of the nodes than that of the sources. */
  readonly entry?: string | undefined;
  /** Whether the nodes have SERVICE_COORD. */
  readonly coordinated?: boolean;
  /**
   * Whether links lie between the nodes and everything else; without them nothing can be broken, and nothing costs
   * time.
   */
  readonly linked?: boolean;
}

export class Cluster {
  readonly etcd: EtcdServer;
  readonly store: S3Server;
  readonly nodes: ClusterNode[] = [];
  readonly #root = mkdtempSync(join(tmpdir(), "palimpsest-cluster-"));
  readonly #options: ClusterOptions;
  readonly #shared: Record<string, string>;

  private constructor(etcd: EtcdServer, store: S3Server, options: ClusterOptions) {
    this.etcd = etcd;
    this.store = store;
    this.#options = options;
    const signingKey = generateKeyPairSync("ed25519")
      .privateKey.export({ format: "der", type: "pkcs8" })
      .toString("base64");
    this.#shared = {
      SERVICE_CLUSTER_KEY: "cluster-key-of-the-tests",
      SERVICE_AUTH_KEY: signingKey,
      SERVICE_CONTROL_RATE: "1000",
      SERVICE_LOG_LEVEL: "info",
    };
  }

  /** Starts the servers and the nodes a, b, c and so on, and resolves when all of them are ready. */
  static async start(options: ClusterOptions = {}): Promise<Cluster> {
    const store = await startS3Server();
    const etcd = await startEtcd();
    const cluster = new Cluster(etcd, store, options);
    try {
      await Promise.all(
        Array.from({ length: options.nodes ?? 3 }, (_, index) => cluster.join(String.fromCharCode(97 + index))),
      );
      cluster.nodes.sort((a, b) => a.name.localeCompare(b.name));
      await cluster.whole();
      return cluster;
    } catch (error) {
      await cluster.end();
      throw error;
    }
  }

  /** A new node with an empty disk. */
  async join(name: string): Promise<ClusterNode> {
    const port = await freePort();
    const links = {
      coordination: await LinkProxy.open(Number(new URL(this.etcd.endpoint).port)),
      store: await LinkProxy.open(Number(new URL(this.store.endpoint).port)),
      peers: await LinkProxy.open(port),
    };
    const pickAddress = (link: LinkProxy, direct: string): string =>
      this.#options.linked === false ? direct : `http://127.0.0.1:${link.port}`;
    const variables = {
      ...this.store.variables,
      AWS_ENDPOINT_URL_S3: pickAddress(links.store, this.store.endpoint),
      SERVICE_OBJECT_STORE: this.store.buildUrl("cluster"),
      SERVICE_ADVERTISE: pickAddress(links.peers, `http://127.0.0.1:${port}`),
      SERVICE_NODE_ID: name,
      ...this.#shared,
      ...(this.#options.coordinated === false
        ? { SERVICE_SINGLE_NODE: "1" }
        : { SERVICE_COORD: pickAddress(links.coordination, this.etcd.endpoint) }),
      ...this.#options.variables,
    };
    const node = new ClusterNode(name, join(this.#root, name), port, links, variables, this.#options.entry);
    this.nodes.push(node);
    await node.start();
    return node;
  }

  /** Stops a node for good. */
  async leave(node: ClusterNode): Promise<void> {
    this.nodes.splice(this.nodes.indexOf(node), 1);
    await node.stop();
    for (const name of linkNames) await node.links[name].close();
  }

  /** Who holds the database, as etcd itself says, past every broken link; undefined when nobody does. */
  async readWriter(uuid: string): Promise<WriterRecord | undefined> {
    const { kvs } = await this.etcd.call("kv/range", {
      key: Buffer.from(`palimpsest/writer/${uuid}`).toString("base64"),
    });
    const [found] = (kvs ?? []) as { value: string; lease: string }[];
    if (!found) return undefined;
    const { node, address, term } = JSON.parse(Buffer.from(found.value, "base64").toString());
    return { node, address, leaseEpoch: term, leaseId: found.lease };
  }

  /** The node that holds the database; throws when nobody does, or a stranger. */
  async findOwner(uuid: string): Promise<ClusterNode> {
    const writer = await this.readWriter(uuid);
    const owner = writer && this.nodes.find((node) => node.id === writer.node);
    if (!owner) throw new Error(`the database is held by ${JSON.stringify(writer)}`);
    return owner;
  }

  /** The nodes that do not hold the database. */
  async findOthers(uuid: string): Promise<readonly ClusterNode[]> {
    const owner = await this.findOwner(uuid);
    return this.nodes.filter((node) => node !== owner);
  }

  /** Takes a node's lease away, and with it everything that it holds, though it lives. */
  async revoke(leaseId: string): Promise<void> {
    await this.etcd.call("lease/revoke", { ID: leaseId });
  }

  /** Waits until every node has a lease, and with it may take databases. */
  async whole(): Promise<void> {
    if (this.#options.coordinated === false) return;
    const prefix = "palimpsest/nodes/";
    // The end of a range in etcd: the next key that does not begin so.
    const range = {
      key: Buffer.from(prefix).toString("base64"),
      range_end: Buffer.from("palimpsest/nodes0").toString("base64"),
      keys_only: true,
    };
    await eventually(60_000, async () => {
      const { kvs } = await this.etcd.call("kv/range", range);
      const leased = ((kvs ?? []) as { key: string }[]).map(({ key }) =>
        Buffer.from(key, "base64").toString().slice(prefix.length),
      );
      const without = this.nodes.filter(({ id }) => !leased.includes(id));
      if (without.length > 0) throw new Error(`without a lease: ${without.map(({ name }) => name).join(", ")}`);
    });
  }

  /** Restores every link, wakes every process, starts every node that is down, and waits for their leases. */
  async heal(): Promise<void> {
    this.etcd.awaken();
    this.store.awaken();
    for (const node of this.nodes) {
      for (const name of linkNames) node.links[name].restore();
      node.resume();
    }
    for (const node of this.nodes) if (!node.isUp) await eventually(30_000, () => node.start());
    await this.whole();
  }

  /** Kills everything and removes what it has stored. */
  async end(): Promise<void> {
    for (const node of this.nodes) {
      await node.kill();
      for (const name of linkNames) await node.links[name].close();
    }
    await this.etcd.end();
    await this.store.end();
    rmSync(this.#root, { recursive: true, force: true });
  }
}
