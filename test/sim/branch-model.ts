/**
 * What a branch should hold at each transaction id, as far as its clients can know.
 *
 * A branch's txids only grow. An era begins where a txid starts from another state than the one before it: at a rewind,
 * at a fork, or where a node was lost with what it had not shipped. Every write is a change with a token of its own, and
 * a txid once its answer is known; until then it has a range of possible ones. What may be true in several ways (whether
 * a rewind happened, and when) is kept as several timelines; each observation ends those that it contradicts, and when
 * none is left, the service has done something that no history explains.
 */

/** A run of txids of one branch whose changes count. */
interface Span {
  readonly branch: BranchModel;
  /** Exclusive. */
  readonly after: number;
  /** Inclusive. */
  readonly to: number;
}

interface Era {
  /** The state at this txid is `base`; what follows is the branch's own. */
  readonly fromTxid: number;
  readonly base: readonly Span[];
}

type Timeline = readonly Era[];

/** Where a token lives. */
export type Kind = "kv" | "sql" | "memory" | "docs";

export interface Change {
  readonly branch: BranchModel;
  readonly token: string;
  readonly kind: Kind;
  readonly removes: boolean;
  /** The least and greatest txid it may have; equal once known, Infinity when it may still happen, empty when it never did. */
  least: number;
  greatest: number;
  /** Whether object storage is known to cover it. */
  durable: boolean;
  /** What a memory's ingest called it. */
  id?: string;
}

type Verdict = "yes" | "no" | "maybe";

/** A promise of the service that an observation breaks. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/** One database: every token ever written into any of its branches. */
export class DatabaseModel {
  readonly uuid: string;
  readonly changes = new Map<string, Change[]>();
  readonly branches = new Map<string, BranchModel>();
  #tokens = 0;

  constructor(uuid: string) {
    this.uuid = uuid;
    this.branches.set("main", new BranchModel(this, "main", [{ fromTxid: 0, base: [] }]));
  }

  newToken(): string {
    return `${this.uuid.slice(-2)}-${String(this.#tokens++).padStart(6, "0")}`;
  }
}

export class BranchModel {
  readonly database: DatabaseModel;
  readonly name: string;
  #timelines: Timeline[];
  /** The greatest txid that any answer ever gave: every later write is above it. */
  givenTxid = 0;
  /** The greatest txid that the service may not fall behind: less than was given after a node was lost. */
  seenTxid = 0;
  /** How far object storage is known to cover. */
  durableTxid = 0;
  /** Of named checkpoints. */
  readonly checkpoints = new Map<string, number>();
  /** Set while a change of the branch itself has an unknown outcome. */
  doubtful = false;
  /** Changes of the branch itself that were asked for, and how many of them are over. */
  readonly changes = { begun: 0, over: 0 };
  /** Set while what object storage did not cover may be lost: a node is gone, or two of them contend. */
  mayLose = false;
  ttlAtMs: number | undefined;

  constructor(database: DatabaseModel, name: string, timeline: Timeline) {
    this.database = database;
    this.name = name;
    this.#timelines = [timeline];
    this.givenTxid = this.seenTxid = this.durableTxid = timeline[0]!.fromTxid;
  }

  /** Whether there is one explanation only. */
  get certain(): boolean {
    return this.#timelines.length === 1;
  }

  /** A write is about to be sent, to a node that may have been superseded without knowing it when it is a `stray`. */
  begin(token: string, kind: Kind, removes: boolean, stray: boolean): Change {
    const change: Change = { branch: this, token, kind, removes, least: stray ? 1 : this.givenTxid + 1, greatest: Infinity, durable: false };
    const changes = this.database.changes.get(token) ?? [];
    changes.push(change);
    this.database.changes.set(token, changes);
    return change;
  }

  /** The write was answered. */
  acknowledged(change: Change, txid: number, durable: boolean): void {
    if (txid < change.least) throw new Violation(`${this.label}: a write got txid ${txid}, but txid ${change.least - 1} was given before it was sent`);
    change.least = change.greatest = txid;
    if (durable) change.durable = true;
    this.givenTxid = Math.max(this.givenTxid, txid);
  }

  /** The write is known not to have happened. */
  refused(change: Change): void {
    change.least = Infinity;
    change.greatest = -1;
  }

