/**
 * Many turns at once: appended to a session, or put in the place of its last ones.
 *
 * Always true: a call takes effect as a whole or not at all; a turn whose id is there is not written twice, and an
 * operation is carried out once (turn-operations). Must not know: wires, embedders.
 */
import { hash } from "node:crypto";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { utf8Length } from "../../base/bytes.ts";
import { limits } from "../../base/limits.ts";
import { checkSessionId, checkText } from "../../format/core/names.ts";
import { readContent } from "../core/content.ts";
import { canonicalText, storedJson } from "../core/docs-json.ts";
import { touchSession } from "../core/session-row.ts";
import { checkSubject } from "../core/subjects.ts";
import type { Tx, View } from "../core/transaction.ts";
import type { Embedded } from "../memory/memory-vectors.ts";
import { checkEmbedding } from "../vectors/vectors.ts";
import { insertTurn, lastSeq, type NewTurn } from "./transcript.ts";
import { findTurn, joinedDetails, readDetails, turnIdBytesMax } from "./turn-details.ts";
import { once } from "./turn-operations.ts";
import { checkSeq, removeTurnRows } from "./turn-removal.ts";

/** Turns that one call appends or expects. */
export const turnsBatchMax = 1_000;
/** Their contents and metadata, together. */
export const turnsBatchBytesMax = 16 * 1024 * 1024;

interface BatchInput {
  readonly sessionId: string;
  readonly turns: readonly NewTurn[];
  readonly operationId?: string | undefined;
}

/** A turn that a caller expects; what is absent is not compared. */
interface ExpectedTurn {
  readonly seq?: number | undefined;
  readonly turnId?: string | undefined;
  /** Of the canonical text of its content, in hex. */
  readonly contentSha256?: string | undefined;
}

export interface ReplaceInput extends BatchInput {
  /** The last turns, oldest first. */
  readonly expected: readonly ExpectedTurn[];
}

/** What became of one turn. */
export interface Appended {
  readonly seq: number;
  readonly status: "created" | "duplicate";
  readonly embedding?: Embedded;
}

/** Turns one after another of which the same became: a batch is one such run, mostly, and is kept as that. */
interface Run {
  readonly appended: Appended;
  count: number;
}

/** Checks the turns of a call and gives them as they are stored. Reads nothing. */
function readTurns(turns: readonly NewTurn[]): readonly NewTurn[] {
  if (turns.length > turnsBatchMax) throw invalid(`turns must hold at most ${turnsBatchMax} turns`);
  let bytes = 0;
  return turns.map((turn, at) => {
    const place = `turns[${at}].`;
    checkText(`${place}role`, turn.role, limits.roleBytesMax);
    const { text: content } = readContent(`${place}content`, turn.content);
    const details = readDetails(place, turn);
    if (turn.subject !== undefined) checkSubject(`${place}subject`, turn.subject);
    if (turn.embedding) checkEmbedding(`${place}embedding`, turn.embedding);
    bytes += utf8Length(content) + utf8Length(details.metadata ?? "");
    if (bytes > turnsBatchBytesMax)
      throw invalid(`turns must hold at most ${turnsBatchBytesMax} bytes of content and metadata together`);
    return { ...turn, content, ...details };
  });
}

function checkCall({ sessionId, operationId }: BatchInput): void {
  checkSessionId(sessionId);
  if (operationId !== undefined) checkText("operation_id", operationId, turnIdBytesMax);
}

/** Refuses an append that no state of the database could take. Reads nothing. */
export function readAppend(input: BatchInput): BatchInput {
  checkCall(input);
  if (input.turns.length === 0) throw invalid(`turns must hold 1 to ${turnsBatchMax} turns`);
  return { ...input, turns: readTurns(input.turns) };
}

/** Refuses a replacement that no state of the database could take. Reads nothing. */
export function readReplacement(input: ReplaceInput): ReplaceInput {
  checkCall(input);
  const { expected } = input;
  if (expected.length === 0 && input.turns.length === 0) throw invalid("give expected, turns or both");
  if (expected.length > turnsBatchMax) throw invalid(`expected must hold at most ${turnsBatchMax} turns`);
  for (const [at, { seq, turnId, contentSha256 }] of expected.entries()) {
    const place = `expected[${at}]`;
    if (seq === undefined && turnId === undefined && contentSha256 === undefined)
      throw invalid(`${place} must have at least one of seq, turn_id and content_sha256`);
    checkSeq(`${place}.seq`, seq);
    if (turnId !== undefined) checkText(`${place}.turn_id`, turnId, turnIdBytesMax);
    if (contentSha256 !== undefined && !/^[0-9a-f]{64}$/.test(contentSha256))
      throw invalid(`${place}.content_sha256 must be 64 digits of lower-case hex`);
  }
  return { ...input, turns: readTurns(input.turns) };
}

/** Appends the turns in their order; one that is there with its id is not appended again. */
export function appendTurns(tx: Tx, given: BatchInput): { turns: Appended[] } {
  const { sessionId, operationId, turns } = readAppend(given);
  const request = ["append", turns.map(toRequest)];
  const runs = once(tx, { sessionId, operationId, request }, () =>
    toRuns(writeTurns(tx, sessionId, turns, (row, turn, at) => duplicateOf(tx, row, turn, at))),
  );
  return { turns: fromRuns(runs) };
}

