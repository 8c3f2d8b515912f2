/** The client: the way to databases, profiles and namespaces, and what a node says of itself. */
import { operations } from "./generated/operations.ts";
import type {
  DatabaseInfo,
  ListDatabasesResponse,
  MintDatabaseTokenRequest,
  TokenResponse,
} from "./generated/types.ts";
import { Database } from "./database.ts";
import * as errors from "./errors.ts";
import { Namespace } from "./namespace.ts";
import type { Operation } from "./operation.ts";
import { Profile } from "./profile.ts";
import { Transport, type CallOptions, type ClientOptions } from "./transport.ts";

/** The page of metrics is no part of the OpenAPI document. */
const metricsPage: Operation = {
  id: "metrics",
  method: "GET",
  path: "/metrics",
  query: [],
  body: "none",
  answer: "raw",
  reads: true,
};

/** Whether a node can serve, and what its checks say. */
export interface Readiness {
  readonly ready: boolean;
  readonly checks: Readonly<Record<string, string>>;
}

/** A public key of a node, as a JSON Web Key. */
export interface PublicKey {
  readonly [member: string]: unknown;
}

export class Palimpsest {
  static readonly PalimpsestError = errors.PalimpsestError;
  static readonly RefusedError = errors.RefusedError;
  static readonly Unauthorized = errors.Unauthorized;
  static readonly Forbidden = errors.Forbidden;
  static readonly NotFound = errors.NotFound;
  static readonly DatabaseNotFound = errors.DatabaseNotFound;
  static readonly BranchNotFound = errors.BranchNotFound;
  static readonly AlreadyExists = errors.AlreadyExists;
  static readonly Conflict = errors.Conflict;
  static readonly LostWrite = errors.LostWrite;
  static readonly InvalidRequest = errors.InvalidRequest;
  static readonly PayloadTooLarge = errors.PayloadTooLarge;
  static readonly RequestTimeout = errors.RequestTimeout;
  static readonly Overloaded = errors.Overloaded;
  static readonly Unconfigured = errors.Unconfigured;
  static readonly Unavailable = errors.Unavailable;
  static readonly Internal = errors.Internal;
  static readonly ConnectionError = errors.ConnectionError;
  static readonly DeadlineExceeded = errors.DeadlineExceeded;

  readonly #transport: Transport;

  constructor(options: ClientOptions = {}) {
    this.#transport = new Transport(options);
  }

  /** The memories of one agent or user. Nothing is asked of the node yet; the first memory makes the profile. */
  profile(namespace: string, name: string): Profile {
    return new Profile(this.#transport, `${namespace}--${name}`);
  }

  /** A database by its name, also that of a profile (`acme--alice`). */
  database(name: string): Database {
    return new Database(this.#transport, name);
  }

  /** A namespace of profiles. */
  namespace(name: string): Namespace {
    return new Namespace(this.#transport, name);
  }

  /** What this client has seen of each branch, as a text for `resume`: it names branches and holds no secret. */
  token(): string {
    return this.#transport.seen.toToken();
  }

  /** From now on this client reads what the one that gave the token had written and seen. */
  resume(token: string): void {
    this.#transport.seen.resume(token);
  }

  /** Creates a database; a profile's is made by its first memory. Wants the platform key. */
  async createDatabase(name: string, options?: CallOptions): Promise<Database> {
    await this.#transport.call(operations.createDatabase, { body: { name } }, options);
    return this.database(name);
  }

  /** All databases, by name. Wants the platform key. */
  async databases(options?: CallOptions): Promise<readonly DatabaseInfo[]> {
    return (await this.#transport.call<ListDatabasesResponse>(operations.listDatabases, {}, options)).value.databases;
  }

  /** Deletes a database with all its branches. Wants the platform key. */
  async deleteDatabase(name: string, options?: CallOptions): Promise<void> {
    await this.#transport.call(operations.deleteDatabase, { path: { db: name } }, options);
    this.#transport.seen.dropDatabase(name);
  }

  /** Mints a token for one database. */
  async mintToken(database: string, request: MintDatabaseTokenRequest, options?: CallOptions): Promise<TokenResponse> {
    const parts = { path: { db: database }, body: request };
    return (await this.#transport.call<TokenResponse>(operations.mintDatabaseToken, parts, options)).value;
  }

  /** Revokes a token of a database by its id. */
  async revokeToken(database: string, jti: string, options?: CallOptions): Promise<void> {
    await this.#transport.call(operations.revokeDatabaseToken, { path: { db: database, jti } }, options);
  }

  /** Resolves where the node's process answers. */
  async health(options?: CallOptions): Promise<void> {
    await this.#transport.call(operations.health, {}, options);
  }

  /** Whether the node can serve now; one that cannot is no error here. */
  async ready(options?: CallOptions): Promise<Readiness> {
    return (await this.#transport.call<Readiness>(operations.ready, { answerStatus: 503 }, options)).value;
  }

  /** The node's public keys: they prove tokens and receipts of erasures. */
  async keys(options?: CallOptions): Promise<readonly PublicKey[]> {
    return (await this.#transport.call<{ keys: readonly PublicKey[] }>(operations.jwks, {}, options)).value.keys;
  }

  /** What the node has counted, in the text form of Prometheus. A node may have it at its operators' address only. */
  async metrics(options?: CallOptions): Promise<string> {
    const page = (await this.#transport.call<Uint8Array>(metricsPage, {}, options)).value;
    return new TextDecoder().decode(page);
  }

  /** The list of the documents for models, as Markdown (llmstxt.org). */
  async llms(options?: CallOptions): Promise<string> {
    const list = (await this.#transport.call<Uint8Array>(operations.llms, {}, options)).value;
    return new TextDecoder().decode(list);
  }

  /** The node's OpenAPI document. */
  async openapi(options?: CallOptions): Promise<unknown> {
    return (await this.#transport.call(operations.openapi, {}, options)).value;
  }
}
