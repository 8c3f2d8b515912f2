/**
 * What a branch should hold at each transaction id, as far as its clients can know.
 *
 * A branch's txids only grow. An era begins where a txid starts from another state than the one before it: at a rewind,
 * at a fork, or where a claim gave up what its node could not know. Every write is a change with a token of its own,
 * and a txid once its answer is known; until then it has a range of possible ones, which each observation narrows.
 *
 * When a branch was forked, rewound or deleted is taken from object storage at the instant it lands there, whatever its
 * client is told and when: one order for all nodes. What lands must have been asked for, and what was refused must not
 * land. What was seen must be explained by that order; when it cannot be, the service has broken a promise.
 */
import type { CatalogBranch } from "../../src/format/history/catalog.ts";
import { mainBranch } from "../../src/format/core/names.ts";
import { Violation, Asks, rewindDeed } from "./asks.ts";
import { computeVerdict, type ChangeOf, type Kind, type SpanOf } from "./changes.ts";

type Span = SpanOf<BranchModel>;
export type Change = ChangeOf<BranchModel>;

interface Era {
  /** The state at this txid is `base`; what follows is the branch's own. */
  readonly fromTxid: number;
  readonly base: readonly Span[];
}

/** No call is waited for as long as that, and none is begun by a node so late. */
const callMsMax = 60_000;

/** One database: every token ever written into any of its branches. */
export class DatabaseModel {
  readonly uuid: string;
  /** Tells its tokens from those of every other one. */
  readonly label: string;
  readonly changes = new Map<string, Change[]>();
  /** Those that stand, by name. */
  readonly branches = new Map<string, BranchModel>();
  readonly asks = new Asks();
  /** When it was deleted, in virtual time. */
  goneAtMs: number | undefined;
  /** Also those that are gone. */
  readonly #byId = new Map<string, BranchModel>();
  #tokens = 0;

  constructor(uuid: string, label = uuid.slice(-2)) {
    this.uuid = uuid;
    this.label = label;
    const main = new BranchModel(this, mainBranch, mainBranch, { fromTxid: 0, base: [] });
    main.isKnown = true;
    this.#add(main);
  }

  newToken(): string {
    return `${this.label}-${String(this.#tokens++).padStart(6, "0")}`;
  }

  /** Whatever became of it. */
  branch(id: string): BranchModel | undefined {
    return this.#byId.get(id);
  }

  /** Every branch that ever had the name. */
  named(name: string): BranchModel[] {
    return [...this.#byId.values()].filter((branch) => branch.name === name);
  }

  /** Those that are gone too. */
  everyBranch(): IterableIterator<BranchModel> {
    return this.#byId.values();
  }

  /** A branch came into being. */
  forked(
    { name, id, parent, ttlAtMs }: Pick<CatalogBranch, "name" | "id" | "parent" | "ttlAtMs">,
    nowMs: number,
  ): BranchModel {
    this.asks.landed(`fork ${name}`);
    const from = this.#byId.get(parent!.id);
    if (!from) throw new Violation(`the branch ${name} was forked from ${parent!.id}, which there never was`);
    const child = from.forked(name, id, parent!.forkTxid);
    child.bornAtMs = nowMs;
    child.ttlAtMs = ttlAtMs;
    // Clocks jump: it may end at any moment, with whatever was written into it.
    if (ttlAtMs !== undefined) child.mayLose = true;
    this.#add(child);
    return child;
  }

  /** A branch is no more. A burner ends by itself. */
  deleted(id: string, nowMs: number): void {
    const branch = this.#byId.get(id)!;
    if (branch.ttlAtMs === undefined) this.asks.landed(`delete ${branch.name}`);
    branch.goneAtMs = nowMs;
    // Nothing is shipped of it any more.
    branch.mayLose = true;
    if (this.branches.get(branch.name) === branch) this.branches.delete(branch.name);
  }

  #add(branch: BranchModel): void {
    this.#byId.set(branch.id, branch);
    this.branches.set(branch.name, branch);
  }
}

export class BranchModel {
  readonly database: DatabaseModel;
  readonly name: string;
  readonly id: string;
  readonly forkTxid: number;
  readonly #eras: Era[];
  /** The greatest txid that any answer ever gave: every later write is above it. */
  givenTxid = 0;
  /** The greatest txid that the service may not fall behind: less than was given after a node was lost. */
  seenTxid = 0;
  /** How far object storage is known to cover. */
  durableTxid = 0;
  /** Transaction ids that claims have given up, after the branch was deleted or before. */
  readonly gaps: { readonly firstTxid: number; readonly lastTxid: number; readonly isOver: boolean }[] = [];
  /** Of named checkpoints that certainly stand. */
  readonly checkpoints = new Map<string, number>();
  /** Set while what object storage did not cover may be lost: a node is gone, or two of them contend. */
  mayLose = false;
  /** Whether a process that serves it must know of it: a fork that nobody answered may have landed behind its back. */
  isKnown = false;
  ttlAtMs: number | undefined;
  /** When it came to be, when it was deleted, and when its deletion was answered, in virtual time. */
  bornAtMs = 0;
  goneAtMs: number | undefined;
  /** The processes that were asked to delete it. */
  readonly deletedBy = new Set<string>();
  deletedAtMs: number | undefined;

