/**
 * One webhook at work: reads the feed behind its position, posts each transaction until the receiver takes it or it is
 * given up, and goes on with the next.
 *
 * Always true:
 * - transactions are posted in their order and one at a time; the next one follows when the one before was taken or
 *   given up, so that a position says all
 * - what is posted is in object storage: no disk that is lost takes back what a receiver was told
 * - the position in object storage is never ahead of what was posted: after a crash some are posted twice, none never
 * - what is posted was read a moment before: nothing that was read is kept from one try to the next, so that what was
 *   erased meanwhile is not posted
 * - what was given up is noted before the next one is posted
 *
 * Must not know: other webhooks, which node it is to run at, connections.
 */
import { getErrorCode, ServiceError } from "../../base/faults/errors.ts";
import type { Log } from "../../base/log.ts";
import { RisingPause } from "../../base/rounds.ts";
import type { World } from "../../base/world.ts";
import type { WebhookRecords } from "../../control/databases/webhook-records.ts";
import type { Posted } from "../../egress/guarded-post.ts";
import type { EnginePort } from "../../engine/api/engine-port.ts";
import { type StoredWebhook, type WebhookFailure } from "../../format/records/webhook.ts";
import type { ChangeEntry, ChangesPage } from "../../model/core/change-log.ts";
import { readChanges } from "../feed/branch-changes.ts";
import type { BranchSignals } from "../feed/branch-signals.ts";
import { gapEvent, transactionEvent, type WebhookEvent } from "./webhook-events.ts";
import { computeRetryMs, listKept } from "./webhook-retries.ts";

/** What was read so long ago is read again before it is posted. */
const freshMs = 1_000;
/** How often the position is written down: while something is posted, while the filter passes over all of it. */
const savePostedMs = 2_000;
const savePassedMs = 60_000;
/**
 * Between two looks at a branch that nobody says to have changed: only what a node does by itself, such as an expiry,
 * is found by looking. More rarely in the end than a file is closed for idleness.
 */
const quietMsMin = 500;
const quietMsMax = 300_000;
/** So often another node that writes the database is asked to say so; less than it remembers that for. */
const followMs = 15_000;
/** What is not in object storage yet is there by then, or soon. */
const shipLookMs = 250;
/** Between two looks whether it is this node's again, whether the policy lets it out again, */
const othersMs = 1_000;
const deniedMs = 30_000;
/** and whether the database of a webhook that rests is still there. */
const pausedMs = 3_600_000;
/** After a fault of the node's own: feeds that cannot be read, progress that cannot be written. */
const troubleMsMin = 1_000;
const troubleMsMax = 60_000;

const goneStatus = 410;

/** What came of a post: also that the policy did not let it out. */
export interface Tried extends Omit<Posted, "failure"> {
  readonly failure: Posted["failure"] | "policy";
}

export interface WebhookRunnerParts {
  readonly world: World;
  readonly log: Log;
  readonly engine: EnginePort;
  readonly signals: BranchSignals;
  readonly records: WebhookRecords;
  /** In seconds, time by time. */
  readonly schedule: readonly number[];
  /** Whether this node is to deliver it; while not, whoever has made this runner is about to end it. */
  readonly isOurs: () => boolean;
  /** Whether the policy lets it out now. */
  readonly mayLeave: (webhook: StoredWebhook) => Promise<boolean>;
  readonly post: (webhook: StoredWebhook, event: WebhookEvent) => Promise<Posted>;
  /** Whether the database was deleted, as object storage says. */
  readonly wasDeleted: (database: string, uuid: string) => Promise<boolean>;
  /** Where there are other nodes: has the one that writes the database say here when it has changed. */
  readonly follow?: ((uuid: string) => void) | undefined;
  readonly count: (what: "delivered" | "failed" | "dead") => void;
  /** The webhook is not there any more. */
  readonly over: () => void;
}

/** What was read, and how far object storage covers it. */
interface DurablePage extends ChangesPage {
  readonly durableTxid: number;
}

