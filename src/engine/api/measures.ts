/**
 * What an engine thread measures of itself, for operators.
 *
 * Always true: numbers only, of all databases of the thread together; nothing here names one. A look costs a few reads
 * for each open database; between looks there is only the cost of the counts.
 */
import { LoopDelay } from "../../base/loop-delay.ts";
import { shortBoundsMs, Histogram, type HistogramCounts } from "../../base/collections/histogram.ts";
import type { World } from "../../base/world.ts";
import type { Disk } from "../../base/disk.ts";
import type { MeasuredStore, StoreMeasures } from "../../store/measured-store.ts";
import type { AlarmCounts } from "./alarms.ts";

/** What waits in one open database. */
export interface Backlog {
  /** Writes that wait for their turn. */
  readonly writes: number;
  /** Transactions that object storage does not cover yet, their bytes of log, about, and the age of the oldest. */
  readonly txids: number;
  readonly bytes: number;
  readonly ms: number;
}

/** What an engine thread has done since it started. */
export interface EngineCounters {
  readonly groups: number;
  readonly writes: number;
  readonly fsyncs: number;
  /** Conditional puts of manifests that landed. */
  readonly manifestPuts: number;
  /** Bytes put into pools, manifests included. */
  readonly bytesPut: number;
  readonly opened: number;
  readonly evicted: number;
  /** Commands, or groups of them, that were stopped at the end of their time slice. */
  readonly stopped: number;
}

/** What waits in all open databases together, and in the one where it is most. */
export interface Backlogs extends Backlog {
  readonly databases: number;
  readonly writesMax: number;
}

/** Adds up what waits; ages are not added, the oldest counts. */
export function sumBacklogs(databases: Iterable<{ readonly backlog: Backlog }>): Backlogs {
  let [count, writes, writesMax, txids, bytes, ms] = [0, 0, 0, 0, 0, 0];
  for (const { backlog } of databases) {
    count++;
    writes += backlog.writes;
    writesMax = Math.max(writesMax, backlog.writes);
    txids += backlog.txids;
    bytes += backlog.bytes;
    ms = Math.max(ms, backlog.ms);
  }
  return { databases: count, writes, writesMax, txids, bytes, ms };
}

/** Copies of branches that another node writes. */
export interface ReplicaMeasures {
  readonly open: number;
  /** By how many transaction ids the one that lags most is behind the newest manifest that was seen. */
  readonly lagTxidsMax: number;
  /** Since the one that was looked at least recently was compared with its manifest. */
  readonly lookedMsMax: number;
}

/** Earlier states that were restored to be read. */
export interface PastMeasures {
  readonly states: number;
  readonly bytes: number;
  /** Since the start. */
  readonly restored: number;
}

/** What an engine has done and holds. */
export interface EngineState {
  readonly counters: EngineCounters;
  readonly backlogs: Backlogs;
  readonly packs: number;
  readonly rebases: number;
  /** Open branches whose history waits to be packed: packing failed, or there is much of it. */
  readonly compactionsOwed: number;
  /** Objects of the longest timeline of an open branch. */
  readonly timelineRefsMax: number;
  readonly collections: number;
  readonly replicas: ReplicaMeasures;
  readonly past: PastMeasures;
  readonly vectorBytes: number;
  readonly alarms: AlarmCounts;
}

/** The same with what only the thread around it knows. */
export interface EngineMeasures extends EngineState {
  readonly syncs: HistogramCounts;
  readonly store: StoreMeasures;
  readonly loopDelay: HistogramCounts;
  readonly heapBytes: number;
}

/** Measures a thread's disk, store and loop. */
export class ThreadProbe {
  readonly #world: World;
  readonly #store: MeasuredStore;
  readonly #loopDelay: LoopDelay;
  readonly #syncs = new Histogram(shortBoundsMs);

  constructor(world: World, store: MeasuredStore) {
    this.#world = world;
    this.#store = store;
    this.#loopDelay = new LoopDelay(world);
  }

  /** The disk, with its fsyncs of data counted and timed. */
  disk(disk: Disk): Disk {
    return {
      write: (descriptor, path, bytes, position) => disk.write(descriptor, path, bytes, position),
      syncDirectory: (path) => disk.syncDirectory(path),
      fdatasync: (descriptor, path) => {
        const startedMs = this.#world.monotonicMs();
        const note = (): void => this.#syncs.note(this.#world.monotonicMs() - startedMs);
        const syncing = disk.fdatasync(descriptor, path);
        if (syncing) return syncing.then(note);
        note();
        return undefined;
      },
    };
  }

  /** The engine's state with the thread's own. */
  measures(state: EngineState): EngineMeasures {
    return {
      ...state,
      syncs: this.#syncs.counts,
      store: this.#store.measures,
      loopDelay: this.#loopDelay.counts,
      heapBytes: process.memoryUsage().heapUsed,
    };
  }

  stop(): void {
    this.#loopDelay.stop();
  }
}
