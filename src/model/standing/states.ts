/**
 * The states of a memory, and how a row tells them.
 *
 * Always true: `superseded_by` is NULL in an active memory, the id of its superseder in a superseded one, and a mark in
 * one that is proposed or completed; `superseded_at` says since when. So nothing that asks for active memories, the
 * indexes of the schema and earlier builds included, ever meets a proposal or a task that is done. Ids begin with
 * `mem_`, and marks sort after all of them.
 */

/** In the order in which errors and documents list them. */
export const memoryStates = ["active", "superseded", "completed", "proposed"] as const;
export type MemoryState = (typeof memoryStates)[number];

/** What stands in the place of a superseder. */
export const stateMarks = { completed: "state:completed", proposed: "state:proposed" } as const;

/** The superseder of a memory whose real one was erased: no memory ever has this id. */
export const erasedMemoryId = "mem_00000000000000000000000000";

/** Where no state is named: what holds. */
export const activeOnly = ["active"] as const satisfies readonly MemoryState[];

/** What was taken in, in whatever state by now; proposals were not. */
export const takenIn = ["active", "superseded", "completed"] as const satisfies readonly MemoryState[];

/** SQL that holds of superseded rows, and of no mark; NULL of active ones. */
export function supersededSql(alias: string): string {
  return `${alias}.superseded_by < 'n'`;
}

/** SQL that holds of the rows of the alias that are in one of the states. */
export function statesSql(alias: string, states: readonly MemoryState[]): string {
  const column = `${alias}.superseded_by`;
  const conditions: Readonly<Record<MemoryState, string>> = {
    active: `${column} IS NULL`,
    superseded: supersededSql(alias),
    completed: `${column} = '${stateMarks.completed}'`,
    proposed: `${column} = '${stateMarks.proposed}'`,
  };
  const all = memoryStates.filter((state) => states.includes(state)).map((state) => conditions[state]);
  if (all.length === 0) return "0";
  return all.length === 1 ? all[0]! : `(${all.join(" OR ")})`;
}

/** The state that a row of this `superseded_by` is in. */
export function stateOf(supersededBy: string | null): MemoryState {
  if (supersededBy === null) return "active";
  if (supersededBy === stateMarks.completed) return "completed";
  return supersededBy === stateMarks.proposed ? "proposed" : "superseded";
}
