/**
 * One call of an import: lines in windows, each checked as a whole before anything of it is written.
 *
 * Always true: the checkpoint is made before the first record is written, and once for all calls of an import; what a
 * window's check refuses leaves all of it unwritten, and the refusal says from which line on; records are written in
 * transactions of bounded size; a call that is short of time stops between windows and says where to go on. Must not
 * know: kinds of records, wires.
 */
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import type { Target } from "../../engine/api/protocol.ts";
import { findSqlKind } from "../../model/transfer/kinds.ts";
import {
  type ImportMode,
  importModes,
  type Imported,
  type Outcome,
  type OutcomeCounts,
  readRecord,
} from "../../model/transfer/transfer.ts";
import { checkUserSql } from "../../sqlite/sql-authorizer.ts";
import { engineOptions, type Context } from "../call/context.ts";
import type { NodeParts } from "../handlers/node-parts.ts";
import type { KnownErasures } from "../erasure/erased-books.ts";
import { namesIn } from "./record-names.ts";
import { firstState, type LineState, type RecordLine, recordWindows } from "./import-lines.ts";
import { isCounts, isHash, readCursor, writeCursor } from "./opaque-cursor.ts";

/** Of the lines that are checked before any of them is written. */
const windowBytes = 2 * 1024 * 1024;
/** Records of one transaction, and about how many characters they have together. */
const batchRecords = 250;
const batchChars = 512 * 1024;
/** Statements of one batch of user SQL. */
const batchStatements = 100;
/** A call that has less time left than this begins no further window. */
const spareMs = 10_000;
/** Lines that an answer names. */
const namedMax = 20;

export interface ImportRequest {
  readonly bytes: Uint8Array;
  readonly mode: string | undefined;
  readonly dryRun: boolean;
  readonly cursor: string | undefined;
  readonly checkpoint: string | undefined;
}

/** What a call has come to. */
export interface ImportAnswer {
  readonly isWhole: boolean;
  readonly cursor: string | undefined;
  readonly nextLine: number;
  readonly outcomes: OutcomeCounts;
  readonly left: Imported["left"];
  readonly errors: readonly { readonly line: number; readonly message: string }[];
  readonly checkpoint: string | undefined;
}

/** What is carried from call to call. */
interface Place extends LineState {
  readonly outcomes: OutcomeCounts;
  readonly checkpoint?: string;
}

function isPlace({ line, counts, hash, header, outcomes, checkpoint }: Readonly<Record<string, unknown>>): boolean {
  const isOutcomes = typeof outcomes === "object" && outcomes !== null && Object.values(outcomes).every(isCounts);
  return (
    Number.isSafeInteger(line) &&
    (line as number) > 1 &&
    isCounts(counts) &&
    isHash(hash) &&
    typeof header === "string" &&
    isOutcomes &&
    (checkpoint === undefined || typeof checkpoint === "string")
  );
}

function readMode(mode: string | undefined): ImportMode {
  const found = importModes.find((one) => one === (mode ?? "skip"));
  if (found) return found;
  throw invalid(`mode must be one of ${importModes.join(", ")}`);
}

/** Runs the call. */
export async function runImport(
  node: NodeParts,
  context: Context,
  target: Target,
  request: ImportRequest,
): Promise<ImportAnswer> {
  const call = new ImportCall(node, context, target, request);
  return call.run();
}

class ImportCall {
  readonly #node: NodeParts;
  readonly #context: Context;
  readonly #target: Target;
  readonly #request: ImportRequest;
  readonly #mode: ImportMode;
  readonly #state: LineState;
  #outcomes: Record<string, Partial<Record<Outcome, number>>>;
  #checkpoint: string | undefined;
  readonly #left: Imported["left"][number][] = [];
  readonly #errors: { readonly line: number; readonly message: string }[] = [];
  #erased: KnownErasures | undefined;

  constructor(node: NodeParts, context: Context, target: Target, request: ImportRequest) {
    this.#node = node;
    this.#context = context;
    this.#target = target;
    this.#request = request;
    this.#mode = readMode(request.mode);
    const place = request.cursor === undefined ? undefined : readCursor<Place>(request.cursor, isPlace);
    const { line, counts, hash, header } = place ?? firstState();
    this.#state = { line, counts, hash, header, isWhole: false };
    this.#outcomes = structuredClone(place?.outcomes ?? {});
    this.#checkpoint = place?.checkpoint;
  }

