/**
 * Trouble of every kind for a cluster under load, by a seed: processes are killed, stopped and paused, disks are lost,
 * etcd and object storage fall silent or are killed, links break in each way. In the end everything heals, what is
 * there is read from every node and from one with an empty disk, and the checker judges.
 */
import { setTimeout as pause } from "node:timers/promises";
import { Cluster, type ClusterNode, eventually, leaseTtlMs, linkNames } from "./cluster.ts";
import { ClusterLoad } from "./cluster-load.ts";
import { checkHistory, type FinalState, type Trouble, type Verdict } from "./history-checker.ts";
import { seeded } from "./random.ts";

/** How long a healed cluster may take until every node takes durable writes for every database again. */
const recoveryMs = 60_000;
/** A healthy writer ships every second; a machine that runs everything here may be slow. */
const shipsWithinMs = 5_000;

/** Makes trouble, one kind at a time with processes and one with what is around them. */
class Nemesis {
  readonly troubles: Trouble[] = [];
  readonly counts = new Map<string, number>();
  readonly #cluster: Cluster;
  readonly #random: () => number;

  constructor(cluster: Cluster, random: () => number) {
    this.#cluster = cluster;
    this.#random = random;
  }

  async run(durationMs: number): Promise<void> {
    const endMs = performance.now() + durationMs;
    const loop = async (trouble: () => Promise<void>): Promise<void> => {
      for (;;) {
        await pause(this.#between(500, 4_000));
        if (performance.now() > endMs) return;
        await trouble();
      }
    };
    await Promise.all([loop(() => this.#troubleProcess()), loop(() => this.#troubleSurroundings())]);
  }

  #between(low: number, high: number): number {
    return low + this.#random() * (high - low);
  }

  /** Shorter than a lease, or longer, so that others take what was held. */
  #aroundLease(): number {
    return this.#random() < 0.5
      ? this.#between(1_000, leaseTtlMs - 1_000)
      : this.#between(leaseTtlMs + 1_000, leaseTtlMs + 6_000);
  }

  #one<Item>(items: readonly Item[]): Item {
    return items[Math.floor(this.#random() * items.length)]!;
  }

  async #suffer(what: string, overtakes: boolean, act: () => Promise<void>): Promise<void> {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
    const startMs = performance.now();
    await act();
    this.troubles.push({ what, overtakes, startMs, endMs: performance.now() });
  }

  async #troubleProcess(): Promise<void> {
    const node = this.#one(this.#cluster.nodes);
    const draw = this.#random();
    if (draw < 0.4) return this.#kill(node);
    if (draw < 0.55) {
      // What it has acknowledged is shipped before it goes.
      return this.#suffer("stop", false, async () => {
        await node.stop();
        await this.#startAgain(node, this.#between(0, 2_000));
      });
    }
    return this.#suffer("pause", true, async () => {
      node.pause();
      await pause(this.#aroundLease());
      node.resume();
    });
  }

  #kill(node: ClusterNode): Promise<void> {
    const draw = this.#random();
    const loss = draw < 0.15 ? "kill and lose the disk" : draw < 0.35 ? "kill and lose the databases" : "kill";
    return this.#suffer(loss, true, async () => {
      await node.kill();
      if (loss !== "kill") node.wipe(draw < 0.15);
      await this.#startAgain(node, this.#random() < 0.5 ? 0 : this.#between(0, 13_000));
    });
  }

  async #startAgain(node: ClusterNode, afterMs: number): Promise<void> {
    await pause(afterMs);
    // A node does not start without object storage, which may be away just now.
    await eventually(recoveryMs, () => node.start());
  }

  async #troubleSurroundings(): Promise<void> {
    const draw = this.#random();
    if (draw < 0.12) return this.#freeze("etcd is silent", false, this.#cluster.etcd, 14_000);
    if (draw < 0.24) return this.#restart("etcd is killed", false, this.#cluster.etcd, 14_000);
    if (draw < 0.34) return this.#freeze("object storage is silent", true, this.#cluster.store, 6_000);
    if (draw < 0.44) return this.#restart("object storage is killed", true, this.#cluster.store, 6_000);
    const name = this.#one(linkNames);
    const link = this.#one(this.#cluster.nodes).links[name];
    const how = this.#one(["cut", "silent", "silent requests", "silent answers", "slow"] as const);
    // A node that does not reach object storage gives up what it holds, and with it what it could not ship.
    await this.#suffer(`${name}: ${how}`, name === "store" && how !== "slow", async () => {
      if (how === "cut") link.cut();
      else if (how === "slow") link.delay(this.#between(20, 500));
      else if (how === "silent") link.silence();
      else link.silence(how === "silent requests" ? "requests" : "answers");
      await pause(this.#aroundLease());
      link.restore();
    });
  }

  /** Kills the server as a power cut would, and starts it again on what it had stored. */
  #restart(
    what: string,
    overtakes: boolean,
    server: { stop(): Promise<void>; start(): Promise<void> },
    msMax: number,
  ): Promise<void> {
    return this.#suffer(what, overtakes, async () => {
      await server.stop();
      await pause(this.#between(0, msMax));
      await server.start();
    });
  }

  #freeze(what: string, overtakes: boolean, server: { freeze(): void; awaken(): void }, msMax: number): Promise<void> {
    return this.#suffer(what, overtakes, async () => {
      server.freeze();
      await pause(this.#between(1_000, msMax));
      server.awaken();
    });
  }
}

