/**
 * Judges what clients of several nodes were told, beside what is there in the end.
 *
 * Every write adds a value that nobody else writes to a stream of a database, so that what is lost, what came twice and
 * what a read should have shown can be told by the values alone. Several writes may share a transaction id, as writes
 * of one moment are committed together; writes of which one was answered before the other was sent may not. A write
 * whose outcome is unknown may be there or not. Pure: the same history has the same verdict.
 */

/** A write that a client sent, and what came of it. */
export interface Write {
  readonly kind: "write";
  readonly client: string;
  /** The node that was asked. */
  readonly node: string;
  readonly database: string;
  /** A key's namespace, a session, a profile: what a read lists in one go. */
  readonly stream: string;
  readonly value: string;
  readonly startMs: number;
  readonly endMs: number;
  /** `failed` only when it surely had no effect. */
  readonly outcome: "ok" | "failed" | "unknown";
  /** Known of an acknowledged one. */
  readonly txid?: number | undefined;
  readonly durable: boolean;
  /** Whether it was sent again with its key: what an earlier try has written may have been seen, and lost. */
  readonly isRepeated?: boolean;
  /** Its place in the stream, where the answer tells one. */
  readonly place?: number | undefined;
}

/** A value as a read shows it. */
export interface Seen {
  readonly value: string;
  readonly place?: number | undefined;
}

/** A read of a whole stream that was answered. */
export interface Read {
  readonly kind: "read";
  readonly client: string;
  readonly node: string;
  readonly database: string;
  readonly stream: string;
  readonly startMs: number;
  readonly endMs: number;
  /** The state that it was answered from. */
  readonly txid: number;
  /** The state that it asked for at least; 0 for any. */
  readonly minTxid: number;
  /** It asked for the state as of the call. */
  readonly isPrimary: boolean;
  readonly seen: readonly Seen[];
}

export type Operation = Write | Read;

/** A span of time in which something was wrong. */
export interface Trouble {
  readonly what: string;
  /** Whether a writer may be lost or overtaken by it; otherwise it only keeps writes from being shipped. */
  readonly overtakes: boolean;
  readonly startMs: number;
  readonly endMs: number;
}

/** Everything that a node shows in the end: of each database, of each stream, in the order of the answer. */
export interface FinalState {
  readonly name: string;
  readonly databases: ReadonlyMap<string, ReadonlyMap<string, readonly Seen[]>>;
}

/** A read in the end that asked for a transaction id. */
export interface Probe {
  readonly database: string;
  readonly txid: number;
  /** `lost`: refused, because the transaction is lost. */
  readonly answer: "known" | "lost";
}

export interface History {
  readonly operations: readonly Operation[];
  readonly troubles: readonly Trouble[];
  /** The first one is the truth that the others are held against. */
  readonly finals: readonly FinalState[];
  readonly probes: readonly Probe[];
  /** A healthy writer ships what it has acknowledged within this. */
  readonly shipsWithinMs: number;
}

type Rule =
  | "a durable write is lost"
  | "a standard write is lost without a cause"
  | "a write is there twice"
  | "a write that failed is there"
  | "a value came from nowhere"
  | "transaction ids go against time"
  | "places go against transaction ids"
  | "a place was given twice or is not kept"
  | "a read is older than it asked"
  | "a read misses what it must show"
  | "a read shows what is newer than it says"
  | "a primary read is stale"
  | "two nodes differ in the end"
  | "a lost transaction is not told from a known one";

interface Violation {
  readonly rule: Rule;
  readonly what: string;
}

export interface Verdict {
  readonly violations: readonly Violation[];
  readonly counts: {
    readonly acknowledged: number;
    readonly durable: number;
    readonly failed: number;
    readonly unknown: number;
    /** Of unknown outcome, and there in the end. */
    readonly unknownPresent: number;
    readonly reads: number;
    /** Standard writes that were acknowledged and are lost. */
    readonly lost: number;
    /** Reads that were answered from an older state than an earlier one of the same client at the same node. */
    readonly wentBack: number;
  };
}

const violationsMax = 50;

/** Holds everything in the history against every rule. */
export function checkHistory(history: History): Verdict {
  return new Checker(history).verdict();
}

/**
 * The time by which a write that was acknowledged at `endMs` is surely shipped: every outage of shipping puts it off.
 */
function shippedByMs({ troubles, shipsWithinMs }: History, endMs: number): number {
  let byMs = endMs + shipsWithinMs;
  for (const trouble of troubles.toSorted((a, b) => a.startMs - b.startMs)) {
    if (trouble.startMs <= byMs && trouble.endMs >= endMs) byMs = Math.max(byMs, trouble.endMs + shipsWithinMs);
  }
  return byMs;
}

