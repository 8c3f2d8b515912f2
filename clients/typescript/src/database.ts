/** One branch of a database, and what is in it. */
import { operations } from "./generated/operations.ts";
import type {
  Branch,
  Checkpoint,
  CreateBranchRequest,
  CreateBranchResponse,
  CreateCheckpointResponse,
  DiffStatesQuery,
  DiffStatesResponse,
  DocCollection,
  ExecuteSqlResponse,
  FacetGroup,
  ImportQuery,
  ImportResponse,
  Json,
  JsonObject,
  ListBranchesResponse,
  ListCheckpointsResponse,
  ListDocCollectionsQuery,
  ListDocCollectionsResponse,
  ListFacetsQuery,
  ListFacetsResponse,
  RewindBranchResponse,
  SqlResult,
  SqlStatement,
  StateDifference,
  SyncResponse,
  UndoResponse,
  WatchQuery,
  WatchResponse,
} from "./generated/types.ts";
import { Documents } from "./documents.ts";
import { Files } from "./files.ts";
import { KeyValues } from "./kv.ts";
import { Scope } from "./scope.ts";
import type { CallOptions, Transport } from "./transport.ts";
import { type ExportedLines, exportParts, importLines } from "./transfer.ts";
import { Turns } from "./turns.ts";
import { Vectors } from "./vectors.ts";
import { Webhooks } from "./webhooks.ts";
import { watch, type WatchOptions } from "./watch.ts";

/** Parameters of a statement: a list binds by position, an object by name. */
export type SqlParameters = readonly Json[] | JsonObject;

export class Database {
  protected readonly scope: Scope;
  /** The tree of texts. */
  readonly files: Files;
  /** The receivers that its changes are posted to. */
  readonly webhooks: Webhooks;

  constructor(transport: Transport, name: string, branch = "main") {
    this.scope = new Scope(transport, name, branch);
    this.files = new Files(this.scope);
    this.webhooks = new Webhooks(this.scope);
  }

  /** The database's name. */
  get name(): string {
    return this.scope.database;
  }

  /** The branch that the methods of this object are about. */
  get branchName(): string {
    return this.scope.branch;
  }

  /** The same database on another branch; the branch is not looked at until something is asked of it. */
  branch(name: string): this {
    const Own = this.constructor as new (transport: Transport, name: string, branch: string) => this;
    return new Own(this.scope.transport, this.name, name);
  }

  /** Makes a branch from this one's newest state, or from an earlier one with `at`, and gives it. `ttl` is in seconds. */
  async fork(
    name: string,
    request: Omit<CreateBranchRequest, "name" | "from"> = {},
    options?: CallOptions,
  ): Promise<this> {
    await this.scope.call<CreateBranchResponse>(
      operations.createBranch,
      { body: { ...request, name, from: this.branchName }, branch: name },
      options,
    );
    return this.branch(name);
  }

  /** All branches of the database. */
  async branches(options?: CallOptions): Promise<readonly Branch[]> {
    return (await this.scope.call<ListBranchesResponse>(operations.listBranches, {}, options)).branches;
  }