  /** An answer of the branch's only writer spoke of this txid and of this durable one. */
  saw(txid: number, durableTxid: number): void {
    this.givenTxid = Math.max(this.givenTxid, txid);
    this.seenTxid = Math.max(this.seenTxid, txid);
    this.durableTxid = Math.max(this.durableTxid, durableTxid);
  }

  /** The branch went back to the state at `toTxid` by the transaction `txid`. */
  rewound(toTxid: number, txid: number): void {
    this.#timelines = this.#timelines.map((timeline) => [...timeline, { fromTxid: txid, base: spansAt(timeline, this, toTxid) }]);
    this.saw(txid, txid);
  }

  /**
   * A rewind may have happened, by a txid somewhere above `afterTxid`. What was answered meanwhile may lie before it or
   * after it.
   */
  maybeRewound(toTxid: number, afterTxid: number): void {
    const at = [afterTxid, ...this.#knownTxids().filter((txid) => txid > afterTxid)].map((txid) => txid + 0.5);
    this.#timelines = this.#timelines.flatMap((timeline) => [timeline, ...at.map((fromTxid) => [...timeline, { fromTxid, base: spansAt(timeline, this, toTxid) }])]);
  }

  /** The node was lost with everything that object storage did not cover, or another one takes its place. */
  nodeLost(): void {
    this.mayLose = true;
    this.seenTxid = this.durableTxid;
  }

  /** A claim has declared these transaction ids lost: the branch goes on above them from the state below them. */
  lost(firstTxid: number, lastTxid: number): void {
    const alive = spansAt(this.#timelines[0]!, this, Infinity).filter(({ branch }) => branch === this);
    const acknowledged = this.#knownTxids().filter((txid) => txid >= firstTxid && txid <= lastTxid && alive.some(({ after, to }) => txid > after && txid <= to));
    if (firstTxid <= this.durableTxid) throw new Violation(`${this.label}: a claim gives up txids from ${firstTxid} on, but ${this.durableTxid} is durable`);
    if (acknowledged.length > 0 && !this.mayLose) throw new Violation(`${this.label}: a claim gives up txids ${firstTxid} to ${lastTxid}, of which ${acknowledged.join(", ")} were answered, and no node was lost`);
    this.#timelines = this.#timelines.map((timeline) => [...timeline, { fromTxid: lastTxid, base: spansAt(timeline, this, firstTxid - 1) }]);
  }

  /** A new branch with the state at `txid`. */
  forked(name: string, txid: number): BranchModel {
    const child = new BranchModel(this.database, name, [{ fromTxid: txid, base: [] }]);
    child.#timelines = this.#timelines.map((timeline) => [{ fromTxid: txid, base: spansAt(timeline, this, txid) }]);
    child.mayLose = this.mayLose;
    return child;
  }

  /**
   * The tokens of these kinds that were found at `txid`. Throws a Violation when no timeline explains them; learns when
   * writes of unknown outcome happened. `among` limits it to the tokens that were looked for.
   */
  observed(txid: number, kinds: readonly Kind[], found: ReadonlySet<string>, among?: ReadonlySet<string>): void {
    for (const token of found) if (!this.database.changes.has(token)) throw new Violation(`${this.label} at ${txid}: the token ${token} was never written`);
    const complaints: string[] = [];
    const left = this.#timelines.filter((timeline) => {
      const complaint = this.#complaintOf(spansAt(timeline, this, txid), kinds, found, among);
      if (complaint) complaints.push(complaint);
      return !complaint;
    });
    if (left.length === 0) throw new Violation(`${this.label} at txid ${txid} (given ${this.givenTxid}, durable ${this.durableTxid}): ${[...new Set(complaints)].slice(0, 3).join("; ")}`);
    this.#timelines = left;
    if (left.length === 1) this.#learn(spansAt(left[0]!, this, txid), txid, kinds, found, among);
  }

