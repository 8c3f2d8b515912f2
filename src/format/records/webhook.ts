/**
 * A webhook at rest: `hooks/<uuid>/<id>`.
 *
 * | member      | type    | meaning                                                                             |
 * |-------------|---------|-------------------------------------------------------------------------------------|
 * | v           | integer | format version, 1                                                                   |
 * | nonce       | string  | 32 hex digits of chance: no two puts write the same bytes                           |
 * | uuid, id    | string  | the database and the webhook, as in the key                                         |
 * | database    | string  | the database's name, by which its policy is found                                   |
 * | branch      | string  | the branch's name                                                                   |
 * | url         | string  | where it posts to; may hold a secret                                                |
 * | kinds       | array   | the kinds of changes that it tells; absent: all                                     |
 * | description | string  | for people; absent: none                                                            |
 * | created_at  | integer | Unix ms                                                                             |
 * | paused      | string  | `asked` or `gone`; absent while it is active                                        |
 * | position    | integer | the last transaction that it is done with                                           |
 * | trying      | object  | `{txid, at, tries, reason, status, next_at}`: what was not taken and is tried again |
 * | failures    | array   | as `trying`, with `after_txid` and `is_queued`: what was given up, oldest first     |
 *
 * Always true: of transactions there are ids only, never what they changed: that is read from the feed when it is
 * posted, so that what was erased meanwhile is not there any more. Must not know: who may see it, how it is delivered.
 */
import { decodeUtf8, encodeUtf8, toHex } from "../../base/bytes.ts";
import { StoreError } from "../../base/faults/errors.ts";
import {
  isCount,
  isObject,
  isText,
  isTimeMs,
  listOf,
  matching,
  maybe,
  oneOf,
  shapeOf,
  textThat,
  type Check,
} from "../core/json-shape.ts";
import { isWebhookId, uuidText } from "../core/ids.ts";
import { isBranchName, isDatabaseName } from "../core/names.ts";
import { formats, requireVersion } from "../core/versions.ts";

/** Transactions that were given up and stay in the list; of more the oldest go. */
export const webhookFailuresMax = 1_000;
/** All of them take some 150 KiB. */
const webhookBytesMax = 512 * 1024;
const kindsMax = 32;
const urlCharsMax = 2_048;
export const webhookDescriptionBytesMax = 256;

/** What came of a try that failed. */
export interface WebhookTry {
  readonly txid: number;
  readonly atMs: number;
  readonly tries: number;
  readonly reason: string;
  readonly status: number | undefined;
}

/** A transaction that was given up. */
export interface WebhookFailure extends WebhookTry {
  /** The state that it followed, as the feed tells it: there it is read again. */
  readonly afterTxid: number;
  /** Whether it is to be tried once more. */
  readonly isQueued: boolean;
}

/** A webhook, and how far it has come. */
export interface StoredWebhook {
  readonly uuid: string;
  readonly id: string;
  readonly database: string;
  readonly branch: string;
  readonly url: string;
  /** Undefined: all. */
  readonly kinds: readonly string[] | undefined;
  readonly description: string | undefined;
  readonly createdAtMs: number;
  /** Why it rests; undefined while it is active. */
  readonly paused: "asked" | "gone" | undefined;
  readonly position: number;
  readonly trying: (WebhookTry & { readonly nextAtMs: number }) | undefined;
  readonly failures: readonly WebhookFailure[];
}

const word = matching(/^[a-z_]{1,32}$/);
const tryFields = { txid: isCount, at: isTimeMs, tries: isCount, reason: word, status: maybe(isCount) };
const atMost =
  (charsMax: number): Check =>
  (value) =>
    isText(value) && value.length <= charsMax;

const isWebhook = shapeOf({
  v: oneOf(...formats.webhook.reads),
  nonce: matching(/^[0-9a-f]{32}$/),
  uuid: matching(new RegExp(`^${uuidText}$`)),
  id: textThat(isWebhookId),
  database: textThat(isDatabaseName),
  branch: textThat(isBranchName),
  url: atMost(urlCharsMax),
  kinds: maybe(listOf(word, kindsMax)),
  description: maybe(atMost(webhookDescriptionBytesMax)),
  created_at: isTimeMs,
  paused: maybe(oneOf("asked", "gone")),
  position: isCount,
  trying: maybe(shapeOf({ ...tryFields, next_at: isTimeMs })),
  failures: listOf(shapeOf({ ...tryFields, after_txid: isCount, is_queued: maybe(oneOf(true)) }), webhookFailuresMax),
});

interface TryFields {
  readonly txid: number;
  readonly at: number;
  readonly tries: number;
  readonly reason: string;
  readonly status?: number | undefined;
}

/** What isWebhook takes. */
interface WebhookFields {
  readonly v: number;
  readonly nonce: string;
  readonly uuid: string;
  readonly id: string;
  readonly database: string;
  readonly branch: string;
  readonly url: string;
  readonly kinds?: readonly string[] | undefined;
  readonly description?: string | undefined;
  readonly created_at: number;
  readonly paused?: "asked" | "gone" | undefined;
  readonly position: number;
  readonly trying?: (TryFields & { readonly next_at: number }) | undefined;
  readonly failures: readonly (TryFields & { readonly after_txid: number; readonly is_queued?: true | undefined })[];
}

function encodeTry({ txid, atMs, tries, reason, status }: WebhookTry): TryFields {
  return { txid, at: atMs, tries, reason, status };
}

function decodeTry({ txid, at, tries, reason, status }: TryFields): WebhookTry {
  return { txid, atMs: at, tries, reason, status };
}

/** The object of a webhook. */
export function encodeWebhook(webhook: StoredWebhook, nonce: Uint8Array): Uint8Array {
  const { uuid, id, database, branch, url, kinds, description, paused, position, trying, failures } = webhook;
  const fields: WebhookFields = {
    v: formats.webhook.writes[0],
    nonce: toHex(nonce),
    uuid,
    id,
    database,
    branch,
    url,
    kinds,
    description,
    created_at: webhook.createdAtMs,
    paused,
    position,
    trying: trying && { ...encodeTry(trying), next_at: trying.nextAtMs },
    failures: failures.map((failure) => ({
      ...encodeTry(failure),
      after_txid: failure.afterTxid,
      is_queued: failure.isQueued || undefined,
    })),
  };
  return encodeUtf8(JSON.stringify(fields));
}

/** Throws StoreError("corrupt") for anything but a webhook, NewerFormat for one of a newer build: never "none". */
export function decodeWebhook(bytes: Uint8Array): StoredWebhook {
  const value = bytes.length <= webhookBytesMax ? parseJson(bytes) : undefined;
  if (isObject(value)) requireVersion(formats.webhook, value["v"]);
  if (!isWebhook(value)) throw new StoreError("corrupt", "a webhook has an unknown form");
  const fields = value as WebhookFields;
  const { uuid, id, database, branch, url, kinds, description, paused, position, trying, failures } = fields;
  return {
    uuid,
    id,
    database,
    branch,
    url,
    kinds,
    description,
    createdAtMs: fields.created_at,
    paused,
    position,
    trying: trying && { ...decodeTry(trying), nextAtMs: trying.next_at },
    failures: failures.map((failure) => ({
      ...decodeTry(failure),
      afterTxid: failure.after_txid,
      isQueued: failure.is_queued ?? false,
    })),
  };
}

/** The parser's own message would quote the object. */
function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(decodeUtf8(bytes) ?? "");
  } catch {
    return undefined;
  }
}