export class WebhookRunner {
  readonly #parts: WebhookRunnerParts;
  #webhook: StoredWebhook;
  /** The last transaction that is done with; ahead of what is written down. */
  #position: number;
  #savedMs: number;
  /** Since the position was written down. */
  #unsaved: "nothing" | "passed" | "posted" = "nothing";
  /** When what is to be posted next was committed; undefined while there is nothing. */
  #behindSinceMs: number | undefined;
  #isOver = false;
  #isChanged = false;
  #resting: AbortController | undefined;
  #quiet = new RisingPause(quietMsMin, quietMsMax);
  /** There is something to post that is not in object storage yet: further writes matter to nobody. */
  #isWaitingForShip = false;
  readonly #running: Promise<void>;

  constructor(parts: WebhookRunnerParts, webhook: StoredWebhook) {
    this.#parts = parts;
    this.#webhook = webhook;
    this.#position = webhook.position;
    this.#savedMs = parts.world.monotonicMs();
    this.#running = this.#run();
  }

  /** How long the next one has waited. */
  get lagMs(): number {
    return this.#behindSinceMs === undefined ? 0 : Math.max(0, this.#parts.world.nowMs() - this.#behindSinceMs);
  }

  /** The webhook was changed by somebody else: it is read again before anything is posted. */
  changed(): void {
    this.#isChanged = true;
    this.#resting?.abort();
  }

  /** Begins nothing more; resolves once the position is written down. */
  async stop(): Promise<void> {
    this.#isOver = true;
    this.#resting?.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const trouble = new RisingPause(troubleMsMin, troubleMsMax);
    while (!this.#isOver) {
      let waitMs: number;
      try {
        waitMs = await this.#step();
        await this.#saveWhenDue();
        trouble.after(true);
      } catch (error) {
        waitMs = trouble.after(false);
        this.#warn("a webhook could not go on; tried again", error);
      }
      if (waitMs > 0) await this.#rest(waitMs);
    }
    if (this.#unsaved === "nothing") return;
    await this.#save().catch((error: unknown) => this.#warn("some transactions will be posted twice", error));
  }

  get #named(): { readonly uuid: string; readonly webhook: string } {
    return { uuid: this.#webhook.uuid, webhook: this.#webhook.id };
  }

  #warn(words: string, error: unknown): void {
    this.#parts.log.warn(words, { ...this.#named, code: getErrorCode(error) });
  }

