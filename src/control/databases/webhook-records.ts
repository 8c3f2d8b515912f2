/**
 * The webhooks of databases in object storage: `hooks/<uuid>/<id>`.
 *
 * Always true:
 * - a webhook is an object beside its database and no part of it: a fork, a rewind, an export or a backup has none
 * - a change is a compare-and-set, so that none is lost, and a webhook that was deleted never comes back
 *
 * Must not know: who may change one, how it is delivered, feeds.
 */
import { assert } from "../../base/faults/assert.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import type { World } from "../../base/world.ts";
import { isUnreadable } from "../../format/core/versions.ts";
import { parseWebhookKey, webhookKey, webhookPrefix, webhooksPrefix } from "../../format/keys/object-keys.ts";
import { decodeWebhook, encodeWebhook, type StoredWebhook } from "../../format/records/webhook.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { surePut } from "../../store/port/sure-put.ts";
import { ownedPage, type OwnedShards } from "./owned-pages.ts";

/** Webhooks of one database, of all its branches. */
export const webhooksMax = 16;
/** A lost race is settled by reading again; more rounds than this means the store does not keep its promise. */
const racesMax = 64;
const nonceBytes = 16;

export interface WebhookRecordsOptions {
  readonly store: ObjectStore;
  readonly world: World;
  readonly log: Log;
}

/** Which webhook of which database. */
export type WebhookName = Pick<StoredWebhook, "uuid" | "id">;

/** A webhook that is there, and when it was last put. */
export interface ListedWebhook extends WebhookName {
  readonly modifiedAtMs: number;
}

export class WebhookRecords {
  readonly #options: WebhookRecordsOptions;

  constructor(options: WebhookRecordsOptions) {
    this.#options = options;
  }

  /** Puts a new one; gives false, and leaves none, when the database has as many as it may. Throws StoreError. */
  async create(webhook: StoredWebhook): Promise<boolean> {
    const { store, world } = this.#options;
    const { uuid, id } = webhook;
    const bytes = encodeWebhook(webhook, world.randomBytes(nonceBytes));
    const outcome = await surePut(store, webhookKey(uuid, id), bytes, { kind: "absent" });
    assert(outcome.kind === "landed", "no id is given twice");
    // Callers that race are told apart by the order of what they have put.
    const at = (await this.#ids(uuid)).indexOf(id);
    if (at < webhooksMax) return true;
    await this.remove(webhook);
    return false;
  }

  /** The webhook, or undefined when there is none. Throws StoreError. */
  async get({ uuid, id }: WebhookName): Promise<StoredWebhook | undefined> {
    return (await this.#read(uuid, id))?.webhook;
  }

  /** All of a database, oldest first. One that cannot be read is left out and logged. Throws StoreError. */
  async list(uuid: string): Promise<readonly StoredWebhook[]> {
    const found = await Promise.all((await this.#ids(uuid)).map((id) => this.readable({ uuid, id })));
    return found.filter((webhook) => webhook !== undefined);
  }

  /** As `get`, but one that is rotten is logged and taken for none: it hides no other. */
  async readable(name: WebhookName): Promise<StoredWebhook | undefined> {
    try {
      return await this.get(name);
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      this.#options.log.error("a webhook cannot be read: it is not delivered", error, { key: toKey(name) });
      return undefined;
    }
  }

  /**
   * Replaces the webhook by what `act` makes of it, and gives the new one; undefined when there is none. `act` is asked
   * again when another change came between. Throws StoreError.
   */
  async change(name: WebhookName, act: (webhook: StoredWebhook) => StoredWebhook): Promise<StoredWebhook | undefined> {
    const { store, world } = this.#options;
    for (let race = 0; race < racesMax; race++) {
      const read = await this.#read(name.uuid, name.id);
      if (!read) return undefined;
      const next = act(read.webhook);
      const bytes = encodeWebhook(next, world.randomBytes(nonceBytes));
      const outcome = await surePut(store, toKey(name), bytes, { kind: "version", version: read.version });
      if (outcome.kind === "landed") return next;
    }
    throw new StoreError("unavailable", "a webhook changed too often to be replaced");
  }

  /** Removes it. Throws StoreError. */
  async remove(name: WebhookName): Promise<void> {
    await this.#options.store.delete(toKey(name));
  }

  /** What lies in some shards, or in all, a page after the other. Throws StoreError. */
  async *all(shards: OwnedShards | undefined): AsyncGenerator<readonly ListedWebhook[], void> {
    const { store } = this.#options;
    for (let after: string | undefined; ;) {
      const page = shards
        ? await ownedPage(store, webhooksPrefix, webhooksPrefix.length, shards, after)
        : await store.list(webhooksPrefix, { after, limit: limits.storeListMax });
      yield page.objects.flatMap(({ key, modifiedAtMs }) => {
        const name = parseWebhookKey(key);
        return name ? [{ ...name, modifiedAtMs }] : [];
      });
      if (page.next === undefined) return;
      after = page.next;
    }
  }

  /** One page: creations that race put theirs before they count, and take back what is too many. */
  async #ids(uuid: string): Promise<readonly string[]> {
    const { objects } = await this.#options.store.list(webhookPrefix(uuid), { limit: limits.storeListMax });
    return objects.flatMap(({ key }) => parseWebhookKey(key)?.id ?? []);
  }

  async #read(
    uuid: string,
    id: string,
  ): Promise<{ readonly webhook: StoredWebhook; readonly version: string } | undefined> {
    const object = await this.#options.store.get(webhookKey(uuid, id));
    if (!object) return undefined;
    const webhook = decodeWebhook(object.bytes);
    if (webhook.id !== id || webhook.uuid !== uuid)
      throw new StoreError("corrupt", "a webhook lies under the key of another one");
    return { webhook, version: object.version };
  }
}

function toKey({ uuid, id }: WebhookName): string {
  return webhookKey(uuid, id);
}
