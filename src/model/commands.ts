/**
 * Every command that a database understands, as one table: name to synchronous function.
 *
 * A write runs inside a transaction and gets a Tx, a read gets a View; inputs and results are plain data that can cross
 * a thread. User SQL is separate (model/sql/sql): it runs under the guard and alone in its transaction.
 */
import { assert } from "../base/faults/assert.ts";
import { deleteDoc, getDoc, putDoc } from "./docs/doc-by-id.ts";
import { deleteDocs, insertDocs, updateDocs } from "./docs/docs.ts";
import { createDocIndex, dropDocIndex, listDocCollections, listDocIndexes } from "./docs/docs-catalog.ts";
import { countDocs, findDocs, groupDocs } from "./docs/docs-find.ts";
import { deleteFiles, moveFiles } from "./files/file-moves.ts";
import { editFile, getFile, listFiles, listFileVersions, putFile, searchFiles } from "./files/files.ts";
import { listFacets } from "./facets/facets.ts";
import { nextDue } from "./next-expiry.ts";
import { deleteErasureNotes, erase, heldMemories } from "./erasure.ts";
import { heldRecords } from "./erasure-records.ts";
import { runRepeatable, type IdempotencyKey, type RepeatableAnswer } from "./core/idempotency.ts";
import { listChanges } from "./core/change-log.ts";
import { kvDeleteMany, kvGetMany, kvPutMany } from "./kv/kv-batches.ts";
import { kvList } from "./kv/kv-list.ts";
import { kvDelete, kvGet, kvPut, kvSweep } from "./kv/kv.ts";
import { measureFloor, takeFloor } from "./calibration.ts";
import { fillIn, spaceStates, unembedded } from "./embedding.ts";
import { ingestDerived } from "./lineage/derivation.ts";
import { deleteMemory, getMemory, sweepMemories, updateMemory } from "./memory/stored-memories.ts";
import { deleteMemories, listMemories } from "./memory/memory-list.ts";
import { ageMemories, findExcess, type Aged, type AgingPosition } from "./memory/memory-aging.ts";
import { removeOutdatedSpaces } from "./memory/memory-vectors.ts";
import { composeContext } from "./context-block.ts";
import { recall } from "./recall.ts";
import { review } from "./review.ts";
import { listHistory } from "./lineage/topic-history.ts";
import { endSession, listSessions } from "./transcript/sessions.ts";
import { appendTurn, lastTurns, searchTurns } from "./transcript/transcript.ts";
import { appendTurns, replaceTurns } from "./transcript/turn-batches.ts";
import { listTurns } from "./transcript/turn-list.ts";
import { deleteTurns } from "./transcript/turn-removal.ts";
import type { MemoryRetention } from "./core/retention.ts";
import type { Tx, View } from "./core/transaction.ts";
import { getVector, upsertVector, upsertVectors } from "./vectors/vector-collections.ts";
import { listVectors, removeVector, removeVectors } from "./vectors/vector-list.ts";
import { searchVectors } from "./vectors/vector-search.ts";
import { exportRecords, importRecords, planImport } from "./transfer/transfer.ts";

/** What a sweep is told: how many rows of each kind it may remove, and what policy removes. */
interface SweepInput {
  readonly rowsMax: number;
  /** Only what ended by then goes, as it goes for good; by default what has ended now. */
  readonly untilMs?: number;
  readonly retention?: MemoryRetention;
  /** What the sweep of the same open file before this one gave. */
  readonly position?: AgingPosition;
}

/**
 * What a sweep has done, and when the next one has something to do; undefined when never, and while this one is not
 * through.
 */
interface Swept extends Aged {
  readonly dueAtMs: number | undefined;
}

/** Removes what has expired or what policy removes, and says whether there may be more. */
function sweep(view: Tx, { rowsMax, untilMs = view.nowMs, retention, position = {} }: SweepInput): Swept {
  const tx = { ...view, nowMs: untilMs };
  const removed = [kvSweep(tx, { rowsMax }).removed, sweepMemories(tx, { rowsMax }).removed];
  const aged = retention ? ageMemories(tx, retention, position, rowsMax, view.nowMs) : { position, more: false };
  const more = aged.more || removed.some((rows) => rows >= rowsMax);
  return {
    position: aged.position,
    more,
    dueAtMs: more ? undefined : nextDue(tx, { retention, position: aged.position, isSwept: true }).dueAtMs,
  };
}

