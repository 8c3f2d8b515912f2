/** A namespace: its profiles, tokens, policy and audit stream. */
import { operations } from "./generated/operations.ts";
import type {
  AuditEvent,
  JsonObject,
  ListProfilesResponse,
  MintNamespaceTokenRequest,
  NamespacePolicy,
  ReadAuditQuery,
  ReadAuditResponse,
  TokenResponse,
} from "./generated/types.ts";
import { inPages } from "./pages.ts";
import type { CallOptions, Transport } from "./transport.ts";

export class Namespace {
  readonly #transport: Transport;
  readonly #path: Readonly<Record<string, string>>;

  constructor(transport: Transport, ns: string) {
    this.#transport = transport;
    this.#path = { ns };
  }

  /** The profiles, by name. */
  async profiles(options?: CallOptions): Promise<ListProfilesResponse["profiles"]> {
    const parts = { path: this.#path };
    return (await this.#transport.call<ListProfilesResponse>(operations.listProfiles, parts, options)).value.profiles;
  }

  /** Mints a token for every profile of the namespace. */
  async mintToken(request: MintNamespaceTokenRequest, options?: CallOptions): Promise<TokenResponse> {
    const parts = { path: this.#path, body: request };
    return (await this.#transport.call<TokenResponse>(operations.mintNamespaceToken, parts, options)).value;
  }

  /** Revokes a token by its id. */
  async revokeToken(jti: string, options?: CallOptions): Promise<void> {
    await this.#transport.call(operations.revokeNamespaceToken, { path: { ...this.#path, jti } }, options);
  }

  /** The namespace's policy. */
  async policy(options?: CallOptions): Promise<NamespacePolicy> {
    const parts = { path: this.#path };
    return (await this.#transport.call<NamespacePolicy>(operations.getNamespacePolicy, parts, options)).value;
  }

  /** Replaces the namespace's policy, or clears it with null. */
  async putPolicy(policy: JsonObject | null, options?: CallOptions): Promise<NamespacePolicy> {
    const parts = { path: this.#path, body: { policy } };
    return (await this.#transport.call<NamespacePolicy>(operations.putNamespacePolicy, parts, options)).value;
  }

  /** What was done in the namespace, page by page. */
  audit(
    query: Omit<ReadAuditQuery, "cursor"> = {},
    options?: CallOptions,
  ): AsyncGenerator<AuditEvent, void, undefined> {
    return inPages(
      async (cursor) => {
        const parts = { path: this.#path, query: { ...query, cursor } };
        return (await this.#transport.call<ReadAuditResponse>(operations.readAudit, parts, options)).value;
      },
      ({ events }) => events,
    );
  }
}