  /** A txid at which what the branch held is known, for restores and rewinds; undefined when there is none yet. */
  pastTxid(random: () => number): number | undefined {
    const spans = spansAt(this.#timelines[0]!, this, Infinity);
    const known = this.#knownTxids().filter((txid) => spans.some((span) => span.branch === this && txid > span.after && txid <= span.to));
    return known.length === 0 ? undefined : known[Math.floor(random() * known.length)];
  }

  /** Tokens that certainly are there at the newest txid that was given. */
  present(kind: Kind): Change[] {
    const spans = spansAt(this.#timelines[0]!, this, Infinity);
    return [...this.database.changes.values()].filter((changes) => changes[0]!.kind === kind && verdictOf(changes, spans) === "yes").map((changes) => changes[0]!);
  }

  get label(): string {
    return `${this.database.uuid.slice(-4)}@${this.name}`;
  }

  #knownTxids(): number[] {
    const txids = new Set<number>();
    for (const changes of this.database.changes.values()) for (const { branch, least, greatest } of changes) if (branch === this && least === greatest) txids.add(least);
    return [...txids].toSorted((a, b) => a - b);
  }

  #complaintOf(spans: readonly Span[], kinds: readonly Kind[], found: ReadonlySet<string>, among: ReadonlySet<string> | undefined): string | undefined {
    for (const [token, changes] of this.database.changes) {
      const { kind } = changes[0]!;
      if (!kinds.includes(kind) || (among && !among.has(token))) continue;
      const verdict = verdictOf(changes, spans);
      const told = (): string => changes.map(({ branch, removes, least, greatest, durable }) => `${removes ? "removed" : "written"} on ${branch.name} at ${least === greatest ? least : `${least}..${greatest}`}${durable ? " durably" : ""}`).join(", ");
      if (verdict === "yes" && !found.has(token)) return `${kind} ${token} is missing (${told()})`;
      if (verdict === "no" && found.has(token)) return `${kind} ${token} should not be there (${told()})`;
    }
    return undefined;
  }

  /** What was seen, and what was not, bounds when a write of unknown outcome happened. */
  #learn(spans: readonly Span[], txid: number, kinds: readonly Kind[], found: ReadonlySet<string>, among: ReadonlySet<string> | undefined): void {
    for (const [token, changes] of this.database.changes) {
      if (!kinds.includes(changes[0]!.kind) || (among && !among.has(token))) continue;
      for (const change of changes) {
        if (change.least >= change.greatest) continue;
        // A token that is removed may hide whether it was there; only the plain cases teach something.
        const decides = change.removes ? verdictOf(changes.slice(0, 1), spans) === "yes" : changes.length === 1;
        if (!decides) continue;
        const happened = found.has(token) !== change.removes;
        const meets = spans.filter((span) => span.branch === change.branch && span.after < change.greatest && span.to >= change.least);
        if (happened) {
          change.least = Math.max(change.least, Math.min(...meets.map(({ after }) => after + 1)));
          change.greatest = Math.min(change.greatest, Math.max(...meets.map(({ to }) => to)));
        } else if (meets.some((span) => span.after < change.least && span.to === txid)) {
          change.least = txid + 1;
        }
      }
    }
  }
}

function spansAt(timeline: Timeline, branch: BranchModel, txid: number): readonly Span[] {
  const era = timeline.findLast(({ fromTxid }) => fromTxid <= txid);
  if (!era) throw new Violation(`${branch.label} spoke of txid ${txid}, which is before its beginning at ${timeline[0]!.fromTxid}`);
  return [...era.base, { branch, after: era.fromTxid, to: txid }];
}

/** Whether a change has happened in a state. */
function happened(change: Change, spans: readonly Span[]): Verdict {
  let verdict: Verdict = "no";
  for (const { branch, after, to } of spans) {
    if (branch !== change.branch || change.greatest <= after || change.least > to) continue;
    if (change.least > after && change.greatest <= to) return "yes";
    verdict = "maybe";
  }
  return verdict;
}

/** Whether a token is there in a state, by its writing and its removal. */
function verdictOf(changes: readonly Change[], spans: readonly Span[]): Verdict {
  const [written, ...removals] = changes;
  const there = happened(written!, spans);
  if (there === "no") return "no";
  let removed: Verdict = "no";
  for (const removal of removals) {
    const verdict = happened(removal, spans);
    if (verdict === "yes") return "no";
    if (verdict === "maybe") removed = "maybe";
  }
  return there === "yes" && removed === "no" ? "yes" : "maybe";
}