/** A write that its caller may repeat. */
export interface RepeatableWrite extends IdempotencyKey {
  /** The write's own name and input. */
  readonly command: string;
  readonly input: unknown;
}

function repeatable(tx: Tx, { command, input, ...key }: RepeatableWrite): RepeatableAnswer {
  assert(isWriteKind(command) && command !== "repeatable", "a write that may be repeated is one of the others");
  return runRepeatable(tx, key, () => runWrite(command, tx, input));
}

export const writeCommands = {
  "memory.ingest": ingestDerived,
  "memory.update": updateMemory,
  "memory.review": review,
  "memory.forget": deleteMemory,
  "memory.forget_many": deleteMemories,
  "memory.erase": erase,
  "erasure.settled": deleteErasureNotes,
  "embedding.fill": fillIn,
  "embedding.retire": removeOutdatedSpaces,
  "embedding.floor": takeFloor,
  "session.end": endSession,
  "turn.append": appendTurn,
  "turn.append_many": appendTurns,
  "turn.delete": deleteTurns,
  "turn.replace": replaceTurns,
  "kv.put": kvPut,
  "kv.delete": kvDelete,
  "kv.put_many": kvPutMany,
  "kv.delete_many": kvDeleteMany,
  "docs.insert": insertDocs,
  "docs.update": updateDocs,
  "docs.delete": deleteDocs,
  "docs.put": putDoc,
  "docs.remove": deleteDoc,
  "docs.index": createDocIndex,
  "docs.unindex": dropDocIndex,
  "vector.upsert": upsertVector,
  "vector.upsert_many": upsertVectors,
  "vector.delete": removeVector,
  "vector.delete_many": removeVectors,
  "file.put": putFile,
  "file.edit": editFile,
  "file.move": moveFiles,
  "file.delete": deleteFiles,
  "transfer.import": importRecords,
  repeatable,
  sweep,
} as const;

export const readCommands = {
  "memory.get": getMemory,
  "memory.list": listMemories,
  "memory.history": listHistory,
  "memory.recall": recall,
  "memory.context": composeContext,
  "memory.held": heldMemories,
  "record.held": heldRecords,
  "embedding.spaces": spaceStates,
  "embedding.missing": unembedded,
  "embedding.measure": measureFloor,
  "session.list": listSessions,
  "turn.last": lastTurns,
  "turn.list": listTurns,
  "turn.search": searchTurns,
  "kv.get": kvGet,
  "kv.get_many": kvGetMany,
  "kv.list": kvList,
  "changes.list": listChanges,
  "docs.find": findDocs,
  "docs.count": countDocs,
  "docs.group": groupDocs,
  "docs.indexes": listDocIndexes,
  "docs.collections": listDocCollections,
  "docs.get": getDoc,
  "vector.search": searchVectors,
  "vector.get": getVector,
  "vector.list": listVectors,
  "file.get": getFile,
  "file.list": listFiles,
  "file.versions": listFileVersions,
  "file.search": searchFiles,
  "transfer.export": exportRecords,
  "transfer.plan": planImport,
  "facets.list": listFacets,
  due: nextDue,
  excess: findExcess,
} as const;

type Command<Context> = (context: Context, input: never) => unknown;
type InputOf<Function> = Function extends (context: never, input: infer Input) => unknown ? Input : never;

export type WriteKind = keyof typeof writeCommands;
export type ReadKind = keyof typeof readCommands;
export type WriteInput<Kind extends WriteKind> = InputOf<(typeof writeCommands)[Kind]>;
export type ReadInput<Kind extends ReadKind> = InputOf<(typeof readCommands)[Kind]>;
export type WriteOutput<Kind extends WriteKind> = ReturnType<(typeof writeCommands)[Kind]>;
export type ReadOutput<Kind extends ReadKind> = ReturnType<(typeof readCommands)[Kind]>;

/** Whether a write has this name. */
export function isWriteKind(name: string): name is WriteKind {
  return Object.hasOwn(writeCommands, name);
}

/** Runs a write by name; the client's types have already tied the input to the name. */
export function runWrite(kind: WriteKind, tx: Tx, input: unknown): unknown {
  return (writeCommands[kind] as Command<Tx>)(tx, input as never);
}

/** Runs a read by name. */
export function runRead(kind: ReadKind, view: View, input: unknown): unknown {
  return (readCommands[kind] as Command<View>)(view, input as never);
}