  /** Deletes this branch. `main` goes with the database only. */
  async deleteBranch(options?: CallOptions): Promise<void> {
    await this.scope.call(operations.deleteBranch, this.#onBranch(), options);
    this.scope.forget();
  }

  /** Names this branch's newest state. */
  checkpoint(name: string, options?: CallOptions): Promise<CreateCheckpointResponse> {
    return this.scope.call(operations.createCheckpoint, { ...this.#onBranch(), body: { name } }, options);
  }

  /** The named states of this branch. */
  async checkpoints(options?: CallOptions): Promise<readonly Checkpoint[]> {
    const parts = this.#onBranch();
    return (await this.scope.call<ListCheckpointsResponse>(operations.listCheckpoints, parts, options)).checkpoints;
  }

  /** Gives up a name of a state. */
  deleteCheckpoint(name: string, options?: CallOptions): Promise<void> {
    return this.scope.call(operations.deleteCheckpoint, this.#onBranch({ name }), options);
  }

  /** Takes this branch back to a checkpoint or a transaction id. */
  rewind(to: string | number, options?: CallOptions): Promise<RewindBranchResponse> {
    return this.scope.call(operations.rewindBranch, { ...this.#onBranch(), body: { to } }, options);
  }

  /** Undoes a transaction where nothing has changed since what it changed. */
  undo(txid: number, { dryRun }: { readonly dryRun?: boolean } = {}, options?: CallOptions): Promise<UndoResponse> {
    const body = { txid, ...(dryRun !== undefined && { dry_run: dryRun }) };
    return this.scope.call(operations.undo, { body }, options);
  }

  /** What differs between two states of this branch, or between it and another one (`fromBranch`). */
  diff(
    query: Omit<DiffStatesQuery, "cursor"> = {},
    options?: CallOptions,
  ): AsyncGenerator<StateDifference, void, undefined> {
    const take = ({ differences }: DiffStatesResponse): readonly StateDifference[] => differences;
    return this.scope.list(operations.diffStates, { query }, take, options);
  }

  /**
   * The branch as lines of JSON, a part at a time, all of one transaction; `at` names an earlier state. The parts, one
   * behind the other, are the export.
   */
  export(options?: CallOptions): AsyncGenerator<Uint8Array, void, undefined> {
    return exportParts(this.scope, options);
  }

  /**
   * Takes the lines of an export into this branch, in pieces of any size, such as what `export` gives. `complete` in the
   * answer says whether all of it came; a rewind to its `checkpoint` undoes the import.
   */
  import(
    lines: ExportedLines,
    query: Omit<ImportQuery, "cursor"> = {},
    options?: CallOptions,
  ): Promise<ImportResponse> {
    return importLines(this.scope, lines, query, options);
  }

  /**
   * What the transactions of this branch change, those after `after` (0: all that is kept) and then each new one; without
   * it only what comes. The first event is a `position`, which says where that is; each later one is a transaction.
   *
   * A stream that is cut, at a failover too, goes on behind the last event: nothing is missed and nothing comes twice. It
   * ends when the loop is left or `signal` is aborted (it throws the signal's reason), and throws Conflict where what
   * follows is not kept any more or was lost.
   */
  watch(query: WatchQuery = {}, options: WatchOptions = {}): AsyncGenerator<WatchResponse, void, undefined> {
    return watch(this.scope, query, options);
  }

  /** Waits until object storage holds everything that this branch has. */
  sync(options?: CallOptions): Promise<SyncResponse> {
    return this.scope.call(operations.sync, {}, options);
  }

  /** Runs one SQL statement. */
  async sql(q: string, params?: SqlParameters, options?: CallOptions): Promise<SqlResult> {
    const [result] = await this.batch([{ q, ...(params !== undefined && { params: params as Json }) }], {}, options);
    return result!;
  }

  /** Runs SQL statements, as one transaction unless `txn` is false. */
  async batch(
    stmts: readonly SqlStatement[],
    more: { readonly txn?: boolean } = {},
    options?: CallOptions,
  ): Promise<readonly SqlResult[]> {
    const body = { ...more, stmts };
    return (await this.scope.call<ExecuteSqlResponse>(operations.executeSql, { body }, options)).results;
  }

  /** What the branch holds, by kind, with counts. A kind of its own comes in pages: `cursor` says where to go on. */
  async facets(query: ListFacetsQuery = {}, options?: CallOptions): Promise<readonly FacetGroup[]> {
    return (await this.scope.call<ListFacetsResponse>(operations.listFacets, { query }, options)).groups;
  }

  /** The collections of documents, by name. */
  async collections(query: ListDocCollectionsQuery = {}, options?: CallOptions): Promise<readonly DocCollection[]> {
    const parts = { query };
    const answer = await this.scope.call<ListDocCollectionsResponse>(operations.listDocCollections, parts, options);
    return answer.collections;
  }

  /** Values by key, in a namespace of their own. */
  kv(namespace: string): KeyValues {
    return new KeyValues(this.scope, namespace);
  }

  /** The documents of a collection. */
  docs<Doc extends object = JsonObject>(collection: string): Documents<Doc> {
    return new Documents<Doc>(this.scope, collection);
  }

  /** The vectors of a collection. */
  vectors(collection: string): Vectors {
    return new Vectors(this.scope, collection);
  }

  /** The transcript of a session. */
  turns(session: string): Turns {
    return new Turns(this.scope, session);
  }

  #onBranch(more: Readonly<Record<string, string>> = {}): { readonly path: Readonly<Record<string, string>> } {
    return { path: { branch: this.branchName, ...more } };
  }
}
