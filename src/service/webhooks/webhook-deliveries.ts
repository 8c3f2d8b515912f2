/**
 * The webhooks that a node delivers: those of the databases in its shards, or all where it is alone.
 *
 * Always true:
 * - a webhook is delivered by one node, the owner of its database's shard, which reads the feed where the database is
 *   written and so takes it from nobody; while nodes disagree who that is, two may post one event, which has one id
 * - what undelivered there is in the shards is looked for at the start, when shards become this node's, and now and
 *   then
 * - nothing of a webhook is posted while the policy of its database does not let it out
 *
 * Must not know: wires, messages, who may make a webhook.
 */
import { getErrorCode } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import { RisingPause, Rounds } from "../../base/rounds.ts";
import { Semaphore } from "../../base/collections/semaphore.ts";
import { sleep, type World } from "../../base/world.ts";
import type { WebhookSignatures } from "../../control/access/webhook-signatures.ts";
import { owns, type OwnedShards } from "../../control/databases/owned-pages.ts";
import type { Policies } from "../../control/databases/policies.ts";
import type { ListedWebhook, WebhookName, WebhookRecords } from "../../control/databases/webhook-records.ts";
import { GuardedPost, type Posted } from "../../egress/guarded-post.ts";
import { isSelfHosted, parseHost } from "../../egress/hosts.ts";
import type { EnginePort } from "../../engine/api/engine-port.ts";
import { getTenant } from "../../engine/api/tenants.ts";
import { parseProfileDatabaseName } from "../../format/core/names.ts";
import type { StoredWebhook } from "../../format/records/webhook.ts";
import type { BranchSignals } from "../feed/branch-signals.ts";
import { PostPlaces } from "./post-places.ts";
import { pingEvent, type WebhookEvent } from "./webhook-events.ts";
import { WebhookRunner, type Tried } from "./webhook-runner.ts";

/** Webhooks that a node delivers; what lies beyond waits for another node, or for one that is deleted. */
const runnersMax = 10_000;
/**
 * How often a node looks which webhooks lie in its shards; more and more rarely, up to `shardLookMsMax`, while there
 * are none. One that was made or changed at another node is said at once besides.
 */
const lookMs = 30_000;
/** A listing tells times in seconds: what is changed twice within one looks as if it were changed once. */
const listedMs = 2_000;
/** Webhooks that are read at once. */
const readsAtOnceMax = 16;

export interface WebhookDeliveriesParts {
  readonly world: World;
  readonly log: Log;
  readonly engine: EnginePort;
  readonly signals: BranchSignals;
  readonly records: WebhookRecords;
  readonly policies: Pick<Policies, "effective">;
  readonly signatures: WebhookSignatures;
  /** Whether the database was deleted, as object storage says. */
  readonly wasDeleted: (database: string, uuid: string) => Promise<boolean>;
  /** False where the operator has switched webhooks off. */
  readonly isOn: boolean;
  /** Hosts that the operator has listed. */
  readonly hosts: readonly string[];
  /** In seconds: when what was not taken is posted again, time by time. */
  readonly retrySecs: readonly number[];
  /** Absent where this node is alone. */
  readonly cluster?: WebhookCluster | undefined;
}

/** What webhooks need of the other nodes. */
interface WebhookCluster {
  readonly shards: OwnedShards;
  /** Has the node that writes the database say here when it has changed. */
  readonly follow: (uuid: string) => void;
  /** Has the other nodes look for what was changed here. */
  readonly nudgeOthers: () => void;
}

/** What was counted. */
export interface WebhookMeasures {
  /** Posts that were taken, posts that were not, and transactions that were given up. */
  readonly delivered: number;
  readonly failed: number;
  readonly dead: number;
  /** Webhooks that are looked after here, and how long the one that is most behind has something to post. */
  readonly active: number;
  readonly lagMs: number;
}

interface Held {
  readonly runner: WebhookRunner;
  readonly post: GuardedPost;
  /** As the listing said it when it was last read, */
  modifiedAtMs: number;
  /** when the listing said so first, */
  seenMs: number;
  /** and whether it was read when no other change could come of which the listing says the same. */
  isSettled: boolean;
}

export class WebhookDeliveries {
  readonly #parts: WebhookDeliveriesParts;
  readonly #held = new Map<string, Held>();
  readonly #places = new PostPlaces();
  readonly #reads = new Semaphore(readsAtOnceMax);
  readonly #rounds: Rounds;
  readonly #pause = new RisingPause(lookMs, limits.shardLookMsMax);
  #closing = false;
  readonly #counts = { delivered: 0, failed: 0, dead: 0 };

  constructor(parts: WebhookDeliveriesParts) {
    this.#parts = parts;
    const pauseMs = (): number => this.#pause.after(this.#held.size > 0);
    this.#rounds = new Rounds({ world: parts.world, pauseMs, round: () => this.#look() });
  }

  /** Whether webhooks are made and delivered here. */
  get isOn(): boolean {
    return this.#parts.isOn;
  }

  /** Hosts that the operator has listed. */
  get hosts(): readonly string[] {
    return this.#parts.hosts;
  }

