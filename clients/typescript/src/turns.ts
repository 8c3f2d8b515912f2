/** The transcript of one session. */
import { operations } from "./generated/operations.ts";
import type {
  AppendTurnRequest,
  AppendTurnResponse,
  AppendTurnsRequest,
  AppendTurnsResponse,
  DeleteTurnsRequest,
  DeleteTurnsResponse,
  ListTurnsQuery,
  ListTurnsResponse,
  ReplaceTurnsRequest,
  ReplaceTurnsResponse,
  SearchTurnsRequest,
  SearchTurnsResponse,
  Turn,
  TurnInput,
} from "./generated/types.ts";
import type { Scope } from "./scope.ts";
import type { CallOptions } from "./transport.ts";

export class Turns {
  readonly #scope: Scope;
  readonly #path: Readonly<Record<string, string>>;

  constructor(scope: Scope, session: string) {
    this.#scope = scope;
    this.#path = { session };
  }

  /** Appends one turn. */
  add(turn: AppendTurnRequest, options?: CallOptions): Promise<AppendTurnResponse> {
    return this.#scope.call(operations.appendTurn, { path: this.#path, body: turn }, options);
  }

  /** Appends turns, all or none; with `operationId` repeated calls append them once. */
  append(
    turns: readonly TurnInput[],
    more: Omit<AppendTurnsRequest, "turns"> = {},
    options?: CallOptions,
  ): Promise<AppendTurnsResponse> {
    return this.#scope.call(operations.appendTurns, { path: this.#path, body: { ...more, turns } }, options);
  }

  /** The newest turns, in the order of the talk. */
  async last(count: number, options?: CallOptions): Promise<readonly Turn[]> {
    const parts = { path: this.#path, query: { last: count } };
    return (await this.#scope.call<ListTurnsResponse>(operations.listTurns, parts, options)).turns;
  }

  /** All turns, from the first or from the last on. */
  list(
    query: Omit<ListTurnsQuery, "cursor" | "last"> = {},
    options?: CallOptions,
  ): AsyncGenerator<Turn, void, undefined> {
    const parts = { path: this.#path, query: { order: "asc", ...query } };
    return this.#scope.list(operations.listTurns, parts, ({ turns }: ListTurnsResponse) => turns, options);
  }

  /** Deletes the last turns, those from one on, one, or all. */
  delete(request: DeleteTurnsRequest, options?: CallOptions): Promise<DeleteTurnsResponse> {
    return this.#scope.call(operations.deleteTurns, { path: this.#path, body: request }, options);
  }

  /** Exchanges the end of the transcript, if it is the expected one. */
  replace(request: ReplaceTurnsRequest, options?: CallOptions): Promise<ReplaceTurnsResponse> {
    return this.#scope.call(operations.replaceTurns, { path: this.#path, body: request }, options);
  }

  /** Finds turns of this session by a vector. */
  async search(request: SearchTurnsRequest, options?: CallOptions): Promise<readonly Turn[]> {
    const parts = { path: this.#path, body: request };
    return (await this.#scope.call<SearchTurnsResponse>(operations.searchTurns, parts, options)).turns;
  }
}