  async run(): Promise<ImportAnswer> {
    const { bytes, dryRun } = this.#request;
    this.#erased = await this.#node.erasures.names(this.#target.uuid);
    // Where the windows that are whole end.
    let done = { ...this.#state };
    const windows = recordWindows(bytes, this.#state, windowBytes);
    for (;;) {
      const window = this.#next(windows, done);
      if (window === undefined) break;
      const isLeft = await this.#take(window, done, dryRun);
      done = { ...this.#state };
      if (isLeft || this.#leftMs() < spareMs) break;
    }
    const { isWhole, line } = done;
    const checkpoint = this.#checkpoint;
    const place = { ...done, outcomes: this.#outcomes, ...(checkpoint !== undefined && { checkpoint }) };
    const cursor = isWhole ? undefined : writeCursor(place);
    const [outcomes, left, errors] = [this.#outcomes, this.#left, this.#errors];
    return { isWhole, cursor, nextLine: line, outcomes, left, errors, checkpoint };
  }

  #leftMs(): number {
    return this.#context.deadlineMs - this.#node.world.monotonicMs();
  }

  #next(windows: Iterator<readonly RecordLine[]>, done: LineState): readonly RecordLine[] | undefined {
    try {
      const { value, done: isOver } = windows.next();
      return isOver === true ? undefined : (value as readonly RecordLine[]);
    } catch (error) {
      throw this.#told(error, done);
    }
  }

  /** Takes the records of a window; says whether the call ends with it. */
  async #take(window: readonly RecordLine[], done: LineState, dryRun: boolean): Promise<boolean> {
    try {
      const planned = await this.#check(window, dryRun);
      if (dryRun) {
        for (const one of planned) this.#add(one);
        return this.#errors.length >= namedMax;
      }
      if (planned.some(changesAnything)) await this.#makeCheckpoint();
      for (const batch of batches(window)) this.#add(await this.#write(batch));
      return false;
    } catch (error) {
      throw this.#told(error, done);
    }
  }

  /** What the records would come to. Throws for the first that is wrong; a dry run lists them instead. */
  async #check(window: readonly RecordLine[], dryRun: boolean): Promise<readonly Imported[]> {
    const planned: Imported[] = [];
    for (const batch of batches(window)) {
      try {
        planned.push(await this.#plan(batch));
      } catch (error) {
        if (!dryRun || !isWrong(error)) throw error;
        // One by one, so that each that is wrong is named.
        for (const record of batch) {
          try {
            planned.push(await this.#plan([record]));
          } catch (wrong) {
            if (!isWrong(wrong)) throw wrong;
            if (this.#errors.length < namedMax) this.#errors.push({ line: record.line, message: wrong.message });
          }
        }
      }
    }
    return planned;
  }

  #input(records: readonly RecordLine[]) {
    const erased = namesIn(records, this.#erased!);
    return { records: records.map(({ line, text }) => ({ line, text })), mode: this.#mode, erased };
  }

  async #plan(batch: readonly RecordLine[]): Promise<Imported> {
    for (const { line, kind, text } of batch) {
      const sql = findSqlKind(kind);
      if (sql) checkSql(line, sql.toSql(readRecord(line, text).parsed, this.#mode).text);
    }
    const { engine } = this.#node;
    return (await engine.read(this.#target, "transfer.plan", this.#input(batch), this.#options(0))).value;
  }

  #options(bytes: number) {
    const { minTxid: _, ...options } = engineOptions(this.#context, bytes);
    return options;
  }

  async #write(batch: readonly RecordLine[]): Promise<Imported> {
    const { engine } = this.#node;
    if (findSqlKind(batch[0]!.kind)) return this.#writeSql(batch);
    const chars = batch.reduce((sum, { text }) => sum + text.length, 0);
    const answer = await engine.write(this.#target, "transfer.import", this.#input(batch), this.#options(chars));
    this.#note(answer);
    return answer.value;
  }

  /** Records of users' tables: those that are not there yet are user SQL. */
  async #writeSql(batch: readonly RecordLine[]): Promise<Imported> {
    const { engine } = this.#node;
    const counts: Record<string, Partial<Record<Outcome, number>>> = {};
    const left: Imported["left"][number][] = [];
    const taken: { readonly record: RecordLine; readonly outcome: Outcome }[] = [];
    const count = ({ kind, line }: RecordLine, outcome: Outcome): void => {
      const ofKind = (counts[kind] ??= {});
      ofKind[outcome] = (ofKind[outcome] ?? 0) + 1;
      if (outcome === "conflict") left.push({ line, kind, outcome });
    };
    const planned = await engine.read(
      this.#target,
      "transfer.plan",
      { ...this.#input(batch), each: true },
      { ...this.#options(0), consistency: "primary" },
    );
    for (const [at, record] of batch.entries()) {
      const outcome = planned.value.each![at]!;
      if (outcome === "created" || outcome === "replaced") taken.push({ record, outcome });
      else count(record, outcome);
    }
    if (taken.length === 0) return { counts, left };
    const statements = taken.map(({ record: { line, kind, text } }) =>
      findSqlKind(kind)!.toSql(readRecord(line, text).parsed, this.#mode),
    );
    const bytes = batch.reduce((sum, { text }) => sum + text.length, 0);
    try {
      const batchOf = { statements, atomic: true, mayWrite: true };
      const answer = await engine.sqlWrite(this.#target, batchOf, this.#options(bytes));
      this.#note(answer);
      for (const [at, { record, outcome }] of taken.entries()) {
        const isIgnored = record.kind === "sql_row" && answer.value[at]!.rowsAffected === 0;
        count(record, isIgnored ? "conflict" : outcome);
      }
    } catch (error) {
      throw atStatement(
        error,
        taken.map(({ record }) => record.line),
      );
    }
    return { counts, left };
  }

  #note({ txid, durableTxid }: { readonly txid: number; readonly durableTxid: number }): void {
    this.#context.txid = txid;
    this.#context.durableTxid = durableTxid;
  }

  #add({ counts, left }: Imported): void {
    for (const [kind, ofKind] of Object.entries(counts)) {
      const sums = (this.#outcomes[kind] ??= {});
      for (const [outcome, count] of Object.entries(ofKind) as [Outcome, number][])
        sums[outcome] = (sums[outcome] ?? 0) + count;
    }
    this.#left.push(...left.slice(0, namedMax - this.#left.length));
  }

  /** One that is there already is of an earlier call of this import. */
  async #makeCheckpoint(): Promise<void> {
    if (this.#checkpoint !== undefined) return;
    const name = this.#request.checkpoint ?? `import-${this.#state.header}`;
    const { engine } = this.#node;
    const options = this.#options(0);
    const there = await engine.branch(this.#target, { act: "checkpoints" }, options);
    if (!there.value.checkpoints.some((one) => one.name === name))
      await engine.branch(this.#target, { act: "checkpoint", name }, options);
    this.#checkpoint = name;
  }

  /** A refusal says what was taken before. */
  #told(error: unknown, { line }: LineState): unknown {
    if (!(error instanceof ServiceError)) return error;
    const taken =
      this.#checkpoint === undefined
        ? "nothing was imported"
        : `what is before line ${line} was imported, and perhaps more up to that line's megabytes; a rewind to ` +
          `${this.#checkpoint} undoes it, and the import may be given again from its beginning`;
    return new ServiceError(error.code, `${error.message} (${taken})`, error.detail);
  }
}

function changesAnything({ counts }: Imported): boolean {
  return Object.values(counts).some(({ created = 0, replaced = 0 }) => created + replaced > 0);
}

function isWrong(error: unknown): error is ServiceError {
  return error instanceof ServiceError && (error.code === "invalid_request" || error.code === "conflict");
}

function checkSql(line: number, text: string): void {
  try {
    checkUserSql(text);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    throw new ServiceError(error.code, `line ${line}: ${error.message}`, error.detail);
  }
}

/** The refusal of a batch of user SQL names the statement's index. */
function atStatement(error: unknown, lines: readonly number[]): unknown {
  if (!(error instanceof ServiceError)) return error;
  const index = /^statement (\d+): /.exec(error.message);
  if (!index) return error;
  const message = `line ${lines[Number(index[1])]}: ${error.message.slice(index[0].length)}`;
  return new ServiceError(error.code, message, error.detail);
}

/** The records in the transactions that they are written in. */
function* batches(window: readonly RecordLine[]): Generator<readonly RecordLine[]> {
  let batch: RecordLine[] = [];
  let chars = 0;
  let isSql = false;
  for (const record of window) {
    const is = findSqlKind(record.kind) !== undefined;
    const most = is ? batchStatements : batchRecords;
    if (batch.length > 0 && (is !== isSql || batch.length >= most || chars + record.text.length > batchChars)) {
      yield batch;
      batch = [];
      chars = 0;
    }
    isSql = is;
    batch.push(record);
    chars += record.text.length;
  }
  if (batch.length > 0) yield batch;
}