  get measures(): WebhookMeasures {
    let lagMs = 0;
    for (const { runner } of this.#held.values()) lagMs = Math.max(lagMs, runner.lagMs);
    return { ...this.#counts, active: this.#held.size, lagMs };
  }

  /** Takes up what there is, and looks after it from now on. */
  start(): void {
    if (this.#parts.isOn) void this.#rounds.start();
  }

  /** Shards have become this node's, or another node has changed a webhook. */
  hurry(): void {
    if (this.#parts.isOn) this.#rounds.hurry();
  }

  /** Begins nothing more, ends what is under way, and writes down how far it has come. */
  async close(): Promise<void> {
    const { world } = this.#parts;
    this.#closing = true;
    await this.#rounds.close(0);
    const all = [...this.#held.values()];
    this.#held.clear();
    const stopped = Promise.all(all.map(({ runner }) => runner.stop()));
    await Promise.race([stopped, sleep(world, limits.jobStopMs)]);
    for (const { post } of all) post.close();
  }

  /** A webhook was made or changed by a call of this node. Another one may deliver it, or think so for a moment yet. */
  noted(webhook: StoredWebhook): void {
    const { cluster, isOn } = this.#parts;
    const held = this.#held.get(toKey(webhook));
    if (held) held.runner.changed();
    else if (isOn && this.#owns(webhook.uuid)) this.#take(webhook, 0);
    cluster?.nudgeOthers();
  }

  /** A webhook was deleted by a call of this node. */
  forgotten(name: WebhookName): void {
    const held = this.#held.get(toKey(name));
    if (held) held.runner.changed();
    this.#parts.cluster?.nudgeOthers();
  }

  /** The database or the branch was deleted: its webhooks go too, now or when their runner finds out. */
  async removeAll(uuid: string, branch?: string): Promise<void> {
    const { records, log } = this.#parts;
    try {
      for (const webhook of await records.list(uuid)) {
        if (branch !== undefined && webhook.branch !== branch) continue;
        await records.remove(webhook);
        this.forgotten(webhook);
      }
    } catch (error) {
      log.warn("webhooks of what was deleted could not be removed yet", { uuid, code: getErrorCode(error) });
    }
  }

  /** Posts a ping now. */
  async ping(webhook: StoredWebhook): Promise<Tried> {
    const { world } = this.#parts;
    if (!(await this.#mayLeave(webhook))) return { failure: "policy" };
    const post = this.#postOf();
    try {
      return await this.#post(post, webhook, pingEvent(webhook, world.ulid(), world.nowMs()));
    } finally {
      post.close();
    }
  }

  /** Looks which webhooks are this node's. */
  async #look(): Promise<void> {
    const { records, cluster, log } = this.#parts;
    const before = [...this.#held.keys()];
    const seen = new Set<string>();
    try {
      for await (const page of records.all(cluster?.shards)) {
        for (const listed of page) seen.add(toKey(listed));
        await Promise.all(page.map((listed) => this.#reads.run(() => this.#see(listed))));
        if (this.#closing) return;
      }
    } catch (error) {
      return log.warn("webhooks could not be looked for; tried again", { code: getErrorCode(error) });
    }
    for (const key of before) if (!seen.has(key)) void this.#drop(key);
    // A node that is alone hears of all others by its own calls.
    if (!cluster) void this.#rounds.close(0);
  }

  async #see(listed: ListedWebhook): Promise<void> {
    const { modifiedAtMs } = listed;
    const held = this.#held.get(toKey(listed));
    if (held) {
      const nowMs = this.#parts.world.monotonicMs();
      if (held.modifiedAtMs !== modifiedAtMs) {
        held.modifiedAtMs = modifiedAtMs;
        held.seenMs = nowMs;
        held.isSettled = false;
      }
      if (held.isSettled) return;
      held.runner.changed();
      held.isSettled = nowMs - held.seenMs >= listedMs;
      return;
    }
    const webhook = await this.#parts.records.readable(listed);
    if (webhook) this.#take(webhook, modifiedAtMs);
  }

  #take(webhook: StoredWebhook, modifiedAtMs: number): void {
    const { world, log, engine, signals, records, wasDeleted, cluster, retrySecs } = this.#parts;
    const key = toKey(webhook);
    if (this.#held.has(key) || this.#closing) return;
    if (this.#held.size >= runnersMax) {
      log.warn("a webhook is not delivered: this node has as many as it may", { webhook: webhook.id });
      return;
    }
    const post = this.#postOf();
    const runner = new WebhookRunner(
      {
        world,
        log,
        engine,
        signals,
        records,
        wasDeleted,
        schedule: retrySecs,
        follow: cluster?.follow,
        isOurs: () => this.#owns(webhook.uuid),
        mayLeave: (now) => this.#mayLeave(now),
        post: (now, event) => this.#post(post, now, event),
        count: (what) => void this.#counts[what]++,
        over: () => void this.#drop(key),
      },
      webhook,
    );
    this.#held.set(key, { runner, post, modifiedAtMs, seenMs: world.monotonicMs(), isSettled: false });
  }

  async #drop(key: string): Promise<void> {
    const held = this.#held.get(key);
    if (!held) return;
    this.#held.delete(key);
    await held.runner.stop();
    held.post.close();
  }

  #owns(uuid: string): boolean {
    const { cluster } = this.#parts;
    return !cluster || owns(cluster.shards, uuid);
  }

  #postOf(): GuardedPost {
    return new GuardedPost({ world: this.#parts.world, listed: this.#parts.hosts });
  }

  async #post(post: GuardedPost, webhook: StoredWebhook, { id, body }: WebhookEvent): Promise<Posted> {
    const { world, signatures } = this.#parts;
    return this.#places.run(getTenant(webhook), async () =>
      // It may have waited for its place.
      this.#closing
        ? { failure: "connection" }
        : post.post(webhook.url, body, signatures.headers(id, world.nowMs(), body)),
    );
  }

  async #mayLeave({ database, url }: StoredWebhook): Promise<boolean> {
    const { policies, hosts } = this.#parts;
    const name = parseProfileDatabaseName(database);
    if (!name) return true;
    const { webhooks } = await policies.effective(name.namespace, name.profile);
    return webhooks === "allow" || (webhooks === "self_hosted_only" && isSelfHosted(parseHost(url), hosts));
  }
}

function toKey({ uuid, id }: WebhookName): string {
  return `${uuid}/${id}`;
}
