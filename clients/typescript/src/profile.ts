/** A profile: the memories of one agent or user, in a database of their own. */
import { operations } from "./generated/operations.ts";
import type {
  AskRequest,
  AskResponse,
  CalibrateRequest,
  CalibrateResponse,
  CreateErasureRequest,
  ErasureCoupon,
  ExtractRequest,
  ExtractResponse,
  ForgetMemoriesRequest,
  ForgetMemoriesResponse,
  GetContextRequest,
  GetContextResponse,
  GetHistoryQuery,
  GetHistoryResponse,
  IngestItem,
  IngestRequest,
  IngestResponse,
  Json,
  JsonObject,
  ListErasuresResponse,
  ListMemoriesQuery as MemoriesQuery,
  ListMemoriesResponse,
  ListSessionsQuery,
  ListSessionsResponse,
  Memory,
  MemoryInput,
  MemoryState,
  ProfilePolicy,
  RecallRequest,
  RecallResponse,
  ReembedResponse,
  ReviewItem,
  ReviewMemoryResponse,
  Session,
  UpdateMemoryRequest,
} from "./generated/types.ts";
import { Database } from "./database.ts";
import { Erasure } from "./erasure.ts";
import type { CallOptions, Transport } from "./transport.ts";

/** The most memories of one ingest; more are sent in several, each all or none. */
const ingestMemoriesMax = 1_000;
/** A recall is to be quick or not at all. */
const recallTimeoutMs = 10_000;

/** The query of a listing, with lists for what the wire separates by commas. */
type ListMemoriesQuery = Omit<MemoriesQuery, "types" | "status"> & {
  /** Memories of these types only. */
  readonly types?: string | readonly string[] | undefined;
  /** Memories in these states only: `active`, `superseded`, `completed` and what else ListMemories names. */
  readonly status?: string | readonly string[] | undefined;
};

/** A memory to be kept. Without `content` that is null: the summary says it all. */
export type NewMemory = Omit<MemoryInput, "content"> & { readonly content?: Json };

/** Conditions of a listing; `filter` is one of documents, over `metadata`. */
export type MemoryConditions = Omit<ListMemoriesQuery, "branch" | "cursor" | "filter"> & {
  readonly filter?: JsonObject | undefined;
};

export class Profile extends Database {
  readonly #path: Readonly<Record<string, string>>;

  constructor(transport: Transport, name: string, branch = "main") {
    super(transport, name, branch);
    const at = name.indexOf("--");
    this.#path = { ns: name.slice(0, at), profile: name.slice(at + 2) };
  }

