/**
 * Undoes one transaction with another: what it changed becomes what it was before, where nothing changed it since.
 *
 * Always true: all of it or nothing; history goes on, and nothing that is kept of it is rewritten; what was erased
 * after the transaction does not come back. Must not know: where the earlier states were read, user SQL.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import { findChange, hasErasureAfter } from "../core/change-log.ts";
import { note } from "../core/change-notes.ts";
import { putSubject } from "../core/subjects.ts";
import type { Tx } from "../core/transaction.ts";
import { removeDoc, restoreDoc } from "../docs/docs.ts";
import { findCollection as findDocs } from "../docs/docs-index.ts";
import { checkPlace, endFile, findFile, putText } from "../files/file-store.ts";
import { removeValue } from "../kv/kv.ts";
import { removeMemories } from "../memory/memory-removal.ts";
import { removeTurnRows } from "../transcript/turn-removal.ts";
import { removeOwner } from "../vectors/vector-collections.ts";
import { putStoredVector, type VectorSpace } from "../vectors/vectors.ts";
import { putMemory, putTurn } from "./put-memories.ts";
import { insertAgain, insertRow, putParts, replaceRow } from "./rows.ts";
import { markOf, readThing, vectorTable, type StoredThing, type Thing, type ThingKind } from "./things.ts";
import type { UndoneThing } from "./undo-reads.ts";

/** Things that a refusal names. */
const namedMax = 10;
/** Characters of a name in a refusal. */
const nameCharsMax = 100;

interface UndoInput {
  readonly txid: number;
  readonly things: readonly UndoneThing[];
  /** Only says whether it can be undone. */
  readonly dryRun?: boolean;
  /** Why memories cannot be removed; absent where they can. */
  readonly keepsMemories?: string;
}

/** A thing with what is stored of it now. */
interface Current extends UndoneThing {
  readonly now: StoredThing | undefined;
}

/** Puts the things of the transaction back as they were. Throws conflict naming what was changed since. */
export function undo(tx: Tx, { txid, things, dryRun, keepsMemories }: UndoInput): { readonly changed: number } {
  const refuse = (why: string): ServiceError =>
    new ServiceError("conflict", `transaction ${txid} cannot be undone: ${why}`);
  const change = findChange(tx, txid);
  if (!change) throw refuse("it is none of the branch's history any more, or too old");
  const current = things.map((thing): Current => ({ ...thing, now: readThing(tx, thing.thing) }));
  const isAsLeft = ({ thing, mark, now }: Current): boolean => (now && markOf(thing, now)) === mark;
  const touched = current.filter((one) => one.thing[0] !== "session" && !isAsLeft(one));
  if (touched.length > 0) throw refuse(`changed since: ${listNames(touched.map(({ thing }) => thing))}`);
  if (things.some(({ before }) => before) && hasErasureAfter(tx, txid))
    throw refuse("something was erased after it, and what is erased does not come back");
  const gone = current.filter(({ before }) => !before);
  if (keepsMemories !== undefined && gone.some(({ thing: [kind] }) => kind === "memory")) throw refuse(keepsMemories);
  if (dryRun) return { changed: things.length };
  try {
    putBack(
      tx,
      current.filter((one) => one.thing[0] !== "session"),
    );
  } catch (error) {
    if (!(error as { code?: unknown }).code?.toString().startsWith("SQLITE_CONSTRAINT")) throw error;
    throw refuse("something else is in the place of what it replaced");
  }
  for (const one of current) if (one.thing[0] === "session" && isAsLeft(one)) putSession(tx, one, change.at);
  return { changed: things.length };
}

