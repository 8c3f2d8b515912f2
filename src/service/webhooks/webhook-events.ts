/**
 * What a webhook posts: the events of the feed as JSON, and their ids.
 *
 * Always true: one event of one webhook has one id, at whatever node and however often it is posted, so that a receiver
 * knows what it has seen. Must not know: how it is posted, to whom.
 */
import type { StoredWebhook } from "../../format/records/webhook.ts";
import type { ChangeEntry } from "../../model/core/change-log.ts";
import { changeNames, type ChangeNote } from "../../model/core/change-notes.ts";

/** An event, ready to be posted. */
export interface WebhookEvent {
  readonly id: string;
  readonly body: string;
}

type About = Pick<StoredWebhook, "id" | "database" | "branch" | "kinds">;

/** Names as the wires spell them. */
const spelled: Readonly<Record<string, string>> = { sessionId: "session_id" };

function toNamed([kind, op, ...names]: ChangeNote): object {
  const named = changeNames[kind].map((name, at) => [spelled[name] ?? name, names[at]] as const);
  return { kind, op, ...Object.fromEntries(named) };
}

function toBody(kind: string, { database, branch }: About, rest: object): string {
  return JSON.stringify({ kind, database, branch, ...rest });
}

/** What the webhook tells of the transaction; undefined where it tells nothing of it. */
export function transactionEvent(webhook: About, entry: ChangeEntry): WebhookEvent | undefined {
  const { id, kinds } = webhook;
  const { txid, afterTxid, at, isPartial, isRewind } = entry;
  const changes = kinds ? entry.changes.filter(([kind]) => kinds.includes(kind)) : entry.changes;
  // What is not listed may be of these kinds, and a rewind undoes some.
  if (kinds && changes.length === 0 && !isPartial && !isRewind) return undefined;
  const told = { txid, after_txid: afterTxid, at, changes: changes.map(toNamed), partial: isPartial };
  return { id: `${id}_${txid}`, body: toBody(isRewind ? "rewound" : "changes", webhook, told) };
}

/** That what followed `after` cannot be told: the state is to be read anew, and the webhook goes on behind `txid`. */
export function gapEvent(webhook: About, after: number, txid: number, at: number): WebhookEvent {
  return { id: `${webhook.id}_gap_${after}`, body: toBody("gap", webhook, { txid, after_txid: after, at }) };
}

/** That somebody wants to know whether the receiver is there. */
export function pingEvent(webhook: About, ulid: string, at: number): WebhookEvent {
  return { id: `${webhook.id}_ping_${ulid}`, body: toBody("ping", webhook, { at }) };
}
