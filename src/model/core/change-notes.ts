/**
 * What a transaction says of its own changes while it runs: kinds and names, never content.
 *
 * Always true: a command that is rolled back leaves no note (sqlite/group); no more than `changeNotesMax` changes of a
 * transaction are noted, and one more says that there were more. Must not know: where notes are kept, who reads them.
 */

/** Changes of one transaction that are told one by one. */
export const changeNotesMax = 1_000;

/** The names of each kind of change, in the order in which they are noted. */
export const changeNames = {
  memory: ["id"],
  session: ["sessionId"],
  turn: ["sessionId", "seq"],
  kv: ["namespace", "key"],
  doc: ["collection", "id"],
  vector: ["collection", "id"],
  file: ["path"],
  sql: ["table"],
  erasure: ["id"],
} as const;

type ChangeKind = keyof typeof changeNames;

/** A change: what it is of, what happened to it, and its names. */
export type ChangeNote = readonly [kind: ChangeKind, op: string, ...names: (string | number)[]];

/** Where a transaction's notes go, each as JSON text. */
export interface NoteTaker {
  readonly notes: string[];
}

/** Notes a change of the transaction. */
export function note({ notes }: NoteTaker, ...change: ChangeNote): void {
  if (notes.length <= changeNotesMax) notes.push(JSON.stringify(change));
}