function listNames(things: readonly Thing[]): string {
  const shown = things.slice(0, namedMax).map(([kind, ...names]) => {
    const name = names.join("/");
    return `${kind} ${name.length > nameCharsMax ? `${name.slice(0, nameCharsMax)}…` : name}`;
  });
  const more = things.length - shown.length;
  return shown.join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** First what goes, then what loses its place, then what takes one. */
function putBack(tx: Tx, things: readonly Current[]): void {
  for (const one of things) if (!one.before && one.now) remove(tx, one, one.now);
  const isActive = ({ thing: [kind], before }: Current): boolean =>
    kind === "memory" && before?.own["superseded_by"] === null;
  for (const active of [false, true])
    for (const one of things) if (one.before && isActive(one) === active) put(tx, one, one.before);
}

function remove(tx: Tx, { thing }: Current, now: StoredThing): void {
  const [kind, first, second] = thing as [ThingKind, string, string];
  const row = now.own;
  switch (kind) {
    case "memory":
      return removeMemories(tx, [row["row"] as number], "forgotten");
    case "turn":
      return void removeTurnRows(tx, first, [row["row"] as number]);
    case "kv":
      return void removeValue(tx, { ns: first, key: second }, "");
    case "doc":
      return removeDoc(tx, first, second);
    case "vector":
      return removeOwner(tx, { collection: first, space: spaceOf(now) }, row["owner"] as number);
    case "file":
      return endFile(tx, findFile(tx, first)!, "deleted");
    case "session":
      return;
  }
}

function spaceOf(stored: StoredThing): VectorSpace {
  const dimension = vectorOf(stored).byteLength / Float32Array.BYTES_PER_ELEMENT;
  return { space: stored.own["space"] as number, dimension };
}

function vectorOf({ parts }: StoredThing): Uint8Array {
  return parts[vectorTable]![0]!["embedding"] as Uint8Array;
}

function put(tx: Tx, { thing, now }: Current, before: StoredThing): void {
  const [kind, first, second] = thing as [ThingKind, string, string | number];
  const row = before.own;
  const about = (before.parts["__service_subject"]?.[0]?.["subject"] as string | undefined) ?? "";
  switch (kind) {
    case "memory":
      return putMemory(tx, first, now, before);
    case "turn":
      return putTurn(tx, first, second as number, before);
    case "kv":
      return putRow(tx, "__service_kv", "row", now, before, () => note(tx, "kv", "put", first, second));
    case "doc": {
      const collection = findDocs(tx, first)!;
      const owner = restoreDoc(tx, collection, {
        row: row["n"] as number,
        id: String(second),
        doc: String(row["doc"]),
      });
      return putSubject(tx, { kind: "document", place: collection.number, owner }, about);
    }
    case "vector":
      return putRow(tx, "__service_vector_item", "owner", now, before, (owner) => {
        putStoredVector(tx, spaceOf(before), owner, vectorOf(before));
        note(tx, "vector", "put", first, second);
      });
    case "file":
      if (!now) checkPlace(tx, first);
      return void putText(tx, first, String(row["text"]), String(row["hash"]), about);
    case "session":
      return;
  }
}

/** Puts a row with what belongs to it back, under the number that it has, had, or is given. */
function putRow(
  tx: Tx,
  table: string,
  column: string,
  now: StoredThing | undefined,
  before: StoredThing,
  told: (number: number) => void,
): void {
  const row = before.own;
  const current = now?.own[column] as number | undefined;
  if (current !== undefined) replaceRow(tx, table, column, current, row);
  const number = current ?? insertAgain(tx, table, column, row);
  putParts(tx, before, now, number);
  told(number);
}

/**
 * A session whose times are as the transaction left them has those of before. One that came with it goes if nothing of
 * it is left; one that it brought back goes as it had gone, as whatever came since would have changed its times.
 */
function putSession(tx: Tx, { thing: [, name], before, now }: Current, atMs: number): void {
  const row = before?.own;
  const { connection } = tx;
  if (row && now) {
    connection.run("UPDATE __service_session SET last_active_at = ? WHERE id = ?", row["last_active_at"]!, name!);
  } else if (row) {
    insertRow(tx, "__service_session", row);
  } else if (now) {
    const { changes } = connection.run(
      `DELETE FROM __service_session AS s WHERE s.id = ? AND (s.last_active_at < ? OR NOT EXISTS
         (SELECT 1 FROM __service_turn AS t WHERE t.session_id = s.id
            UNION ALL SELECT 1 FROM __service_memory_provenance AS p WHERE p.session_id = s.id))`,
      name!,
      atMs,
    );
    if (changes > 0) note(tx, "session", "ended", name!);
  }
}