  constructor(database: DatabaseModel, name: string, id: string, era: Era) {
    this.database = database;
    this.name = name;
    this.id = id;
    this.#eras = [era];
    this.forkTxid = this.givenTxid = this.seenTxid = this.durableTxid = era.fromTxid;
  }

  /**
   * A write is about to be sent, to a node that may have been superseded without knowing it when it is a `stray`. One
   * that is `doubtful` knows that it may have been: it may commit, and show that it has, and does not answer unless it
   * holds.
   */
  begin(token: string, kind: Kind, removes: boolean, holder: "sure" | "doubtful" | "stray", nowMs: number): Change {
    const change: Change = {
      branch: this,
      token,
      kind,
      removes,
      afterTxid: holder === "stray" ? 0 : this.givenTxid,
      least: holder === "sure" ? this.givenTxid + 1 : 1,
      greatest: Infinity,
      durable: false,
      sentAtMs: nowMs,
      answeredAtMs: Infinity,
    };
    const changes = this.database.changes.get(token) ?? [];
    changes.push(change);
    this.database.changes.set(token, changes);
    return change;
  }

  /**
   * The greatest txid that a writer may have committed by now: what was sent a while ago, and not answered, is over.
   */
  greatestTxid(nowMs: number): number {
    const isUnderWay = (change: Change): boolean =>
      change.branch === this && change.greatest === Infinity && nowMs - change.sentAtMs < callMsMax;
    return this.givenTxid + [...this.database.changes.values()].flat().filter(isUnderWay).length;
  }

  /** The write was answered. */
  acknowledged(change: Change, txid: number, durable: boolean, nowMs: number): void {
    if (txid <= change.afterTxid)
      throw new Violation(
        `${this.label}: a write got txid ${txid}, but txid ${change.afterTxid} was given before it was sent`,
      );
    if (txid < change.least)
      throw new Violation(`${this.label}: a write got txid ${txid}, and was seen to have none below ${change.least}`);
    if (durable && this.isLost(txid))
      throw new Violation(`${this.label}: txid ${txid} is durable, but a claim has given it up`);
    change.least = change.greatest = txid;
    change.answeredAtMs = nowMs;
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
    this.database.asks.landed(rewindDeed(this, toTxid));
    this.#eras.push({ fromTxid: txid, base: this.#spansAt(toTxid) });
    this.givenTxid = Math.max(this.givenTxid, txid);
    this.durableTxid = Math.max(this.durableTxid, txid);
  }

  /** The node was lost with everything that object storage did not cover, or another one takes its place. */
  nodeLost(): void {
    this.mayLose = true;
    this.seenTxid = this.durableTxid;
  }