  /** Does what there is to do now, and says how long to wait for more. */
  async #step(): Promise<number> {
    const { world, isOurs, mayLeave } = this.#parts;
    if (this.#isChanged) await this.#reload();
    if (!isOurs()) return othersMs;
    if (this.#isOver) return 0;
    const { paused, trying, failures } = this.#webhook;
    if (paused !== undefined) {
      this.#behindSinceMs = undefined;
      return (await this.#read(this.#position)) === "gone" ? 0 : pausedMs;
    }
    const queued = failures.find(({ isQueued }) => isQueued);
    const nowMs = world.nowMs();
    // What was tried in the future, by a clock that was wrong, is tried now.
    const waitMs = trying && trying.atMs <= nowMs ? trying.nextAtMs - nowMs : 0;
    if (!queued && waitMs > 0) return waitMs;
    if (!(await mayLeave(this.#webhook))) return deniedMs;
    if (queued) return this.#redeliver(queued);
    const page = await this.#read(this.#position);
    if (page === "gone") return 0;
    if (page === "lost") return this.#tellGap();
    return this.#postAll(page);
  }

  async #postAll({ entries, more, durableTxid }: DurablePage): Promise<number> {
    const { world, isOurs } = this.#parts;
    const untilMs = world.monotonicMs() + freshMs;
    for (const entry of entries) {
      if (this.#isOver || this.#isChanged || world.monotonicMs() > untilMs || !isOurs()) return 0;
      this.#behindSinceMs = entry.at;
      if (entry.txid > durableTxid) {
        this.#isWaitingForShip = true;
        return shipLookMs;
      }
      const event = transactionEvent(this.#webhook, entry);
      if (!event) this.#done(entry.txid, "passed");
      else if (!(await this.#deliver(event, entry))) return 0;
      await this.#saveWhenDue();
    }
    if (more) return 0;
    this.#behindSinceMs = undefined;
    return this.#quiet.after(entries.length > 0);
  }

  /** Nobody can tell what followed: the receiver is told to read the state anew, and where the webhook goes on. */
  async #tellGap(): Promise<number> {
    const { world } = this.#parts;
    const now = await this.#read(undefined);
    if (now === "gone" || now === "lost") return 0;
    const after = this.#position;
    const event = gapEvent(this.#webhook, after, now.position, world.nowMs());
    // Where it goes on changes from try to try; what it follows does not.
    await this.#deliver(event, { txid: now.position, afterTxid: after }, after);
    return 0;
  }

  /**
   * Whether it was taken. One that is not is noted, to be tried again, or as given up: then the next one's turn comes.
   */
  async #deliver(
    event: WebhookEvent,
    { txid, afterTxid }: Pick<ChangeEntry, "txid" | "afterTxid">,
    named = txid,
  ): Promise<boolean> {
    const { world, schedule, post, count, log } = this.#parts;
    const posted = await post(this.#webhook, event);
    if (posted.failure === undefined) {
      count("delivered");
      this.#done(txid, "posted");
      if (this.#webhook.trying) await this.#change((webhook) => ({ ...webhook, trying: undefined }));
      return true;
    }
    // The connection was ended by the node that stops.
    if (this.#isOver) return false;
    count("failed");
    const { trying } = this.#webhook;
    const tries = (trying?.txid === named ? trying.tries : 0) + 1;
    const failed = { txid: named, atMs: world.nowMs(), tries, reason: posted.failure, status: posted.status };
    if (posted.status === goneStatus) {
      log.warn("a webhook's receiver is gone: the webhook is paused", { ...this.#named, txid });
      await this.#change((webhook) => ({ ...webhook, paused: "gone", trying: undefined }));
      return false;
    }
    const retryMs = computeRetryMs(schedule, tries, posted.retryAfterMs, world);
    if (retryMs !== undefined) {
      const nextAtMs = failed.atMs + retryMs;
      await this.#change((webhook) => ({ ...webhook, trying: { ...failed, nextAtMs } }));
      return false;
    }
    log.warn("a transaction was given up by a webhook", { ...this.#named, txid, tries, reason: failed.reason });
    count("dead");
    this.#done(txid, "posted");
    const dead: WebhookFailure = { ...failed, txid, afterTxid, isQueued: false };
    await this.#change((webhook) => ({
      ...webhook,
      trying: undefined,
      failures: listKept([...webhook.failures, dead], failed.atMs),
    }));
    return false;
  }

  /**
   * Posts one that was given up once more: what the feed does not tell any more as a gap. What it tells, and this
   * webhook does not, leaves the list.
   */
  async #redeliver(failure: WebhookFailure): Promise<number> {
    const { world, post, count } = this.#parts;
    const page = await this.#read(failure.afterTxid);
    if (page === "gone") return 0;
    const entry = page === "lost" ? undefined : page.entries.find(({ txid }) => txid === failure.txid);
    const event =
      page === "lost"
        ? gapEvent(this.#webhook, failure.afterTxid, failure.txid, world.nowMs())
        : entry && transactionEvent(this.#webhook, entry);
    const posted: Posted = event ? await post(this.#webhook, event) : { failure: undefined };
    if (this.#isOver) return 0;
    if (event) count(posted.failure === undefined ? "delivered" : "failed");
    const isSame = ({ txid, afterTxid }: WebhookFailure): boolean =>
      txid === failure.txid && afterTxid === failure.afterTxid;
    const { failure: reason, status } = posted;
    const again = { tries: failure.tries + 1, atMs: world.nowMs(), status, isQueued: false };
    await this.#change((webhook) => ({
      ...webhook,
      paused: status === goneStatus ? "gone" : webhook.paused,
      failures: webhook.failures.flatMap((one) =>
        !isSame(one) ? [one] : reason === undefined ? [] : [{ ...one, ...again, reason }],
      ),
    }));
    return 0;
  }

  /**
   * The changes after the transaction, as the node that writes the branch has them; `lost` where they are not kept, or
   * the branch never had that state. `gone` when the branch or the database is, and the webhook with it.
   */
  async #read(after: number | undefined): Promise<DurablePage | "lost" | "gone"> {
    const { uuid, branch, database } = this.#webhook;
    try {
      const target = { uuid, branch, database };
      const { value, durableTxid } = await readChanges(this.#parts, target, after, { consistency: "primary" });
      return { ...value, durableTxid };
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      if (error.code === "conflict" || error.code === "invalid_request") return "lost";
      const isGone =
        error.code === "branch_not_found" ||
        (error.code === "database_not_found" && (await this.#parts.wasDeleted(database, uuid)));
      if (!isGone) throw error;
      await this.#parts.records.remove(this.#webhook);
      this.#end();
      return "gone";
    }
  }

  #done(txid: number, how: "passed" | "posted"): void {
    this.#position = txid;
    if (this.#unsaved !== "posted") this.#unsaved = how;
  }

  async #saveWhenDue(): Promise<void> {
    if (this.#unsaved !== "nothing" && this.#saveDueMs <= 0) await this.#save();
  }

  /** How long until the position is to be written down. */
  get #saveDueMs(): number {
    if (this.#unsaved === "nothing") return Infinity;
    const everyMs = this.#unsaved === "posted" ? savePostedMs : savePassedMs;
    return this.#savedMs + everyMs - this.#parts.world.monotonicMs();
  }

  #save(): Promise<void> {
    return this.#change((webhook) => webhook);
  }

  /**
   * Changes the webhook and writes the position down with it. One that another node has written meanwhile is not put
   * back: that one has gone on where this one was.
   */
  async #change(act: (webhook: StoredWebhook) => StoredWebhook): Promise<void> {
    const { world, records } = this.#parts;
    const known = this.#webhook.position;
    const changed = await records.change(this.#webhook, (webhook) => ({
      ...act(webhook),
      position: webhook.position === known ? this.#position : Math.max(webhook.position, this.#position),
    }));
    this.#unsaved = "nothing";
    this.#savedMs = world.monotonicMs();
    this.#adopt(changed);
  }

  async #reload(): Promise<void> {
    this.#isChanged = false;
    try {
      this.#adopt(await this.#parts.records.get(this.#webhook));
    } catch (error) {
      this.#isChanged = true;
      throw error;
    }
  }

  #adopt(webhook: StoredWebhook | undefined): void {
    if (!webhook) return this.#end();
    if (webhook.position !== this.#webhook.position) this.#position = Math.max(webhook.position, this.#position);
    this.#webhook = webhook;
  }

  /** It was deleted. */
  #end(): void {
    this.#isOver = true;
    this.#unsaved = "nothing";
    this.#parts.over();
  }

  /** Waits so long, until the branch has changed or the webhook was, and writes the position down when that is due. */
  async #rest(waitMs: number): Promise<void> {
    const { world, signals, follow } = this.#parts;
    const { uuid, paused, trying } = this.#webhook;
    // A change of the branch matters to nobody while the receiver is left alone.
    const isQuiet = paused === undefined && trying === undefined && !this.#isWaitingForShip;
    this.#isWaitingForShip = false;
    const untilMs = world.monotonicMs() + waitMs;
    this.#resting = new AbortController();
    const { signal } = this.#resting;
    while (!this.#isOver && !this.#isChanged) {
      const leftMs = untilMs - world.monotonicMs();
      if (leftMs <= 0) break;
      if (isQuiet) follow?.(uuid);
      const partMs = Math.max(1, Math.min(leftMs, this.#saveDueMs, follow ? followMs : Infinity));
      // Signals of databases that have no such uuid never come.
      if (await signals.next(isQuiet ? uuid : "", partMs, signal)) {
        this.#quiet = new RisingPause(quietMsMin, quietMsMax);
        break;
      }
      // What fails is tried again with the next step.
      await this.#saveWhenDue().catch((error: unknown) =>
        this.#warn("a webhook's position could not be written down; tried again", error),
      );
      if (this.#saveDueMs <= 0) this.#savedMs = world.monotonicMs();
    }
    this.#resting = undefined;
  }
}
