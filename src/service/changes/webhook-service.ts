/**
 * Webhooks over the wires: who makes one, what it looks like, what it could not deliver.
 *
 * Always true: a webhook is found by its id within its own database only; its address is shown to those who may
 * administer the database, and to nobody else. Must not know: how it is delivered.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  CreateWebhookRequest,
  UpdateWebhookRequest,
  WebhookFailureSchema,
  WebhookKinds,
  WebhookSchema,
  WebhookService,
} from "../../../gen/palimpsest/v1/webhook_pb.ts";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { webhooksMax } from "../../control/databases/webhook-records.ts";
import { findUrlFault } from "../../egress/guarded-post.ts";
import { isSelfHosted, parseHost } from "../../egress/hosts.ts";
import { isWebhookId } from "../../format/core/ids.ts";
import { parseDatabaseSpec, parseProfileDatabaseName } from "../../format/core/names.ts";
import type { StoredWebhook, WebhookFailure, WebhookTry } from "../../format/records/webhook.ts";
import { type Context, engineOptions, type ServiceHandlers } from "../call/context.ts";
import { present } from "../call/data-messages.ts";
import { readChanges } from "../feed/branch-changes.ts";
import type { NodeParts } from "../handlers/node-parts.ts";
import { checkJudged, databaseTarget } from "../handlers/targets.ts";

const failuresDefault = 100;
const failuresPageMax = 1_000;

type WebhookHandlers = ServiceHandlers<typeof WebhookService>;

function tryMessage({ txid, atMs, tries, reason, status }: WebhookTry): MessageInitShape<typeof WebhookFailureSchema> {
  return { txid: BigInt(txid), at: BigInt(atMs), tries, reason, ...present({ status }) };
}

function failureMessage(failure: WebhookFailure): MessageInitShape<typeof WebhookFailureSchema> {
  return { ...tryMessage(failure), queued: failure.isQueued };
}

function webhookMessage(webhook: StoredWebhook): MessageInitShape<typeof WebhookSchema> {
  const { id, branch, url, kinds, description, createdAtMs, paused, position, trying, failures } = webhook;
  return {
    id,
    branch,
    url,
    state: paused === undefined ? "active" : "paused",
    position: BigInt(position),
    createdAt: BigInt(createdAtMs),
    failures: failures.length,
    ...present({
      kinds: kinds && { values: [...kinds] },
      description,
      pausedBecause: paused,
      trying: trying && { ...tryMessage(trying), nextAt: BigInt(trying.nextAtMs) },
    }),
  };
}

/** Those that are asked for; undefined: all. */
function readKinds(kinds: WebhookKinds | undefined): readonly string[] | undefined {
  return kinds === undefined || kinds.values.length === 0 ? undefined : kinds.values;
}

function requireOn({ webhooks }: NodeParts): void {
  if (!webhooks.isOn) throw new ServiceError("unconfigured", "webhooks are switched off: SERVICE_WEBHOOKS is off");
}

/** Refuses an address that no webhook of the database may have. */
async function checkUrl(node: NodeParts, database: string, url: string): Promise<void> {
  const { hosts } = node.webhooks;
  const fault = findUrlFault(url, hosts);
  if (fault !== undefined) throw invalid(`url ${fault}`);
  const name = parseProfileDatabaseName(database);
  if (!name) return;
  const { webhooks, known } = await node.policies.effective(name.namespace, name.profile);
  if (!known)
    throw new ServiceError("unavailable", "egress.webhooks is denied while the policy cannot be read", {
      retryAfterSecs: 1,
    });
  if (webhooks === "deny") throw new ServiceError("forbidden", "egress.webhooks is denied by policy");
  if (webhooks === "self_hosted_only" && !isSelfHosted(parseHost(url), hosts))
    throw new ServiceError(
      "forbidden",
      "egress.webhooks is self_hosted_only by policy, and the url's host is not self-hosted",
    );
}

interface Addressed {
  readonly db: string;
  readonly id: string;
}

async function findUuid(node: NodeParts, context: Context, db: string): Promise<string> {
  const record = await node.databases.require(parseDatabaseSpec(db).name);
  checkJudged(context, record);
  return record.uuid;
}

function notFound(): ServiceError {
  return new ServiceError("not_found", "the database has no webhook of this id");
}

async function find(node: NodeParts, context: Context, { db, id }: Addressed): Promise<StoredWebhook> {
  const uuid = await findUuid(node, context, db);
  // It becomes part of a key in object storage, which is no place for free text.
  const webhook = isWebhookId(id) ? await node.webhookRecords.get({ uuid, id }) : undefined;
  if (!webhook) throw notFound();
  return webhook;
}

