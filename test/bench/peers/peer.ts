/**
 * What a peer is to the bench: a server that it starts on a directory, and clients that each have one call in flight.
 *
 * Each part of the bench asks for some of the calls; a peer names the parts that it takes part in, and its clients
 * refuse the calls of the others.
 */

/** The parts of the bench, by the words that ask for them. */
export const parts = ["ingest", "embedded", "tenants", "kv", "recall", "import", "start", "weight", "syncs"] as const;

export type Part = (typeof parts)[number];

export interface Memory {
  readonly type: string;
  readonly topic_key?: string;
  readonly summary: string;
  readonly content: { readonly text: string; readonly tag: string };
  readonly embedding?: readonly number[];
}

export interface Question {
  readonly words: readonly string[];
  readonly embedding: readonly number[];
}

/** One connection. A space is what holds the memories of one tenant: a profile, a schema, a prefix of keys. */
export interface PeerClient {
  ingest(space: string, memory: Memory): Promise<void>;
  /** Stores many in one call or one transaction. */
  ingestAll(space: string, memories: readonly Memory[]): Promise<void>;
  /** Reads any one memory; none is an error. */
  read(space: string): Promise<void>;
  put(key: string, value: string): Promise<void>;
  get(key: string): Promise<string>;
  /** Tags of the ten that fit best by words and by vector. */
  recall(space: string, question: Question): Promise<readonly string[]>;
  close(): void | Promise<void>;
}

/** A server that runs. */
export interface PeerServer {
  /** Processes that it began with; those that they have started count with them. */
  readonly pids: readonly number[];
  /** Makes what the spaces need before their first memory. */
  prepare(spaces: readonly string[]): Promise<void>;
  /** What one does after many memories were brought at once. */
  settle?(): Promise<void>;
  open(): Promise<PeerClient>;
  /** Ends it as an operator would, so that it can be started again on its directory. */
  stop(): Promise<void>;
}

export interface Peer {
  readonly name: string;
  readonly parts: readonly Part[];
  /** Whether its memories may have vectors, or all must. */
  readonly vectors: "none" | "some" | "all";
  /** It takes so long to be filled that it is asked of fewer memories. */
  readonly slow?: true;
  /** Starts it on an empty directory, or on the one that it has left, and resolves when it answers. */
  start(directory: string): Promise<PeerServer>;
}

/** Programs of one maker: all of the peers that they make are present, or all are skipped. */
export interface Maker {
  readonly name: string;
  /** Version and settings. */
  readonly described: string;
  readonly peers: readonly Peer[];
}

/** What is not there, and what therefore is not compared. */
export interface Skipped {
  readonly name: string;
  readonly reason: string;
}

/** A client that refuses what its peer is not asked for. */
export abstract class RefusingClient implements PeerClient {
  abstract close(): void | Promise<void>;

  ingest(_space: string, _memory: Memory): Promise<void> {
    return this.#refuse("ingest");
  }

  ingestAll(_space: string, _memories: readonly Memory[]): Promise<void> {
    return this.#refuse("ingestAll");
  }

  read(_space: string): Promise<void> {
    return this.#refuse("read");
  }

  put(_key: string, _value: string): Promise<void> {
    return this.#refuse("put");
  }

  get(_key: string): Promise<string> {
    return this.#refuse("get");
  }

  recall(_space: string, _question: Question): Promise<readonly string[]> {
    return this.#refuse("recall");
  }

  #refuse(call: string): Promise<never> {
    return Promise.reject(new Error(`${this.constructor.name} has no ${call}`));
  }
}