export interface ChaosOptions {
  readonly seed: number;
  readonly durationMs: number;
  /** Another entry of the nodes than that of the sources. */
  readonly entry?: string | undefined;
  /** Told what happens. */
  readonly say: (text: string) => void;
}

export interface ChaosEnd {
  readonly verdict: Verdict;
  /** Answers that no client should get. */
  readonly faults: readonly string[];
}

/** Puts the cluster under load and trouble for so long, heals it, and judges. */
export async function runChaos({ seed, durationMs, entry, say }: ChaosOptions): Promise<ChaosEnd> {
  const random = seeded(seed);
  const cluster = await Cluster.start({
    entry,
    variables: {
      SERVICE_REQUEST_TIMEOUT: "8",
      SERVICE_GC_GRACE_SECS: "5",
      SERVICE_PITR_SECS: "60",
      SERVICE_LOG_LEVEL: "warn",
    },
  });
  try {
    const load = new ClusterLoad(cluster, { random: seeded(seed + 1) });
    await load.prepare();
    load.begin();
    const nemesis = new Nemesis(cluster, random);
    await nemesis.run(durationMs);
    await cluster.heal();
    const verdict = await judge(cluster, load, nemesis.troubles, say);
    const told = (counts: ReadonlyMap<string, number>): string =>
      JSON.stringify(Object.fromEntries([...counts].toSorted()));
    say(
      `seed ${seed}: ${JSON.stringify(verdict.counts)}\ntrouble: ${told(nemesis.counts)}\n` +
        `refusals: ${told(load.refusals)}`,
    );
    for (const { rule, what } of verdict.violations) say(`${rule}: ${what}`);
    for (const fault of load.faults) say(`fault: ${fault}`);
    return { verdict, faults: load.faults };
  } finally {
    await cluster.end();
  }
}

/**
 * Ends the load on a healed cluster, reads what is there from every node and from one with an empty disk, and holds the
 * load's history against it.
 */
export async function judge(
  cluster: Cluster,
  load: ClusterLoad,
  troubles: readonly Trouble[],
  say: (text: string) => void,
): Promise<Verdict> {
  const healedMs = performance.now();
  const leastTxids = await expectRecovery(cluster, load);
  say(
    `every node takes durable writes ${((performance.now() - healedMs) / 1_000).toFixed(1)} s after ` +
      "everything was healed",
  );
  await load.end();
  for (const database of load.databases) leastTxids.set(database, await newestTxid(cluster, database));
  const { finals, probes } = await lookAtAll(cluster, load, leastTxids);
  return checkHistory({ operations: load.operations, troubles, finals, probes, shipsWithinMs });
}

/** Every node takes a durable write for every database; gives the newest transaction ids. */
async function expectRecovery(cluster: Cluster, { databases }: ClusterLoad): Promise<Map<string, number>> {
  const txids = new Map<string, number>();
  await eventually(recoveryMs, async () => {
    for (const node of cluster.nodes) {
      for (const database of databases) {
        const { status, text, json } = await node.call("PUT", `/v1/db/${database}/kv/after/${node.name}`, "healed", {
          "content-type": "text/plain",
          "service-durability": "durable",
        });
        if (status !== 200) throw new Error(`${node.name} does not take a durable write of ${database}: ${text}`);
        txids.set(database, json.txid);
      }
    }
  });
  return txids;
}

async function newestTxid(cluster: Cluster, database: string): Promise<number> {
  return eventually(recoveryMs, async () => {
    const { status, text, json } = await cluster.nodes[0]!.call("POST", `/v1/db/${database}/sync`, {});
    if (status !== 200) throw new Error(`${database} is not synced: ${text}`);
    return json.txid;
  });
}

/** What every node shows, one with an empty disk first, each as a replica and then through the writer. */
async function lookAtAll(
  cluster: Cluster,
  load: ClusterLoad,
  leastTxids: ReadonlyMap<string, number>,
): Promise<{ finals: FinalState[]; probes: Awaited<ReturnType<ClusterLoad["probe"]>> }> {
  const nodes = [...cluster.nodes];
  const fresh = await cluster.join("fresh");
  const finals = [await load.finalState(fresh, leastTxids)];
  for (const node of nodes) {
    finals.push(await load.finalState(node, leastTxids));
    const primary = await load.finalState(node, leastTxids, { "service-consistency": "primary" });
    finals.push({ ...primary, name: `${node.name}, primary` });
  }
  for (const database of load.databases) {
    for (const node of [fresh, ...nodes]) {
      const { json, text } = await node.call("POST", `/v1/db/${database}/sql`, {
        stmts: [{ q: "PRAGMA integrity_check" }],
      });
      if (JSON.stringify(json?.results?.[0]?.rows) !== '[["ok"]]')
        throw new Error(`${database} at ${node.name} is not sound: ${text}`);
    }
  }
  const probes = [...(await load.probe(nodes[0]!, finals[0]!)), ...(await load.probe(fresh, finals[0]!))];
  await cluster.leave(fresh);
  return { finals, probes };
}