/** Whether a writer may have been lost or overtaken before it could ship the write. */
function mayBeLost(history: History, write: Write): boolean {
  const byMs = shippedByMs(history, write.endMs);
  return history.troubles.some(
    ({ overtakes, startMs, endMs }) => overtakes && startMs <= byMs && endMs >= write.startMs,
  );
}

function label(write: Write): string {
  const txid =
    write.txid === undefined ? write.outcome : `${write.durable ? "durable" : "standard"} txid ${write.txid}`;
  const when = `${write.startMs.toFixed(0)} to ${write.endMs.toFixed(0)} ms`;
  return `${write.database}/${write.stream}/${write.value} (${write.client} at ${write.node}, ${txid}, ${when})`;
}

class Checker {
  readonly #history: History;
  readonly #writes: readonly Write[];
  readonly #reads: readonly Read[];
  readonly #byValue = new Map<string, Write>();
  /** Values that are there in the end. */
  readonly #present = new Set<string>();
  readonly #violations: Violation[] = [];

  constructor(history: History) {
    this.#history = history;
    this.#writes = history.operations.filter((operation) => operation.kind === "write");
    this.#reads = history.operations.filter((operation) => operation.kind === "read");
    for (const write of this.#writes) this.#byValue.set(write.value, write);
  }

  verdict(): Verdict {
    this.#checkFinals();
    const lost = this.#checkAcknowledged();
    this.#checkOrder();
    for (const read of this.#reads) this.#checkRead(read);
    this.#checkPrimaryReads();
    this.#checkProbes();
    const of = (outcome: Write["outcome"]): Write[] => this.#writes.filter((write) => write.outcome === outcome);
    return {
      violations: this.#violations,
      counts: {
        acknowledged: of("ok").length,
        durable: of("ok").filter(({ durable }) => durable).length,
        failed: of("failed").length,
        unknown: of("unknown").length,
        unknownPresent: of("unknown").filter(({ value }) => this.#present.has(value)).length,
        reads: this.#reads.length,
        lost,
        wentBack: this.#wentBack(),
      },
    };
  }

  #broken(rule: Rule, what: string): void {
    if (this.#violations.length < violationsMax) this.#violations.push({ rule, what });
  }

  #checkFinals(): void {
    const [truth, ...others] = this.#history.finals;
    if (!truth) throw new Error("a history ends with what is there");
    for (const [database, streams] of truth.databases) {
      for (const [stream, seen] of streams) this.#checkStream(database, stream, seen);
    }
    for (const other of others) {
      for (const [database, streams] of truth.databases) {
        const theirs = other.databases.get(database);
        for (const stream of new Set([...streams.keys(), ...(theirs?.keys() ?? [])])) {
          const [ours, same] = [streams.get(stream) ?? [], theirs?.get(stream) ?? []].map((seen) =>
            JSON.stringify(seen),
          );
          if (ours !== same)
            this.#broken(
              "two nodes differ in the end",
              `${database}/${stream}: ${truth.name} shows ${ours}, ${other.name} shows ${same}`,
            );
        }
      }
    }
  }

  #checkStream(database: string, stream: string, seen: readonly Seen[]): void {
    const values = new Set<string>();
    let last: Write | undefined;
    for (const { value, place } of seen) {
      if (values.has(value)) this.#broken("a write is there twice", `${database}/${stream}/${value}`);
      values.add(value);
      this.#present.add(value);
      const write = this.#byValue.get(value);
      if (!write || write.database !== database || write.stream !== stream) {
        this.#broken("a value came from nowhere", `${database}/${stream}/${value}`);
        continue;
      }
      if (write.outcome === "failed") this.#broken("a write that failed is there", label(write));
      if (place === undefined || write.outcome !== "ok") continue;
      if (write.place !== place)
        this.#broken(
          "a place was given twice or is not kept",
          `${label(write)} was given ${write.place} and stands at ${place}`,
        );
      if (last && last.txid! > write.txid!)
        this.#broken("places go against transaction ids", `${label(last)} stands before ${label(write)}`);
      last = write;
    }
  }

  /** Every acknowledged write is there, or may be lost; gives how many are lost. */
  #checkAcknowledged(): number {
    let lost = 0;
    for (const write of this.#writes) {
      if (write.outcome !== "ok" || this.#present.has(write.value)) continue;
      if (write.durable) {
        this.#broken("a durable write is lost", label(write));
        continue;
      }
      lost++;
      if (!mayBeLost(this.#history, write)) this.#broken("a standard write is lost without a cause", label(write));
    }
    return lost;
  }

  /** A write that was sent after another one was answered has a larger transaction id, whichever nodes they went to. */
  #checkOrder(): void {
    for (const writes of this.#acknowledgedByDatabase().values()) {
      const byEnd = writes.toSorted((a, b) => a.endMs - b.endMs);
      let ended = 0;
      let highest: Write | undefined;
      for (const write of writes.toSorted((a, b) => a.startMs - b.startMs)) {
        for (; ended < byEnd.length && byEnd[ended]!.endMs < write.startMs; ended++) {
          if (!highest || byEnd[ended]!.txid! > highest.txid!) highest = byEnd[ended]!;
        }
        if (highest && write.txid! <= highest.txid!)
          this.#broken(
            "transaction ids go against time",
            `${label(highest)} was answered before ${label(write)} was sent`,
          );
      }
    }
  }

  #acknowledgedByDatabase(): Map<string, Write[]> {
    return Map.groupBy(
      this.#writes.filter(({ outcome }) => outcome === "ok"),
      ({ database }) => database,
    );
  }

  /** A read shows exactly what its transaction id says, as far as that is known. */
  #checkRead(read: Read): void {
    const what =
      `${read.client} read ${read.database}/${read.stream} at ${read.node}, txid ${read.txid} of at ` +
      `least ${read.minTxid}, ${read.startMs.toFixed(0)} to ${read.endMs.toFixed(0)} ms`;
    if (read.txid < read.minTxid) this.#broken("a read is older than it asked", what);
    const shown = new Set<string>();
    for (const { value } of read.seen) {
      if (shown.has(value)) this.#broken("a write is there twice", `${value}: ${what}`);
      shown.add(value);
      const write = this.#byValue.get(value);
      if (!write || write.startMs > read.endMs) this.#broken("a value came from nowhere", `${value}: ${what}`);
      else if (write.outcome === "failed") this.#broken("a write that failed is there", `${label(write)}: ${what}`);
      else if (write.txid !== undefined && write.txid > read.txid && !write.isRepeated)
        this.#broken("a read shows what is newer than it says", `${label(write)}: ${what}`);
    }
    for (const write of this.#listStream(read)) {
      // What is lost in the end may have been lost by then.
      if (write.txid! <= read.txid && !shown.has(write.value) && this.#present.has(write.value))
        this.#broken("a read misses what it must show", `${label(write)}: ${what}`);
    }
  }

  #streams: Map<string, Write[]> | undefined;

  #listStream({ database, stream }: Read): readonly Write[] {
    this.#streams ??= Map.groupBy(
      this.#writes.filter(({ outcome }) => outcome === "ok"),
      (write) => `${write.database}/${write.stream}`,
    );
    return this.#streams.get(`${database}/${stream}`) ?? [];
  }

  /** What was answered before a primary read began is in its state, unless it is lost. */
  #checkPrimaryReads(): void {
    const acknowledged = this.#acknowledgedByDatabase();
    for (const read of this.#reads) {
      if (!read.isPrimary) continue;
      const missed = acknowledged
        .get(read.database)
        ?.find(({ endMs, txid, value }) => endMs < read.startMs && txid! > read.txid && this.#present.has(value));
      if (missed)
        this.#broken(
          "a primary read is stale",
          `${label(missed)}; read of ` +
            `txid ${read.txid} by ${read.client} at ${read.node} from ${read.startMs.toFixed(0)} ms`,
        );
    }
  }

  #checkProbes(): void {
    const byTxid = Map.groupBy(
      this.#writes.filter(({ outcome }) => outcome === "ok"),
      ({ database, txid }) => `${database} ${txid}`,
    );
    for (const { database, txid, answer } of this.#history.probes) {
      const writes = byTxid.get(`${database} ${txid}`) ?? [];
      for (const write of writes) {
        if (this.#present.has(write.value) !== (answer === "known"))
          this.#broken("a lost transaction is not told from a known one", `${label(write)} is ${answer}`);
      }
    }
  }

  #wentBack(): number {
    let count = 0;
    const newest = new Map<string, number>();
    for (const { client, node, database, txid } of this.#reads.toSorted((a, b) => a.endMs - b.endMs)) {
      const key = `${client} ${node} ${database}`;
      if (txid < (newest.get(key) ?? 0)) count++;
      newest.set(key, Math.max(newest.get(key) ?? 0, txid));
    }
    return count;
  }
}