/** Puts the turns in the place of the last ones, if those are the expected ones. */
export function replaceTurns(tx: Tx, given: ReplaceInput): { removed: number; turns: Appended[] } {
  const { sessionId, operationId, expected, turns } = readReplacement(given);
  const request = [
    "replace",
    expected.map(({ seq, turnId, contentSha256 }) => [seq ?? null, turnId ?? null, contentSha256 ?? null]),
    turns.map(toRequest),
  ];
  const { removed, runs } = once(tx, { sessionId, operationId, request }, () => {
    const gone = removeTurnRows(tx, sessionId, expectedRows(tx, sessionId, expected));
    const appended = writeTurns(tx, sessionId, turns, (_row, _turn, at) => {
      throw new ServiceError("conflict", `turns[${at}].turn_id is that of a turn that stays in this session`);
    });
    return { removed: gone, runs: toRuns(appended) };
  });
  return { removed, turns: fromRuns(runs) };
}

/** What tells one request from another; vectors may be made anew for the same text. */
function toRequest({ role, content, turnId, metadata, subject }: NewTurn): readonly (string | null)[] {
  const about = subject === undefined ? [] : [subject];
  return [role, content, turnId ?? null, metadata ?? null, ...about];
}

/** Writes the turns; `met` answers for one whose id a turn of the session has already, by that one's row. */
function writeTurns(
  tx: Tx,
  sessionId: string,
  turns: readonly NewTurn[],
  met: (row: number, turn: NewTurn, at: number) => Appended,
): readonly Appended[] {
  let seq = lastSeq(tx, sessionId);
  const appended = turns.map((turn, at): Appended => {
    const row = turn.turnId === undefined ? undefined : findTurn(tx, sessionId, turn.turnId);
    if (row !== undefined) return met(row, turn, at);
    const embedding = insertTurn(tx, sessionId, ++seq, turn);
    return { seq, status: "created", ...(embedding && { embedding }) };
  });
  if (appended.some(({ status }) => status === "created")) touchSession(tx, sessionId);
  return appended;
}

/** The turn of this row as what a repeated append gives; throws conflict when it is another one. */
function duplicateOf(view: View, row: number, turn: NewTurn, at: number): Appended {
  const { join, columns } = joinedDetails(view);
  const there = view.connection.get<{ seq: number; role: string; content: string; metadata: string | null }>(
    `SELECT t.seq, t.role, t.content, ${columns} FROM __service_turn AS t ${join} WHERE t.row = ?`,
    row,
  )!;
  const same =
    there.role === turn.role &&
    isSameJson(there.content, turn.content) &&
    isSameJson(there.metadata ?? "null", turn.metadata ?? "null");
  if (same) return { seq: there.seq, status: "duplicate" };
  throw new ServiceError("conflict", `turns[${at}].turn_id is that of turn ${there.seq}, which says something else`);
}

function isSameJson(one: string, other: string): boolean {
  return one === other || canonicalText(storedJson(one)) === canonicalText(storedJson(other));
}

/** The rows of the session's last turns, which must be the expected ones. */
function expectedRows(view: View, sessionId: string, expected: readonly ExpectedTurn[]): readonly number[] {
  const { join, columns } = joinedDetails(view);
  const tail = view.connection
    .all<{ row: number; seq: number; content: string; turnId: string | null }>(
      `SELECT t.row, t.seq, t.content, ${columns} FROM __service_turn AS t ${join} WHERE t.session_id = ?
       ORDER BY t.seq DESC LIMIT ?`,
      sessionId,
      expected.length,
    )
    .reverse();
  if (tail.length < expected.length)
    throw new ServiceError("conflict", `expected has ${expected.length} turns, but the session has ${tail.length}`);
  for (const [at, { seq, turnId, contentSha256 }] of expected.entries()) {
    const turn = tail[at]!;
    const differs = (field: string): ServiceError =>
      new ServiceError(
        "conflict",
        `the session's last ${expected.length} turns are not the expected ones: expected[${at}].${field} differs`,
      );
    if (seq !== undefined && seq !== turn.seq) throw differs("seq");
    if (turnId !== undefined && turnId !== turn.turnId) throw differs("turn_id");
    if (contentSha256 !== undefined && contentSha256 !== hashContent(turn.content)) throw differs("content_sha256");
  }
  return tail.map(({ row }) => row);
}

/** SHA-256 of a content in its canonical form, in hex: what `content_sha256` of an expected turn is. */
export function hashContent(content: string): string {
  return hash("sha256", canonicalText(storedJson(content)), "hex");
}

function toRuns(all: readonly Appended[]): Run[] {
  const runs: Run[] = [];
  for (const appended of all) {
    const run = runs.at(-1);
    const { seq, status, embedding } = run?.appended ?? {};
    if (run && seq! + run.count === appended.seq && status === appended.status && embedding === appended.embedding)
      run.count++;
    else runs.push({ appended, count: 1 });
  }
  return runs;
}

function fromRuns(runs: readonly Run[]): Appended[] {
  return runs.flatMap(({ appended, count }) =>
    Array.from({ length: count }, (_, step) => ({ ...appended, seq: appended.seq + step })),
  );
}
