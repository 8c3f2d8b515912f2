/** Values by key. */
import { operations } from "./generated/operations.ts";
import type {
  DeleteValueQuery,
  DeleteValuesResponse,
  GetValuesResponse,
  ListKeysQuery,
  ListKeysResponse,
  PutValueQuery,
  PutValueResponse,
  PutValuesResponse,
  ValueDeletion,
  ValueEntry,
  ValueInput,
} from "./generated/types.ts";
import type { Scope } from "./scope.ts";
import type { CallOptions } from "./transport.ts";

/** Keys of one call that gets many. */
const keysMax = 1_000;

/** A value as it was read. */
export interface Value {
  /** Its bytes. */
  readonly bytes: Uint8Array;
  /** The hash of its content, for `ifMatch`. */
  readonly hash: string | undefined;
  /** The value as UTF-8. */
  text(): string;
  /** The value as JSON. Throws SyntaxError where it is none. */
  json(): unknown;
}

/** The keys of one namespace of a branch. */
export class KeyValues {
  readonly #scope: Scope;
  readonly #path: Readonly<Record<string, string>>;

  constructor(scope: Scope, ns: string) {
    this.#scope = scope;
    this.#path = { ns };
  }

  /** The value under a key, or undefined where there is none. */
  async get(key: string, options?: CallOptions): Promise<Value | undefined> {
    const found = await this.#scope.find<Uint8Array>(operations.getValue, this.#at(key), options);
    if (found === undefined) return undefined;
    const { value: bytes, headers } = found;
    const text = (): string => new TextDecoder().decode(bytes);
    const hash = headers.get("etag")?.replaceAll('"', "");
    return { bytes, hash, text, json: () => JSON.parse(text()) as unknown };
  }

  /** Stores text or bytes. With `ifMatch` or `ifAbsent` only where that holds (else Conflict). */
  put(
    key: string,
    value: string | Uint8Array<ArrayBuffer>,
    query: PutValueQuery = {},
    options?: CallOptions,
  ): Promise<PutValueResponse> {
    const contentType = typeof value === "string" ? "text/plain; charset=utf-8" : "application/octet-stream";
    return this.#scope.call(operations.putValue, { ...this.#at(key), body: value, contentType, query }, options);
  }

  /** Deletes a key; one that is not there is no error. */
  delete(key: string, query: DeleteValueQuery = {}, options?: CallOptions): Promise<void> {
    return this.#scope.call(operations.deleteValue, { ...this.#at(key), query }, options);
  }

  /** The values of many keys: those that are there, in the order of the keys. */
  async getMany(keys: readonly string[], options?: CallOptions): Promise<readonly ValueEntry[]> {
    const entries: ValueEntry[] = [];
    let left = keys;
    while (left.length > 0) {
      const parts = { path: this.#path, body: { keys: left.slice(0, keysMax) } };
      const page = await this.#scope.call<GetValuesResponse>(operations.getValues, parts, options);
      entries.push(...page.entries);
      left = [...page.remaining, ...left.slice(keysMax)];
    }
    return entries;
  }

  /** Stores many values, all or none, each on its own condition. */
  putMany(items: readonly ValueInput[], options?: CallOptions): Promise<PutValuesResponse> {
    return this.#scope.call(operations.putValues, { path: this.#path, body: { items } }, options);
  }

  /** Deletes many keys, all or none, each on its own condition. */
  deleteMany(items: readonly ValueDeletion[], options?: CallOptions): Promise<DeleteValuesResponse> {
    return this.#scope.call(operations.deleteValues, { path: this.#path, body: { items } }, options);
  }

  /** All keys with their sizes and expiries, or with `values` their values and hashes too. */
  entries(
    query: Omit<ListKeysQuery, "cursor" | "include"> & { readonly values?: boolean } = {},
    options?: CallOptions,
  ): AsyncGenerator<ValueEntry, void, undefined> {
    const { values = false, ...rest } = query;
    const parts = { path: this.#path, query: { ...rest, include: values ? "values" : "details" } };
    return this.#scope.list(operations.listKeys, parts, ({ entries = [] }: ListKeysResponse) => entries, options);
  }

  /** All keys, or those that begin with `prefix`, in the order of their bytes. */
  keys(
    query: Omit<ListKeysQuery, "cursor" | "include"> = {},
    options?: CallOptions,
  ): AsyncGenerator<string, void, undefined> {
    const parts = { path: this.#path, query };
    return this.#scope.list(operations.listKeys, parts, ({ keys }: ListKeysResponse) => keys, options);
  }

  #at(key: string): { readonly path: Readonly<Record<string, string>> } {
    return { path: { ...this.#path, key } };
  }
}