async function change(
  node: NodeParts,
  webhook: StoredWebhook,
  act: (webhook: StoredWebhook) => StoredWebhook,
): Promise<StoredWebhook> {
  const now = await node.webhookRecords.change(webhook, act);
  if (!now) throw notFound();
  node.webhooks.noted(now);
  return now;
}

/** Changes the webhook as the request wants it. */
function changed(webhook: StoredWebhook, { url, kinds, description, paused }: UpdateWebhookRequest): StoredWebhook {
  return {
    ...webhook,
    url: url ?? webhook.url,
    kinds: kinds === undefined ? webhook.kinds : readKinds(kinds),
    description: description === undefined ? webhook.description : description || undefined,
    paused: paused === undefined ? webhook.paused : paused ? "asked" : undefined,
    // Whoever changes where it posts to, or has it go on, wants it tried now.
    trying: url === undefined && paused !== false ? webhook.trying : undefined,
  };
}

async function create(node: NodeParts, request: CreateWebhookRequest, context: Context): Promise<StoredWebhook> {
  requireOn(node);
  const { url, kinds, description } = request;
  const target = await databaseTarget(node, context, request.db);
  const database = parseDatabaseSpec(request.db).name;
  await checkUrl(node, database, url);
  const after = request.after === undefined ? undefined : Number(request.after);
  const options = { ...engineOptions(context), consistency: "primary" } as const;
  const { value: page } = await readChanges(node, target, after, options);
  const webhook: StoredWebhook = {
    uuid: target.uuid,
    id: `whk_${node.world.ulid()}`,
    database,
    branch: target.branch,
    url,
    kinds: readKinds(kinds),
    description: description || undefined,
    createdAtMs: node.world.nowMs(),
    paused: undefined,
    position: after ?? page.position,
    trying: undefined,
    failures: [],
  };
  if (!(await node.webhookRecords.create(webhook)))
    throw new ServiceError("conflict", `the database has ${webhooksMax} webhooks, the most that it may`);
  node.webhooks.noted(webhook);
  return webhook;
}

function lifeHandlers(
  node: NodeParts,
): Pick<WebhookHandlers, "createWebhook" | "listWebhooks" | "updateWebhook" | "deleteWebhook"> {
  return {
    async createWebhook(request, context) {
      return webhookMessage(await create(node, request, context));
    },

    async listWebhooks(request, context) {
      const uuid = await findUuid(node, context, request.db);
      return { webhooks: (await node.webhookRecords.list(uuid)).map(webhookMessage) };
    },

    async updateWebhook(request, context) {
      const { url } = request;
      const webhook = await find(node, context, request);
      if (url !== undefined) {
        requireOn(node);
        await checkUrl(node, webhook.database, url);
      }
      return webhookMessage(await change(node, webhook, (now) => changed(now, request)));
    },

    async deleteWebhook(request, context) {
      const webhook = await find(node, context, request);
      await node.webhookRecords.remove(webhook);
      node.webhooks.forgotten(webhook);
      return {};
    },
  };
}

export function webhookHandlers(node: NodeParts): WebhookHandlers {
  return {
    ...lifeHandlers(node),

    async testWebhook(request, context) {
      requireOn(node);
      const webhook = await find(node, context, request);
      const startedMs = node.world.monotonicMs();
      const { failure, status } = await node.webhooks.ping(webhook);
      const tookMs = Math.round(node.world.monotonicMs() - startedMs);
      return { delivered: failure === undefined, tookMs, ...present({ reason: failure, status }) };
    },

    async listWebhookFailures(request, context) {
      const { limit = failuresDefault, cursor = "0" } = request;
      if (!/^\d{1,4}$/.test(cursor)) throw invalid("cursor must be one that the call before has given");
      const { failures } = await find(node, context, request);
      const begin = Number(cursor);
      const end = begin + Math.min(limit, failuresPageMax);
      return {
        failures: failures.toReversed().slice(begin, end).map(failureMessage),
        ...present({ nextCursor: end < failures.length ? String(end) : undefined }),
      };
    },

    async redeliverWebhook(request, context) {
      const { txids, drop } = request;
      if (!drop) requireOn(node);
      const webhook = await find(node, context, request);
      const asked = new Set(txids.map(Number));
      const isMeant = ({ txid }: WebhookFailure): boolean => asked.size === 0 || asked.has(txid);
      let count = 0;
      await change(node, webhook, (now) => {
        count = now.failures.filter(isMeant).length;
        const failures = drop
          ? now.failures.filter((failure) => !isMeant(failure))
          : now.failures.map((failure) => (isMeant(failure) ? { ...failure, isQueued: true } : failure));
        return { ...now, failures };
      });
      return { count };
    },
  };
}
