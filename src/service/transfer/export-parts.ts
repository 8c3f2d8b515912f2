/**
 * An export, part by part.
 *
 * Always true: all parts are of one transaction. What fits one part is one read; of more, the state is forked, and the
 * parts are read from the fork by whichever node is asked: no read lasts longer than a part, no writer waits, and a
 * part may be asked for again. The fork goes with the last part, or by itself. Must not know: kinds of records, wires.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import type { Target } from "../../engine/api/protocol.ts";
import { emptyChain } from "../../model/transfer/hash-chain.ts";
import type { ExportedPart, ExportPlace, RecordCounts } from "../../model/transfer/transfer.ts";
import { engineOptions, seen, type Context } from "../call/context.ts";
import type { NodeParts } from "../handlers/node-parts.ts";
import { addCounts, headerLine, markLine, trailerLine } from "./envelope.ts";
import { isCounts, isHash, readCursor, writeCursor } from "./opaque-cursor.ts";

/** Of the lines of a part, unless a single one has more: common clients of gRPC take messages of up to 4 MiB. */
const partBytesMax = 2 * 1024 * 1024;
/** How long the fork of an export that nobody goes on with stays. */
const forkTtlSecs = 3_600;
/** Forks of exports that a database may have at once. */
const forksMax = 4;
const forkPrefix = "export-";

/** Where an export goes on. */
interface Place {
  readonly fork: string;
  readonly asOfMs: number;
  readonly from: ExportPlace;
  readonly counts: RecordCounts;
  readonly hash: string;
}

function isPlace({ fork, asOfMs, from, counts, hash }: Readonly<Record<string, unknown>>): boolean {
  const { kind, after } = (from ?? {}) as { readonly kind?: unknown; readonly after?: unknown };
  const isPosition = (value: unknown): boolean => typeof value === "string" || typeof value === "number";
  return (
    typeof fork === "string" &&
    /^export-[0-9a-z]{26}$/.test(fork) &&
    Number.isSafeInteger(asOfMs) &&
    typeof kind === "string" &&
    (after === undefined || (Array.isArray(after) && after.length <= 4 && after.every(isPosition))) &&
    isCounts(counts) &&
    isHash(hash)
  );
}

/** A part, and what it is of. */
interface Part extends ExportedPart {
  readonly txid: number;
}

/** Gives the first part of an export of the branch, as it is or as it was in the state that the call asks for. */
export async function firstPart(node: NodeParts, context: Context, target: Target): Promise<string> {
  const createdAtMs = node.world.nowMs();
  const only = await readPart(node, context, target, { hash: emptyChain });
  if (!only.next) return form(target, createdAtMs, only, undefined);
  const { asOfMs } = only;
  const fork = await forkFor(node, context, target);
  try {
    const part = await readFork(node, context, target, { fork, asOfMs, hash: emptyChain });
    if (!part.next) await removeFork(node, context, target, fork);
    return form(target, createdAtMs, part, part.next && { fork, from: part.next, ...part });
  } catch (error) {
    await removeFork(node, context, target, fork);
    throw error;
  }
}

/** Gives the part that the cursor asks for. */
export async function nextPart(node: NodeParts, context: Context, target: Target, cursor: string): Promise<string> {
  const { fork, asOfMs, from, counts, hash } = readCursor<Place>(cursor, isPlace);
  const part = await readFork(node, context, target, { fork, asOfMs, from, hash }).catch(goneFork);
  const sums = { ...part, counts: addCounts(counts, part.counts) };
  if (part.next) return part.text + markLine(writeCursor(toPlace({ fork, from: part.next, ...sums })));
  await removeFork(node, context, target, fork);
  return part.text + trailerLine(sums);
}

async function readPart(
  node: NodeParts,
  context: Context,
  target: Target,
  input: { readonly asOfMs?: number; readonly from?: ExportPlace; readonly hash: string },
  options = engineOptions(context),
): Promise<Part> {
  const answer = await node.engine.read(target, "transfer.export", { ...input, bytesMax: partBytesMax }, options);
  return { ...seen(context, answer).value, txid: answer.txid };
}

/** Likewise, of the fork, whose newest state is the one: nobody has seen a later one of it. */
function readFork(
  node: NodeParts,
  context: Context,
  { uuid, database }: Target,
  {
    fork,
    ...input
  }: { readonly fork: string; readonly asOfMs: number; readonly from?: ExportPlace; readonly hash: string },
): Promise<Part> {
  const options = { ...engineOptions(context), at: undefined, minTxid: 0 };
  return readPart(node, context, { uuid, database, branch: fork }, input, options);
}

function form(target: Target, createdAtMs: number, part: Part, place: Place | undefined): string {
  const { database = "", branch } = target;
  const header = headerLine({ database, branch, txid: part.txid, createdAtMs });
  return header + part.text + (place ? markLine(writeCursor(toPlace(place))) : trailerLine(part));
}

/** Nothing but a place, of what may be more. */
function toPlace({ fork, asOfMs, from, counts, hash }: Place): Place {
  return { fork, asOfMs, from, counts, hash };
}

async function forkFor(node: NodeParts, context: Context, target: Target): Promise<string> {
  const { at, ...options } = engineOptions(context);
  const { branches } = (await node.engine.branch(target, { act: "list" }, options)).value;
  if (branches.filter(({ name }) => name.startsWith(forkPrefix)).length >= forksMax)
    throw new ServiceError("overloaded", `${forksMax} exports of this database are under way; try again later`);
  const name = `${forkPrefix}${node.world.ulid().toLowerCase()}`;
  await node.engine.branch(
    target,
    { act: "fork", name, ttlSecs: forkTtlSecs, ...(at === undefined ? {} : { at }) },
    options,
  );
  return name;
}

/** The fork of an export that is over, or failed. One that cannot be removed goes by itself. */
async function removeFork(node: NodeParts, context: Context, { uuid }: Target, fork: string): Promise<void> {
  const { deadlineMs } = engineOptions(context);
  try {
    await node.engine.branch({ uuid, branch: "main" }, { act: "delete", name: fork }, { deadlineMs });
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
  }
  node.erasures.wake(uuid);
}

function goneFork(error: unknown): never {
  if (error instanceof ServiceError && error.code === "branch_not_found")
    throw new ServiceError("not_found", "this export is over, or was left for an hour: begin it anew");
  throw error;
}
