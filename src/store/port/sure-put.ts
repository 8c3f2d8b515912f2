/**
 * A conditional put whose outcome is known in the end.
 *
 * Why: an answer can be lost. The body decides then: the writer gives it bytes that no other would write (a nonce), so
 * that reading the object back tells whether this very put has landed.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { ObjectStore, ObjectVersion, PutCondition, StoredObject } from "./object-store.ts";

export type KnownOutcome =
  | { readonly kind: "landed"; readonly version: ObjectVersion }
  /** Another writer's object is there, or none where one was expected. */
  | { readonly kind: "lost"; readonly current: StoredObject | undefined };

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

function stillHolds(condition: PutCondition, current: StoredObject | undefined): boolean {
  return condition.kind === "absent" ? current === undefined : current?.version === condition.version;
}

/**
 * Puts the bytes if the condition holds, and resolves doubt by reading back. Throws StoreError("unknown_outcome") when
 * the put may still land: the caller must offer the same bytes under the same condition again before anything else.
 */
export async function putUntilKnown(
  store: ObjectStore,
  key: string,
  bytes: Uint8Array,
  condition: PutCondition,
): Promise<KnownOutcome> {
  let doubt: StoreError | undefined;
  try {
    const outcome = await store.put(key, bytes, condition);
    if (outcome.kind === "stored") return { kind: "landed", version: outcome.version };
  } catch (error) {
    if (!(error instanceof StoreError) || error.kind !== "unknown_outcome") throw error;
    doubt = error;
  }
  // A conflict may be with ourselves: an earlier try of the same bytes that was applied late.
  const current = await readBack(store, key);
  if (current && sameBytes(current.bytes, bytes)) return { kind: "landed", version: current.version };
  if (doubt && stillHolds(condition, current)) throw doubt;
  return { kind: "lost", current };
}

/** What is there now. Without it the outcome of the put is unknown, whatever was in the way of reading. */
async function readBack(store: ObjectStore, key: string): Promise<StoredObject | undefined> {
  try {
    return await store.get(key);
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    throw new StoreError("unknown_outcome", `what was put could not be read back: ${error.message}`, {
      cause: error,
      reason: error.reason,
    });
  }
}

/**
 * As putUntilKnown, and while the outcome is in doubt the same bytes again, a few times: for callers that can begin
 * anew with other bytes.
 */
export async function surePut(
  store: ObjectStore,
  key: string,
  bytes: Uint8Array,
  condition: PutCondition,
): Promise<KnownOutcome> {
  let doubt: StoreError | undefined;
  for (let attempt = 0; ; attempt++) {
    try {
      return await putUntilKnown(store, key, bytes, condition);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      if (error.kind === "unknown_outcome") doubt = error;
      // A try that surely did nothing proves nothing about those before it.
      if (!doubt) throw error;
      if (attempt >= limits.doubtRetriesMax) throw doubt;
    }
  }
}

/**
 * Puts an immutable object under a name of its own. Whatever happened before, it is there afterwards or this throws.
 */
export async function putImmutable(store: ObjectStore, key: string, bytes: Uint8Array): Promise<void> {
  const outcome = await putUntilKnown(store, key, bytes, { kind: "absent" });
  if (outcome.kind === "lost") throw new StoreError("corrupt", "an object that is written once holds other bytes");
}
