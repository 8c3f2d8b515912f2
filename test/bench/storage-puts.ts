/**
 * What shipping puts into object storage, counted: how many puts a durable write costs, and how many bytes a byte of
 * changed pages. One engine in process over a store in memory, on virtual time, so that an hour takes a minute.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { silentLog } from "../../src/base/log.ts";
import { EngineClient } from "../../src/engine/threads/client.ts";
import { Engine } from "../../src/engine/engine.ts";
import type { FromEngine } from "../../src/engine/api/protocol.ts";
import { decodeManifest } from "../../src/format/history/manifest.ts";
import { pageBytes } from "../../src/format/history/pages.ts";
import { inlinePress } from "../../src/format/core/compression.ts";
import { readSegmentIndexes } from "../../src/format/history/segment.ts";
import { MemoryStore } from "../../src/store/memory-store.ts";
import type { PutCondition, PutOutcome } from "../../src/store/port/object-store.ts";
import { Scheduler } from "../sim/scheduler.ts";
import { SimWorld } from "../sim/sim-world.ts";
import { inlineOptions, uuidOf } from "../support/inline-engine.ts";
import { report, type Row } from "./report.ts";
import { texts } from "./words.ts";
import { soundDisk } from "../support/sound-disk.ts";

/** Puts and their bytes, by what was put. */
interface Histogram {
  puts: number;
  bytes: number;
}

const kinds = ["deltas", "packs", "images", "heads", "tails", "other"] as const;
type Kind = (typeof kinds)[number];

/** A store in memory that knows what was put into it. */
class CountingStore extends MemoryStore {
  readonly tallies = Object.fromEntries(kinds.map((kind) => [kind, { puts: 0, bytes: 0 }])) as Record<Kind, Histogram>;
  /** Pages that groups changed, before compression, and after it. */
  changedBytes = 0;
  pressedBytes = 0;
  #knownTxid = 0;

  override async put(key: string, bytes: Uint8Array, condition: PutCondition): Promise<PutOutcome> {
    const outcome = await super.put(key, bytes, condition);
    if (outcome.kind === "stored") this.#count(key, bytes);
    return outcome;
  }

  /** Begins to count anew. */
  reset(): void {
    for (const kind of kinds) this.tallies[kind] = { puts: 0, bytes: 0 };
    this.changedBytes = 0;
    this.pressedBytes = 0;
  }

  #count(key: string, bytes: Uint8Array): void {
    const folder = key.split("/")[2];
    if (folder === "head") {
      const { tail } = decodeManifest(bytes);
      const tailBytes = tail.reduce((sum, entry) => sum + entry.bytes.length, 0);
      this.#add("heads", bytes.length - tailBytes);
      this.tallies.tails.bytes += tailBytes;
      for (const entry of tail) this.#changes(entry.bytes);
    } else if (folder === "seg") {
      const isImage = readSegmentIndexes(bytes)[0]!.kind === "image";
      const isNew = !isImage && this.#changes(bytes);
      // What adds no group is a pack, or a tail that moved into an object together with new groups.
      this.#add(isImage ? "images" : isNew ? "deltas" : "packs", bytes.length);
    } else {
      this.#add("other", bytes.length);
    }
  }

  #add(kind: Kind, bytes: number): void {
    this.tallies[kind].puts++;
    this.tallies[kind].bytes += bytes;
  }

  /** Counts the groups that were not seen before; whether there were any. */
  #changes(bytes: Uint8Array): boolean {
    let isNew = false;
    for (const index of readSegmentIndexes(bytes)) {
      const groups = index.groups.filter(({ txid }) => txid > this.#knownTxid);
      if (groups.length === 0) continue;
      isNew = true;
      this.changedBytes += groups.reduce((sum, { pageNumbers }) => sum + pageNumbers.length, 0) * pageBytes;
      this.pressedBytes += index.bytes;
      this.#knownTxid = groups.at(-1)!.txid;
    }
    return isNew;
  }
}

interface TimedNode {
  readonly store: CountingStore;
  readonly client: EngineClient;
  readonly world: SimWorld;
  /** Lets virtual time pass until the promise settles. */
  of<Value>(promise: Promise<Value>): Promise<Value>;
  pass(ms: number): Promise<void>;
}

/** An engine on virtual time; fsyncs return at once. */
function timedNode(directory: string): TimedNode {
  const scheduler = new Scheduler(1, 0);
  const world = new SimWorld(scheduler, 1, "bench");
  const store = new CountingStore(world);
  const options = inlineOptions(directory, { idleCloseMs: 10 * 3_600_000 });
  for (const path of [options.databasesDirectory, options.scratchDirectory]) mkdirSync(path, { recursive: true });
  let engine: Engine | undefined;
  let hear: ((message: FromEngine) => void) | undefined;
  const client = new EngineClient(
    1,
    () => ({
      listen(listener) {
        hear = listener;
        engine = new Engine({
          options,
          world,
          disk: soundDisk,
          store,
          press: inlinePress,
          indexBuilder: undefined,
          send: listener,
        });
      },
      send(message) {
        if (message.kind === "measure" || message.kind === "sql-ran") return;
        if (message.kind !== "close") world.soon(() => engine!.hear(message));
        else void engine!.close().then(() => hear!({ kind: "closed", counters: engine!.counters }));
      },
    }),
    undefined,
    world,
    silentLog,
  );
  const of = async <Value>(promise: Promise<Value>): Promise<Value> => {
    let settled = false;
    const end = (): void => void (settled = true);
    promise.then(end, end);
    await scheduler.run(() => settled, Infinity);
    return promise;
  };
  return { store, client, world, of, pass: (ms) => of(scheduler.sleep(ms)) };
}

