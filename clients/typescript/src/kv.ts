/** Values by key. */
import { operations } from "./generated/operations.ts";
import type {
  DeleteValueQuery,
  ListKeysQuery,
  ListKeysResponse,
  PutValueQuery,
  PutValueResponse,
} from "./generated/types.ts";
import type { Scope } from "./scope.ts";
import type { CallOptions } from "./transport.ts";

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
  readonly #ns: string;

  constructor(scope: Scope, ns: string) {
    this.#scope = scope;
    this.#ns = ns;
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

  /** All keys, or those that begin with `prefix`, in the order of their bytes. */
  keys(query: Omit<ListKeysQuery, "cursor"> = {}, options?: CallOptions): AsyncGenerator<string, void, undefined> {
    const parts = { path: { ns: this.#ns }, query };
    return this.#scope.list(operations.listKeys, parts, ({ keys }: ListKeysResponse) => keys, options);
  }

  #at(key: string): { readonly path: Readonly<Record<string, string>> } {
    return { path: { ns: this.#ns, key } };
  }
}
