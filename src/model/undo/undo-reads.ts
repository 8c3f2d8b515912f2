/**
 * What one transaction did: which things it changed, how it left them, and how they were before it.
 *
 * Each half is read at a state of its own, so the first is told to the second as marks. Always true: what cannot be
 * undone whole is refused here, with the reason. Must not know: how states are restored, how things are put back.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import { findChange } from "../core/change-log.ts";
import type { ChangeNote } from "../core/change-notes.ts";
import type { View } from "../core/transaction.ts";
import { markOf, readThing, sessionsOf, sizeOf, thingsOf, type StoredThing, type Thing } from "./things.ts";

/** Of all that one undo puts back, about: it is read, sent and written as one. */
const undoBytesMax = 16 * 1024 * 1024;

/** A thing as the transaction left it; without a mark it was not there. */
export interface LeftThing {
  readonly thing: Thing;
  readonly mark?: string | undefined;
}

/** A thing as the transaction left it and as it was before; absent: not there. */
export interface UndoneThing extends LeftThing {
  readonly before?: StoredThing | undefined;
}

/** What a transaction changed, read at the state that it left. */
export interface Undoable {
  /** The state before it. */
  readonly afterTxid: number;
  readonly changes: readonly ChangeNote[];
  readonly left: readonly LeftThing[];
}

function refusal(txid: number, why: string): ServiceError {
  return new ServiceError("conflict", `transaction ${txid} cannot be undone: ${why}`);
}

/** What the transaction changed. The view is of the state that it left. */
export function readUndoable(view: View, { txid }: { readonly txid: number }): Undoable {
  const entry = findChange(view, txid);
  if (!entry) throw refusal(txid, "its changes are not kept, or it is none of the branch's");
  if (entry.isRewind) throw refusal(txid, "it is a rewind; rewind the branch again instead");
  if (entry.isPartial) throw refusal(txid, "it changed more than its changes tell; fork or rewind the branch instead");
  for (const [kind, op] of entry.changes) {
    if (kind === "erasure") throw refusal(txid, "it is an erasure, and what is erased does not come back");
    if (op === "purged") throw refusal(txid, "it purged the versions of a file, which do not come back");
  }
  const left = thingsOf(entry.changes).map((thing) => ({ thing, stored: readThing(view, thing) }));
  const sessions = new Set(left.flatMap(({ thing, stored }) => sessionsOf(thing, stored)));
  const noted = new Set(left.flatMap(({ thing: [kind, name] }) => (kind === "session" ? [name] : [])));
  const come = [...sessions].filter((id) => !noted.has(id)).map((id): Thing => ["session", id]);
  const all = [...left, ...come.map((thing) => ({ thing, stored: readThing(view, thing) }))];
  if (left.length === 0 && !entry.changes.some(([kind]) => kind === "sql"))
    throw refusal(txid, "it changed nothing that has a name and is not over");
  return {
    afterTxid: entry.afterTxid,
    changes: entry.changes,
    left: all.map(({ thing, stored }) => ({ thing, mark: stored && markOf(thing, stored) })),
  };
}

/** How the things were: those that the transaction left in another state. The view is of the state before it. */
export function readBefore(
  view: View,
  { txid, left }: { readonly txid: number; readonly left: readonly LeftThing[] },
): { readonly things: readonly UndoneThing[] } {
  let bytes = 0;
  const things = left.flatMap(({ thing, mark }): UndoneThing[] => {
    const before = readThing(view, thing);
    if ((before && markOf(thing, before)) === mark) return [];
    bytes += before ? sizeOf(before) : 0;
    if (bytes > undoBytesMax)
      throw refusal(txid, `what it replaced is larger than ${undoBytesMax} bytes; fork or rewind the branch instead`);
    return [{ thing, ...(mark !== undefined && { mark }), ...(before && { before }) }];
  });
  return { things };
}
