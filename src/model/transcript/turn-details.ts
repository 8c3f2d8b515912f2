/**
 * What a turn may have beside its words: an id of its caller's, and metadata that filters can ask.
 *
 * Owns its table, which is made when the first turn comes that has either: earlier files stay as they are. Always true:
 * a row belongs to a turn that is there, which a trigger of the file sees to, so that a build that knows nothing of the
 * table leaves no row behind either; an id is given once among the turns of a session. Must not know: when a turn is
 * written or goes.
 */
import { checkText } from "../../format/core/names.ts";
import type { Connection, SqlParameter } from "../../sqlite/connection/connection.ts";
import type { Tx, View } from "../core/transaction.ts";
import { readMetadata } from "../docs/memory-metadata.ts";
import { filterCondition } from "../docs/metadata-filter.ts";

/** Bytes of an id of a turn or of an operation. */
export const turnIdBytesMax = 128;

const table = "__service_turn_detail";

/** The mark comes first and no two rows have the same, so that a copy of one can be looked for (erasure-traces). */
const schema = `
CREATE TABLE ${table} (
  turn INTEGER PRIMARY KEY,
  mark TEXT NOT NULL,
  session_id TEXT NOT NULL,
  turn_id TEXT,
  metadata TEXT
) STRICT;
CREATE UNIQUE INDEX __service_turn_named ON ${table} (session_id, turn_id) WHERE turn_id IS NOT NULL;
CREATE TRIGGER __service_turn_gone AFTER DELETE ON __service_turn
BEGIN DELETE FROM ${table} WHERE turn = old.row; END;
`;

/** SQL that finds details without their turn; undefined while there are no details at all. */
export function strayTurnDetails(connection: Connection): string | undefined {
  return connection.hasTable(table)
    ? `SELECT 1 FROM ${table} WHERE turn NOT IN (SELECT row FROM __service_turn) LIMIT 1`
    : undefined;
}

export interface TurnDetails {
  readonly turnId?: string | undefined;
  /** JSON text of an object. */
  readonly metadata?: string | undefined;
}

/** Checks the details of a turn, and gives them as they are stored. `place` comes before the names of fields. */
export function readDetails(place: string, { turnId, metadata }: TurnDetails): TurnDetails {
  return {
    turnId: turnId === undefined ? undefined : checkText(`${place}turn_id`, turnId, turnIdBytesMax),
    metadata: metadata === undefined ? undefined : readMetadata(`${place}metadata`, metadata),
  };
}

/** Gives a new turn its details, those of `readDetails`. */
export function putDetails(tx: Tx, turn: number, sessionId: string, { turnId, metadata }: TurnDetails): void {
  if (turnId === undefined && metadata === undefined) return;
  if (!tx.connection.hasTable(table)) tx.connection.exec(schema);
  tx.connection.run(
    `INSERT INTO ${table} (turn, mark, session_id, turn_id, metadata) VALUES (?, ?, ?, ?, ?)`,
    turn,
    tx.newId(),
    sessionId,
    turnId ?? null,
    metadata ?? null,
  );
}

/** The row of the session's turn of this id. */
export function findTurn(view: View, sessionId: string, turnId: string): number | undefined {
  if (!view.connection.hasTable(table)) return undefined;
  return view.connection.get<{ turn: number }>(
    `SELECT turn FROM ${table} WHERE session_id = ? AND turn_id = ?`,
    sessionId,
    turnId,
  )?.turn;
}

/** The details beside `__service_turn AS t`: a join, the columns that it gives, and how large a turn is. */
export function joinedDetails(view: View): { readonly join: string; readonly columns: string; readonly bytes: string } {
  if (!view.connection.hasTable(table))
    return { join: "", columns: "NULL AS turnId, NULL AS metadata", bytes: "octet_length(t.content)" };
  return {
    join: `LEFT JOIN ${table} AS d ON d.turn = t.row`,
    columns: "d.turn_id AS turnId, d.metadata",
    bytes: "octet_length(t.content) + coalesce(octet_length(d.metadata), 0)",
  };
}

/** The filter, text that passed `checkFilter`, as an SQL condition on `__service_turn AS t`. */
export function turnCondition(
  view: View,
  filter: string,
): { readonly sql: string; readonly params: readonly SqlParameter[] } {
  return filterCondition(view, { table, ofOwner: "x.turn = t.row AND x.metadata IS NOT NULL" }, filter);
}

/** A row of details as far as a copy of it is looked for by. */
export interface DetailStart {
  readonly mark: string;
  readonly turnIdBytes: number | null;
  readonly metadataBytes: number | null;
}

/** The details of the session's turns, or of those whose numbers stand in the JSON list. */
export function detailStarts(view: View, sessionId: string, seqs: string | null): readonly DetailStart[] {
  if (!view.connection.hasTable(table)) return [];
  return view.connection.all(
    `SELECT d.mark, octet_length(d.turn_id) AS turnIdBytes, octet_length(d.metadata) AS metadataBytes
     FROM __service_turn AS t CROSS JOIN ${table} AS d ON d.turn = t.row WHERE t.session_id = ?
       AND (? IS NULL OR t.seq IN (SELECT value FROM json_each(?))) ORDER BY t.seq`,
    sessionId,
    seqs,
    seqs,
  );
}