  /**
   * Keeps memories: they can be recalled as soon as this answers. An equal one that is there already is a `duplicate`; a
   * fact or instruction on a topic supersedes the one before.
   */
  async remember(
    memories: NewMemory | readonly NewMemory[],
    more: Omit<IngestRequest, "memories"> = {},
    options?: CallOptions,
  ): Promise<readonly IngestItem[]> {
    const all = (Array.isArray(memories) ? memories : [memories]) as readonly NewMemory[];
    const items: IngestItem[] = [];
    for (let start = 0; start < all.length || start === 0; start += ingestMemoriesMax) {
      const part = all.slice(start, start + ingestMemoriesMax).map((memory) => ({ content: null, ...memory }));
      const parts = { path: this.#path, body: { ...more, memories: part } };
      items.push(...(await this.scope.call<IngestResponse>(operations.ingest, parts, options)).results);
    }
    return items;
  }

  /** Finds memories by words, topic and vector; nothing relevant gives none. A text is the `query`. */
  recall(
    query: string | RecallRequest,
    request: Omit<RecallRequest, "query"> = {},
    options: CallOptions = {},
  ): Promise<RecallResponse> {
    const body = typeof query === "string" ? { ...request, query } : query;
    const parts = { path: this.#path, body };
    return this.scope.call(operations.recall, parts, { timeoutMs: recallTimeoutMs, ...options });
  }

  /** A block of text for a prompt: what is remembered that matters now. A text is the `query`. */
  context(
    query?: string | GetContextRequest,
    request: Omit<GetContextRequest, "query"> = {},
    options: CallOptions = {},
  ): Promise<GetContextResponse> {
    const body = typeof query === "object" ? query : { ...request, query };
    return this.scope.call(operations.getContext, { path: this.#path, body }, options);
  }

  /** All memories that meet the conditions, newest first. */
  memories(conditions: MemoryConditions = {}, options?: CallOptions): AsyncGenerator<Memory, void, undefined> {
    const { types, status } = conditions;
    const query = { ...conditions, types: types?.toString(), status: status?.toString() };
    const parts = { path: this.#path, query };
    return this.scope.list(operations.listMemories, parts, ({ memories }: ListMemoriesResponse) => memories, options);
  }

  /** One memory, or undefined where there is none. */
  async get(id: string, options?: CallOptions): Promise<Memory | undefined> {
    return (await this.scope.find<Memory>(operations.getMemory, this.#at(id), options))?.value;
  }

  /** Changes what is known beside a memory. */
  update(id: string, request: UpdateMemoryRequest, options?: CallOptions): Promise<Memory> {
    return this.scope.call(operations.updateMemory, { ...this.#at(id), body: request }, options);
  }

  /** Deletes a memory. Throws NotFound where there is none. */
  forget(id: string, options?: CallOptions): Promise<void> {
    return this.scope.call(operations.forgetMemory, this.#at(id), options);
  }

  /** Deletes the memories that meet the conditions, a page in a transaction, and gives the ids. */
  async forgetAll(
    conditions: Omit<ForgetMemoriesRequest, "cursor">,
    options?: CallOptions,
  ): Promise<readonly string[]> {
    const ids: string[] = [];
    let cursor: string | undefined;
    do {
      const parts = { path: this.#path, body: { ...conditions, cursor } };
      const page = await this.scope.call<ForgetMemoriesResponse>(operations.forgetMemories, parts, options);
      ids.push(...page.ids);
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
    return ids;
  }

  /** The states of a topic, or of the topic of a memory, the oldest first. */
  history(
    query: Omit<GetHistoryQuery, "branch" | "cursor">,
    options?: CallOptions,
  ): AsyncGenerator<MemoryState, void, undefined> {
    const parts = { path: this.#path, query };
    return this.scope.list(operations.getHistory, parts, ({ states }: GetHistoryResponse) => states, options);
  }

  /** Takes proposals in, or rejects them. */
  async review(
    ids: readonly string[],
    verdict: "approve" | "reject",
    options?: CallOptions,
  ): Promise<readonly ReviewItem[]> {
    const parts = { path: this.#path, body: { ids, verdict } };
    return (await this.scope.call<ReviewMemoryResponse>(operations.reviewMemory, parts, options)).results;
  }

  /** Lets the node's model answer from what is remembered. */
  ask(question: string, request: Omit<AskRequest, "question"> = {}, options?: CallOptions): Promise<AskResponse> {
    return this.scope.call(operations.ask, { path: this.#path, body: { ...request, question } }, options);
  }

  /** Lets the node's model propose memories from turns, and keeps them. */
  extract(request: ExtractRequest, options?: CallOptions): Promise<ExtractResponse> {
    return this.scope.call(operations.extract, { path: this.#path, body: request }, options);
  }

  /** All sessions, the most recently active first. */
  sessions(
    query: Omit<ListSessionsQuery, "branch" | "cursor"> = {},
    options?: CallOptions,
  ): AsyncGenerator<Session, void, undefined> {
    const parts = { path: this.#path, query };
    return this.scope.list(operations.listSessions, parts, ({ sessions }: ListSessionsResponse) => sessions, options);
  }

  /** Ends a session: its tasks go, and with `turns` its transcript. */
  endSession(id: string, query: { readonly turns?: boolean } = {}, options?: CallOptions): Promise<void> {
    return this.scope.call(operations.endSession, { path: { ...this.#path, sid: id }, query }, options);
  }

  /** Erases one target for good: `await` it for the coupon, `.completed()` waits for the receipt. */
  erase(target: CreateErasureRequest, options?: CallOptions): Erasure {
    const parts = { path: this.#path, body: target };
    const coupon = this.scope.call<ErasureCoupon>(operations.createErasure, parts, options);
    return new Erasure(this.scope, this.#path, coupon);
  }

  /** The newest erasures of the profile. */
  async erasures(options?: CallOptions): Promise<readonly ErasureCoupon[]> {
    const parts = { path: this.#path };
    return (await this.scope.call<ListErasuresResponse>(operations.listErasures, parts, options)).erasures;
  }

  /** An erasure that was asked for before. */
  erasure(id: string, options?: CallOptions): Erasure {
    const coupon = this.scope.call<ErasureCoupon>(operations.getErasure, this.#at(id), options);
    return new Erasure(this.scope, this.#path, coupon);
  }

  /** Makes the vectors anew with the node's embedder, to the end; gives how many were made. */
  async reembed(options?: CallOptions): Promise<number> {
    let embedded = 0;
    let cursor: string | undefined;
    do {
      const parts = { path: this.#path, body: { cursor } };
      const step = await this.scope.call<ReembedResponse>(operations.reembed, parts, options);
      embedded += step.embedded;
      cursor = step.nextCursor ?? undefined;
    } while (cursor !== undefined);
    return embedded;
  }

  /** Sets the floor of the node's embedder by what the profile holds. */
  calibrate(request: CalibrateRequest = {}, options?: CallOptions): Promise<CalibrateResponse> {
    return this.scope.call(operations.calibrate, { path: this.#path, body: request }, options);
  }

  /** The profile's own policy, and the one that is enforced. */
  policy(options?: CallOptions): Promise<ProfilePolicy> {
    return this.scope.call(operations.getProfilePolicy, { path: this.#path }, options);
  }

  /** Replaces the profile's own policy, or clears it with null. */
  putPolicy(policy: JsonObject | null, options?: CallOptions): Promise<ProfilePolicy> {
    return this.scope.call(operations.putProfilePolicy, { path: this.#path, body: { policy } }, options);
  }

  #at(id: string): { readonly path: Readonly<Record<string, string>> } {
    return { path: { ...this.#path, id } };
  }
}