const source = texts(3);
const sentences = Array.from({ length: 2_048 }, () => source.sentence(12));
const target = { uuid: uuidOf(1), branch: "main" };

type Write = (node: TimedNode, step: number, durable: boolean) => Promise<unknown>;

const writes: Readonly<Record<string, Write>> = {
  "kv put": ({ client, world }, step, durable) =>
    client.write(
      target,
      "kv.put",
      { ns: "n", key: `key-${step % 1_000}`, value: Buffer.from(sentences[step % sentences.length]!) },
      { deadlineMs: world.monotonicMs() + 60_000, durable },
    ),
  ingest: ({ client, world }, step, durable) => {
    const text = sentences[step % sentences.length]!;
    const memories = [
      { type: "event", summary: `${text} ${step}`, content: JSON.stringify({ text, step }), sessionId: "bench" },
    ];
    return client.write(target, "memory.ingest", { memories }, { deadlineMs: world.monotonicMs() + 60_000, durable });
  },
};

function sumPuts({ tallies }: CountingStore): number {
  return kinds.reduce((sum, kind) => sum + tallies[kind].puts, 0);
}

async function durablePuts(directory: string, what: string, write: Write): Promise<Row> {
  const count = 500;
  const node = timedNode(join(directory, `durable-${what.replace(" ", "-")}`));
  await node.of(write(node, 0, true));
  node.store.reset();
  for (let step = 1; step <= count; step++) await node.of(write(node, step, true));
  const { tallies } = node.store;
  const spills = tallies.deltas.puts + tallies.packs.puts;
  const kibibytes = (node.store.pressedBytes / count / 1024).toFixed(1);
  const note =
    `${(sumPuts(node.store) / count).toFixed(3)} conditional puts per write (target 1.1): ` +
    `${tallies.heads.puts} manifests, ${spills} segments and packs, ${tallies.images.puts} images, ` +
    `${tallies.other.puts} other; ` +
    `${kibibytes} KiB compressed per write`;
  await node.of(node.client.close());
  return { what: `${count} durable writes one after another, ${what}`, note };
}

async function steadyHour(
  directory: string,
  what: string,
  write: Write,
  perSecond: number,
  durable: boolean,
): Promise<Row> {
  const node = timedNode(join(directory, `hour-${what.replace(" ", "-")}-${durable}`));
  const seconds = 3_600;
  for (let second = 0; second < seconds; second++) {
    for (let one = 0; one < perSecond; one++) {
      await node.of(write(node, second * perSecond + one, durable));
      await node.pass(1_000 / perSecond - 1);
    }
  }
  await node.pass(5_000);
  const { tallies, changedBytes, pressedBytes } = node.store;
  const bytes = kinds.reduce((sum, kind) => sum + (kind === "tails" ? 0 : tallies[kind].bytes), 0);
  const of = (kind: Kind): string => `${kind} ${(tallies[kind].bytes / changedBytes).toFixed(2)}`;
  const split = kinds
    .filter((kind) => kind !== "tails")
    .map(of)
    .join(", ");
  await node.of(node.client.close());
  return {
    what: `an hour of ${perSecond} ${what} a second, ${durable ? "durable" : "standard"}`,
    note:
      `${(bytes / changedBytes).toFixed(2)} bytes put per byte of changed pages (target 6; ` +
      `${(bytes / pressedBytes).toFixed(2)} per compressed byte): ${split}; besides, the tail rewritten in manifests ` +
      `${(tallies.tails.bytes / changedBytes).toFixed(2)}; ` +
      `${(sumPuts(node.store) / (seconds * perSecond)).toFixed(2)} puts per write, ` +
      `${(changedBytes / 2 ** 20).toFixed(0)} MiB changed`,
  };
}

export async function benchPuts(directory: string): Promise<void> {
  const rows: Row[] = [];
  for (const [what, write] of Object.entries(writes)) rows.push(await durablePuts(directory, what, write));
  rows.push(await steadyHour(directory, "kv put", writes["kv put"]!, 2, false));
  rows.push(await steadyHour(directory, "ingest", writes["ingest"]!, 2, false));
  rows.push(await steadyHour(directory, "ingest", writes["ingest"]!, 1, true));
  report("What is put into object storage (one engine on virtual time)", rows);
}
