/**
 * What differs between two states of a database's branches, page by page.
 *
 * Always true: both ends are states that were restored and are held meanwhile; the thread is given back between steps
 * of a few milliseconds; a page says which states it compares, and the next one compares the same. Must not know: what
 * is compared (model/core/state-diff), threads, wires.
 */
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { turn, type World } from "../../base/world.ts";
import {
  diffBegin,
  diffStep,
  isDiffPosition,
  type Difference,
  type DiffPosition,
} from "../../model/core/state-diff.ts";
import { Connection } from "../../sqlite/connection/connection.ts";
import type { Answer, DiffAsked, DiffPage } from "../api/protocol.ts";
import type { Database } from "../database/database.ts";
import type { HeldPast, PastReads } from "./past-reads.ts";

/** A page takes no longer than that, and may be short then. */
const pageMs = 2_000;

/** Where a page begins, and between which states. */
interface Cursor {
  readonly from: number;
  readonly to: number;
  readonly position: DiffPosition;
}

/** The comparison's parts. */
export interface DiffsParts {
  readonly world: World;
  readonly reads: PastReads;
}

export class Diffs {
  readonly #parts: DiffsParts;

  constructor(parts: DiffsParts) {
    this.#parts = parts;
  }

  /** A page of what differs between a state of the one branch and one of the other, by default the newest ones. */
  async page(before: Database, after: Database, asked: DiffAsked, deadlineMs: number): Promise<Answer<DiffPage>> {
    const { reads } = this.#parts;
    const cursor = asked.cursor === undefined ? undefined : parseCursor(asked.cursor);
    const at = (database: Database, txid: number | undefined, name: string | undefined): string =>
      String(txid ?? name ?? database.safeTxid);
    const past = await reads.hold(before, { at: at(before, cursor?.from, asked.from), deadlineMs });
    try {
      const main = await reads.hold(after, { at: at(after, cursor?.to, asked.to), deadlineMs });
      try {
        const position = cursor?.position ?? diffBegin;
        const value = await this.#compare(past, main, position, asked.limit, deadlineMs);
        return { value, txid: value.to, durableTxid: after.durableTxid };
      } finally {
        main.release();
      }
    } finally {
      past.release();
    }
  }

  async #compare(
    { state: past }: HeldPast,
    { state: main }: HeldPast,
    begin: DiffPosition,
    limit: number,
    deadlineMs: number,
  ): Promise<DiffPage> {
    const { world } = this.#parts;
    const untilMs = Math.min(deadlineMs, world.monotonicMs() + pageMs);
    const connection = new Connection(main.path, { readonly: true, pageCacheKiB: limits.pageCacheKiB });
    try {
      connection.run("ATTACH ? AS past", past.path);
      const differences: Difference[] = [];
      let next: DiffPosition | undefined = begin;
      do {
        const step = diffStep(connection, next, limit - differences.length);
        differences.push(...step.differences);
        next = step.next;
        await turn(world);
      } while (next && differences.length < limit && world.monotonicMs() < untilMs);
      const cursor = next && formatCursor({ from: past.txid, to: main.txid, position: next });
      return { from: past.txid, to: main.txid, differences, cursor };
    } finally {
      connection.close();
    }
  }
}

function formatCursor({ from, to, position }: Cursor): string {
  return Buffer.from(JSON.stringify([from, to, position.section, ...(position.after ?? [])])).toString("base64url");
}

function parseCursor(text: string): Cursor {
  try {
    const [from, to, section, ...after] = JSON.parse(Buffer.from(text, "base64url").toString()) as unknown[];
    const position = after.length === 0 ? { section } : { section, after };
    if (isTxid(from) && isTxid(to) && isDiffPosition(position)) return { from, to, position };
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof TypeError)) throw error;
  }
  throw invalid("cursor is none that a page of this comparison gave");
}

function isTxid(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
