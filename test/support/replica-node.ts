/** A node that only reads what another one writes, over a store of which the test sees and changes what comes back. */
import { join } from "node:path";
import type { ReadInput, ReadKind, ReadOutput } from "../../src/model/commands.ts";
import type { CallOptions } from "../../src/engine/api/engine-port.ts";
import type { Answer, EngineOptions } from "../../src/engine/api/protocol.ts";
import { Connection } from "../../src/sqlite/connection/connection.ts";
import type { Disk } from "../../src/base/disk.ts";
import type { ObjectStore, ObjectVersion, StoredObject } from "../../src/store/port/object-store.ts";
import type { ScriptedStore } from "./scripted-store.ts";
import { temporaryDirectory } from "./temporary.ts";
import { TimedEngine, type VirtualTime } from "./timed-engine.ts";
import { soundDisk } from "./sound-disk.ts";

/** What a get came to. */
interface Got {
  readonly key: string;
  readonly bytes: number;
  readonly isSame: boolean;
}

/** The shared store as one node reaches it. */
export class WatchedStore implements ObjectStore {
  readonly #store: ScriptedStore;
  /** Every get that was answered. */
  got: Got[] = [];
  /** Changes what a get gives, as a cache or a proxy in between would. Undefined: nothing is changed. */
  between:
    | ((key: string, found: StoredObject | undefined) => StoredObject | undefined | Promise<StoredObject | undefined>)
    | undefined;

  constructor(store: ScriptedStore) {
    this.#store = store;
  }

  get(key: string): Promise<StoredObject | undefined>;
  get(key: string, heldVersion: ObjectVersion | undefined): Promise<StoredObject | "same" | undefined>;
  async get(key: string, heldVersion?: ObjectVersion): Promise<StoredObject | "same" | undefined> {
    const stored = await this.#store.get(key);
    const found = this.between ? await this.between(key, stored) : stored;
    const isSame = found !== undefined && found.version === heldVersion;
    this.got.push({ key, bytes: isSame ? 0 : (found?.bytes.length ?? 0), isSame });
    return isSame ? "same" : found;
  }

  put(...put: Parameters<ObjectStore["put"]>): ReturnType<ObjectStore["put"]> {
    return this.#store.put(...put);
  }

  delete(key: string): Promise<void> {
    return this.#store.delete(key);
  }

  list(...list: Parameters<ObjectStore["list"]>): ReturnType<ObjectStore["list"]> {
    return this.#store.list(...list);
  }

  purgeVersions(): ReturnType<ObjectStore["purgeVersions"]> {
    return this.#store.purgeVersions();
  }

  /** Gets of keys in that folder of a database since the last `forget`. */
  of(folder: string): readonly Got[] {
    return this.got.filter(({ key }) => key.split("/")[2] === folder);
  }

  forget(): void {
    this.got = [];
  }
}

/** A node that holds nothing. */
export class ReplicaNode extends TimedEngine {
  readonly seen: WatchedStore;
  readonly #time: VirtualTime;
  readonly #own: Partial<EngineOptions>;

  constructor(
    time: VirtualTime,
    options: Partial<EngineOptions> = {},
    directory = temporaryDirectory(),
    disk: Disk = soundDisk,
  ) {
    const seen = new WatchedStore(time.store);
    super(time, { nodeId: "replica", coordinated: true, ...options }, directory, seen, disk);
    this.seen = seen;
    this.#time = time;
    this.#own = options;
  }

  /** The same node in a new process, after this one was killed. */
  restarted(): ReplicaNode {
    this.kill();
    return new ReplicaNode(this.#time, this.#own, this.directory);
  }

  /** A read; not awaited yet. */
  reading<Kind extends ReadKind>(
    command: Kind,
    input: ReadInput<Kind>,
    more: Partial<CallOptions> = {},
    branch = "main",
  ): Promise<Answer<ReadOutput<Kind>>> {
    return this.client.read(this.at(branch), command, input, this.soon(more));
  }

  read<Kind extends ReadKind>(
    command: Kind,
    input: ReadInput<Kind>,
    more: Partial<CallOptions> = {},
  ): Promise<Answer<ReadOutput<Kind>>> {
    return this.#time.of(this.reading(command, input, more));
  }

  listing(more: Partial<CallOptions> = {}, branch = "main"): Promise<readonly string[]> {
    return this.reading("kv.list", { ns: "n", limit: 10_000 }, more, branch).then(({ value }) => value.keys);
  }

  /** The keys with what a call asks. */
  list(more: Partial<CallOptions> = {}, branch = "main"): Promise<readonly string[]> {
    return this.#time.of(this.listing(more, branch));
  }

  path(branchId = "main"): string {
    return join(this.directory, "db", this.uuid, `${branchId}.db`);
  }

  /** Looks into the node's own file. */
  inFile<Value>(look: (connection: Connection) => Value, branchId = "main"): Value {
    const connection = new Connection(this.path(branchId), { readonly: true, pageCacheKiB: 256 });
    try {
      return look(connection);
    } finally {
      connection.close();
    }
  }

  integrity(): unknown {
    return this.inFile((connection) => connection.raw.pragma("integrity_check", { simple: true }));
  }
}
