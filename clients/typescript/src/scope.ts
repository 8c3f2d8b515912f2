/** What the parts of one branch share: where they are, and how they call. */
import type { Operation } from "./operation.ts";
import { inPages, type Page } from "./pages.ts";
import { NotFound, DatabaseNotFound, BranchNotFound } from "./errors.ts";
import type { Answer, CallOptions, CallParts, Transport } from "./transport.ts";

/** A branch of a database, and the way to it. */
export class Scope {
  readonly transport: Transport;
  /** The database's name. */
  readonly database: string;
  /** The branch; `main` where nothing else is said. */
  readonly branch: string;

  constructor(transport: Transport, database: string, branch: string) {
    this.transport = transport;
    this.database = database;
    this.branch = branch;
  }

  /** Calls an operation whose path names the database, and gives what it brought. */
  async call<Value>(operation: Operation, parts: CallParts = {}, options: CallOptions = {}): Promise<Value> {
    return (await this.answer<Value>(operation, parts, options)).value;
  }

  /** Likewise, with the headers of the answer. */
  answer<Value>(operation: Operation, parts: CallParts = {}, options: CallOptions = {}): Promise<Answer<Value>> {
    return this.transport.call<Value>(operation, this.#located(parts, operation), options);
  }

  /** Likewise, for what comes as a stream. */
  open(operation: Operation, parts: CallParts = {}, options: CallOptions = {}): Promise<Response> {
    return this.transport.open(operation, this.#located(parts, operation), options);
  }

  /** Gives what a call brought, or undefined where there is no such thing; a missing database or branch is thrown. */
  async find<Value>(operation: Operation, parts: CallParts, options?: CallOptions): Promise<Answer<Value> | undefined> {
    try {
      return await this.answer<Value>(operation, parts, options);
    } catch (error) {
      if (error instanceof NotFound && !(error instanceof DatabaseNotFound) && !(error instanceof BranchNotFound))
        return undefined;
      throw error;
    }
  }

  /** All items of a list that comes in pages. */
  list<Answered extends Page, Item>(
    operation: Operation,
    parts: CallParts,
    take: (page: Answered) => readonly Item[],
    options?: CallOptions,
  ): AsyncGenerator<Item, void, undefined> {
    return inPages(
      (cursor) => this.call<Answered>(operation, { ...parts, query: { ...parts.query, cursor } }, options),
      take,
    );
  }

  /** The parts with the branch: in the path's `db`, or in the query where the path has none. */
  #located(parts: CallParts, { path, query }: Operation): CallParts {
    const isOfMain = this.branch === "main";
    const db = isOfMain || path.includes("{branch}") || path.endsWith("/branches") ? this.database : this.address;
    return {
      ...parts,
      path: { db, ...parts.path },
      query: { ...(!isOfMain && query.includes("branch") && { branch: this.branch }), ...parts.query },
      database: this.database,
      branch: parts.branch ?? this.branch,
    };
  }

  /** A state that was told of: reads that follow have it. */
  note(txid: number): void {
    this.transport.seen.note(this.address, txid);
  }

  /** Forgets what was seen of the branch, as another one may take its name. */
  forget(): void {
    this.transport.seen.drop(this.address);
  }

  /** `database@branch`, as paths name it. */
  get address(): string {
    return `${this.database}@${this.branch}`;
  }
}
