/** The webhooks of a database: its change feed, posted to receivers. */
import { operations } from "./generated/operations.ts";
import type {
  CreateWebhookRequest,
  ListWebhookFailuresQuery,
  ListWebhookFailuresResponse,
  ListWebhooksResponse,
  RedeliverWebhookRequest,
  RedeliverWebhookResponse,
  TestWebhookResponse,
  UpdateWebhookRequest,
  Webhook,
  WebhookFailure,
} from "./generated/types.ts";
import type { Scope } from "./scope.ts";
import type { CallOptions } from "./transport.ts";

export class Webhooks {
  readonly #scope: Scope;

  constructor(scope: Scope) {
    this.#scope = scope;
  }

  /** Makes a webhook of this branch, which posts what comes, or what follows the transaction `after`. */
  create(url: string, request: Omit<CreateWebhookRequest, "url"> = {}, options?: CallOptions): Promise<Webhook> {
    return this.#scope.call(operations.createWebhook, { body: { ...request, url } }, options);
  }

  /** Those of all branches, oldest first. */
  async list(options?: CallOptions): Promise<readonly Webhook[]> {
    return (await this.#scope.call<ListWebhooksResponse>(operations.listWebhooks, {}, options)).webhooks;
  }

  /** Changes one: what is absent stays. */
  update(id: string, request: UpdateWebhookRequest, options?: CallOptions): Promise<Webhook> {
    return this.#scope.call(operations.updateWebhook, { path: { id }, body: request }, options);
  }

  /** Deletes one with its list of failures. */
  async delete(id: string, options?: CallOptions): Promise<void> {
    await this.#scope.call(operations.deleteWebhook, { path: { id } }, options);
  }

  /** Posts one event of kind `ping` now, and says what came of it. */
  test(id: string, options?: CallOptions): Promise<TestWebhookResponse> {
    return this.#scope.call(operations.testWebhook, { path: { id } }, options);
  }

  /** The transactions that were given up, newest first. */
  failures(
    id: string,
    query: Omit<ListWebhookFailuresQuery, "cursor"> = {},
    options?: CallOptions,
  ): AsyncGenerator<WebhookFailure, void, undefined> {
    const take = ({ failures }: ListWebhookFailuresResponse): readonly WebhookFailure[] => failures;
    return this.#scope.list(operations.listWebhookFailures, { path: { id }, query }, take, options);
  }

  /** Has those posted once more, or with `drop` taken off the list; without `txids` all. */
  redeliver(
    id: string,
    request: RedeliverWebhookRequest = {},
    options?: CallOptions,
  ): Promise<RedeliverWebhookResponse> {
    return this.#scope.call(operations.redeliverWebhook, { path: { id }, body: request }, options);
  }
}