  /** A claim has declared these transaction ids lost: the branch goes on above them from the state below them. */
  lost(firstTxid: number, lastTxid: number): void {
    const alive = this.#spansAt(Infinity).filter(({ branch }) => branch === this);
    const acknowledged = this.#knownTxids().filter(
      (txid) => txid >= firstTxid && txid <= lastTxid && alive.some(({ after, to }) => txid > after && txid <= to),
    );
    if (firstTxid <= this.durableTxid)
      throw new Violation(
        `${this.label}: a claim gives up txids from ${firstTxid} on, but ${this.durableTxid} is durable`,
      );
    if (acknowledged.length > 0 && !this.mayLose)
      throw new Violation(
        `${this.label}: a claim gives up txids ${firstTxid} to ${lastTxid}, of ` +
          `which ${acknowledged.join(", ")} were answered, and no node was lost`,
      );
    this.#eras.push({ fromTxid: lastTxid, base: this.#spansAt(firstTxid - 1) });
    this.gaps.push({ firstTxid, lastTxid, isOver: this.goneAtMs !== undefined });
  }

  /** Whether a claim has given the transaction id up. */
  isLost(txid: number): boolean {
    return this.gaps.some(({ firstTxid, lastTxid }) => txid >= firstTxid && txid <= lastTxid);
  }

  /** A new branch with the state at `txid`. */
  forked(name: string, id: string, txid: number): BranchModel {
    const child = new BranchModel(this.database, name, id, { fromTxid: txid, base: this.#spansAt(txid) });
    child.mayLose = this.mayLose;
    return child;
  }

  /**
   * The tokens of these kinds that were found at `txid`. Throws a Violation when that is not what the branch held;
   * learns when writes of unknown outcome happened. `among` limits it to the tokens that were looked for.
   */
  observed(txid: number, kinds: readonly Kind[], found: ReadonlySet<string>, among?: ReadonlySet<string>): void {
    const complaint = this.complaint(txid, kinds, found, among);
    if (complaint) throw new Violation(complaint);
    this.#learn(this.#spansAt(txid), txid, kinds, found, among);
  }

  /** Why the tokens that were found are not what the branch held at `txid`. */
  complaint(
    txid: number,
    kinds: readonly Kind[],
    found: ReadonlySet<string>,
    among?: ReadonlySet<string>,
  ): string | undefined {
    const stray = [...found].find((token) => !this.database.changes.has(token));
    if (stray !== undefined) return `${this.label} at ${txid}: the token ${stray} was never written`;
    if (txid < this.forkTxid)
      return `${this.label} spoke of txid ${txid}, which is before its beginning at ${this.forkTxid}`;
    const why = this.#findComplaint(this.#spansAt(txid), kinds, found, among);
    return why && `${this.label} at txid ${txid} (given ${this.givenTxid}, durable ${this.durableTxid}): ${why}`;
  }

  /**
   * A txid at which what the branch held is known, of its present timeline or of any, for restores, forks and rewinds;
   * undefined when there is none yet.
   */
  pastTxid(random: () => number, ofAnyTimeline = false): number | undefined {
    const spans = this.#spansAt(Infinity);
    const isOfTimeline = (txid: number): boolean =>
      spans.some((span) => span.branch === this && txid > span.after && txid <= span.to);
    const known = this.#knownTxids().filter((txid) => (ofAnyTimeline ? !this.isLost(txid) : isOfTimeline(txid)));
    return known.length === 0 ? undefined : known[Math.floor(random() * known.length)];
  }

  /** Tokens that certainly are there at the newest txid that was given. */
  present(kind: Kind): Change[] {
    const spans = this.#spansAt(Infinity);
    return [...this.database.changes.values()]
      .filter((changes) => changes[0]!.kind === kind && computeVerdict(changes, spans) === "yes")
      .map((changes) => changes[0]!);
  }

  /** Writes of this branch that were answered, with their transaction ids. */
  *answered(): Generator<Change> {
    for (const changes of this.database.changes.values())
      for (const change of changes) if (change.branch === this && change.answeredAtMs < Infinity) yield change;
  }

  get label(): string {
    return `${this.database.label}@${this.name}${this.goneAtMs === undefined ? "" : " (deleted)"}`;
  }

  #knownTxids(): number[] {
    const txids = new Set<number>();
    for (const changes of this.database.changes.values())
      for (const { branch, least, greatest } of changes) if (branch === this && least === greatest) txids.add(least);
    return [...txids].toSorted((a, b) => a - b);
  }

  #spansAt(txid: number): readonly Span[] {
    const era = this.#eras.findLast(({ fromTxid }) => fromTxid <= txid);
    if (!era)
      throw new Violation(`${this.label} spoke of txid ${txid}, which is before its beginning at ${this.forkTxid}`);
    return [...era.base, { branch: this, after: era.fromTxid, to: txid }];
  }

  #findComplaint(
    spans: readonly Span[],
    kinds: readonly Kind[],
    found: ReadonlySet<string>,
    among: ReadonlySet<string> | undefined,
  ): string | undefined {
    for (const [token, changes] of this.database.changes) {
      const { kind } = changes[0]!;
      if (!kinds.includes(kind) || (among && !among.has(token))) continue;
      const verdict = computeVerdict(changes, spans);
      const told = (): string =>
        changes
          .map(
            ({ branch, removes, least, greatest, durable }) =>
              `${removes ? "removed" : "written"} on ${branch.name} at ` +
              `${least === greatest ? least : `${least}..${greatest}`}${durable ? " durably" : ""}`,
          )
          .join(", ");
      if (verdict === "yes" && !found.has(token)) return `${kind} ${token} is missing (${told()})`;
      if (verdict === "no" && found.has(token)) return `${kind} ${token} should not be there (${told()})`;
    }
    return undefined;
  }

  /** What was seen, and what was not, bounds when a write of unknown outcome happened. */
  #learn(
    spans: readonly Span[],
    txid: number,
    kinds: readonly Kind[],
    found: ReadonlySet<string>,
    among: ReadonlySet<string> | undefined,
  ): void {
    for (const [token, changes] of this.database.changes) {
      if (!kinds.includes(changes[0]!.kind) || (among && !among.has(token))) continue;
      for (const change of changes) {
        if (change.least >= change.greatest) continue;
        // A token that is removed may hide whether it was there; only the plain cases teach something.
        const decides = change.removes ? computeVerdict(changes.slice(0, 1), spans) === "yes" : changes.length === 1;
        if (!decides) continue;
        const happened = found.has(token) !== change.removes;
        const meets = spans.filter(
          (span) => span.branch === change.branch && span.after < change.greatest && span.to >= change.least,
        );
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

/** Whether the branch, or its database, is no more. */
export function isGone({ goneAtMs, database }: BranchModel): boolean {
  return goneAtMs !== undefined || database.goneAtMs !== undefined;
}

/** Object storage is known to cover the branch so far. */
export function covered(branch: BranchModel, txid: number): void {
  branch.saw(txid, txid);
}
