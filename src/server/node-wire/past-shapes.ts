/**
 * The shapes of forwarded calls that are about earlier states. A build that does not know them refuses their commands.
 *
 * Must not know how payloads are written.
 */
import type { DiffAsked } from "../../engine/api/protocol.ts";
import type { SqlBatch } from "../../model/sql/sql.ts";
import { batchShape } from "./command-shapes.ts";
import { anything, maybe, number, record, type Shape, text } from "./payload-shapes.ts";

/** A read of an earlier state: a command with its input, or a batch of SQL. */
export interface PastRead {
  readonly at: string;
  readonly command?: string | undefined;
  readonly input?: unknown;
  readonly batch?: SqlBatch | undefined;
}

export const pastShape: Shape<PastRead> = record<PastRead>({
  at: text,
  command: maybe(text),
  input: anything,
  batch: maybe(batchShape),
});

export const diffShape: Shape<DiffAsked> = record<DiffAsked>({
  from: maybe(text),
  fromBranch: maybe(text),
  to: maybe(text),
  limit: number,
  cursor: maybe(text),
});
