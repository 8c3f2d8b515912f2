/** Nodes that share databases, on one virtual clock over one store: the test is their coordination. */
import { ServiceError } from "../../src/base/faults/errors.ts";
import type { Told } from "../../src/engine/threads/client.ts";
import { TurnedAway, type CallOptions } from "../../src/engine/api/engine-port.ts";
import type { Answer, EngineOptions } from "../../src/engine/api/protocol.ts";
import { realDisk, type Disk } from "../../src/base/disk.ts";
import { temporaryDirectory } from "./temporary.ts";
import { TimedEngine, VirtualTime } from "./timed-engine.ts";
import { soundDisk } from "./sound-disk.ts";

/** How long a renewal lasts, unless a test says otherwise. */
export const leaseMs = 8_000;

/** A clock on which the store is audited, and epochs may leave some out. */
export function sharedTime(): VirtualTime {
  const time = new VirtualTime();
  time.store.audit().mayJump = true;
  return time;
}

export class LeasedNode extends TimedEngine {
  readonly told: Told[] = [];
  readonly name: string;

  constructor(
    time: VirtualTime,
    name: string,
    options: Partial<EngineOptions> = {},
    directory = temporaryDirectory(),
    disk: Disk = soundDisk,
  ) {
    super(time, { nodeId: name, coordinated: true, ...options }, directory, time.store, disk);
    this.name = name;
    this.client.tell((message) => this.told.push(message));
  }

  /** The lease is certain for so long, on both clocks. */
  async renew(forMs = leaseMs): Promise<void> {
    this.client.renewLease({ monotonicMs: this.world.monotonicMs() + forMs, wallMs: this.world.wallMs() + forMs });
    await this.time.pass(1);
  }

  /** The lease is known to be lost. */
  async lose(): Promise<void> {
    this.client.renewLease(undefined);
    await this.time.pass(1);
  }

  /** Holds the database under a lease that is certain for a while. */
  async hold(leaseEpoch: number, forMs = leaseMs): Promise<void> {
    await this.renew(forMs);
    await this.time.of(this.holding(leaseEpoch));
  }

  holding(leaseEpoch: number): Promise<void> {
    return this.client.hold(this.uuid, leaseEpoch, this.soon());
  }

  releaseDatabase(): Promise<void> {
    return this.time.of(this.client.releaseDatabase(this.uuid, this.soon()));
  }

  /** Reads the keys as of the call, as only the writer may answer. */
  primaryKeys(): Promise<readonly string[]> {
    return this.client
      .read(this.at("main"), "kv.list", { ns: "n", limit: 10_000 }, this.soon({ consistency: "primary" }))
      .then(({ value }) => value.keys);
  }

  removing(key: string, more: Partial<CallOptions> = {}): Promise<Answer<unknown>> {
    return this.client.write(this.at("main"), "kv.delete", { ns: "n", key }, this.soon(more));
  }

  /** Terms of the databases that the engine found to be another node's. */
  async fenced(): Promise<readonly number[]> {
    await this.time.pass(1);
    return this.told.flatMap((message) => (message.kind === "fenced" ? [message.leaseEpoch] : []));
  }
}

/** How a call ended: `done`, the code of its refusal, or why it was turned away. */
export async function describeOutcome(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => "done",
    (error: unknown) => {
      if (error instanceof TurnedAway) return error.reason;
      if (error instanceof ServiceError) return error.code;
      throw error;
    },
  );
}

/** A disk whose log syncs wait until the test lets them end. */
export class HeldDisk implements Disk {
  readonly write = realDisk.write;
  #gate: PromiseWithResolvers<void> | undefined;

  hold(): void {
    this.#gate ??= Promise.withResolvers<void>();
  }

  release(): void {
    this.#gate?.resolve();
    this.#gate = undefined;
  }

  async fdatasync(_descriptor: number, path: string): Promise<void> {
    if (path.endsWith("-wal")) await this.#gate?.promise;
  }

  async syncDirectory(): Promise<void> {}
}

/** Two nodes, the first of which holds the database and has written durably. */
export async function pair(first = new HeldDisk()): Promise<{ time: VirtualTime; a: LeasedNode; b: LeasedNode }> {
  const time = sharedTime();
  const [a, b] = [new LeasedNode(time, "a", {}, undefined, first), new LeasedNode(time, "b")];
  await a.hold(1);
  await a.put("first", "main", { durable: true });
  return { time, a, b };
}

/** What a node that knows nothing finds in object storage. */
export async function keysInStore(time: VirtualTime): Promise<readonly string[]> {
  return new TimedEngine(time, { nodeId: "looker" }).keys();
}

/** Holds back manifests on their way to the store until the promise resolves. */
export function holdManifests(time: VirtualTime, until: Promise<void>): void {
  time.store.decideFate = (verb, key) => (verb === "put" && key.includes("/head/") ? { held: until } : "fine");
}
