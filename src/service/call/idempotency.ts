/**
 * The keys by which a call's writes are known when the call is repeated.
 *
 * Always true: two calls have the same keys when their clients gave the same `Idempotency-Key`, and are the same
 * request when they are of one method with one message and its conditions. A call's writes are told apart by their
 * order, which is the same each time. Must not know: what is done with a key.
 */
import { toBinary } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel as Idempotent } from "@bufbuild/protobuf/wkt";
import { encodeUtf8 } from "../../base/bytes.ts";
import { invalid } from "../../base/faults/errors.ts";
import { computeSha256 } from "../../format/core/seal.ts";
import type { IdempotencyKey } from "../../model/core/idempotency.ts";
import type { Call } from "./call.ts";
import { carriedJson } from "./exact-json.ts";
import { Scope } from "./methods.ts";

/** Characters of a key. A UUID has 36. */
export const idempotencyKeyCharsMax = 255;
const keyBytes = 16;

export class Idempotency {
  readonly #key: string;
  readonly #call: Call;
  #request: Uint8Array | undefined;
  #writes = 0;

  constructor(key: string, call: Call) {
    this.#key = key;
    this.#call = call;
  }

  /** The key of the call's next write. */
  take(): IdempotencyKey {
    const key = computeSha256(encodeUtf8(`${this.#writes++} ${this.#key}`)).subarray(0, keyBytes);
    return { key, request: (this.#request ??= digest(this.#call)) };
  }
}

const longIntegers = /\d{16,}/g;

function digest({ endpoint: { method, name }, message, headers: { ifMatch, ifNoneMatch } }: Call): Uint8Array {
  // As a double an integer beyond 2^53 is like its neighbours. Only REST has it: else all wires have the same message.
  const integers = [...carriedJson(message)].flatMap(({ text }) => text.match(longIntegers) ?? []);
  const beside = encodeUtf8(JSON.stringify([name, ifMatch, ifNoneMatch, ...integers]));
  return computeSha256(Buffer.concat([computeSha256(beside), toBinary(method.input, message)]));
}

/**
 * What the header asks for; undefined where it is not given, or a method reads only. Throws invalid_request for a
 * header that is none, and where a method does not know repeated calls.
 */
export function readIdempotency(call: Call): Idempotency | undefined {
  const { endpoint, headers } = call;
  const { idempotencyKey: header } = headers;
  if (header === undefined) return undefined;
  const { rule, method } = endpoint;
  if (!rule.idempotencyKey) {
    if (rule.scope === Scope.READ || method.idempotency === Idempotent.NO_SIDE_EFFECTS) return undefined;
    throw invalid("this call takes no Idempotency-Key: what is made by a name is refused when it is there already");
  }
  // As the header's draft standard has it, a string in quotes; most clients leave them out.
  const key = /^"([ !#-[\]-~]+)"$/.exec(header)?.[1] ?? header;
  if (!/^[!-~][ -~]*$/.test(key) || key.length > idempotencyKeyCharsMax)
    throw invalid(`Idempotency-Key must be 1 to ${idempotencyKeyCharsMax} printable ASCII characters`);
  return new Idempotency(key, call);
}
