/**
 * What erasures of a database have taken out of it, by name, and which records of an import speak of that.
 *
 * Always true: a record that is newer than the erasure is none of it; a record without a time of its own has it for
 * good. Must not know: coupons, which records there are.
 */
import type { RecordTarget } from "../../format/erasure/erasure-receipt.ts";

/** What an erasure was asked for: a record, all records of a subject, or a session. */
type ErasedTarget =
  | RecordTarget
  /** `turns` says whether its transcript went too. */
  | { readonly kind: "session"; readonly sessionId: string; readonly turns: boolean };

/** What an import must not bring back. */
export interface ErasedNames {
  readonly memoryIds: readonly string[];
  /** `untilMs` is when it was asked for. */
  readonly targets: readonly { readonly target: ErasedTarget; readonly untilMs: number }[];
}

/** Whether one of the targets, asked for since the record is there, is the one that is looked for. */
export function isTarget(
  { targets }: ErasedNames,
  atMs: number | undefined,
  isIt: (target: ErasedTarget) => boolean,
): boolean {
  return targets.some(({ target, untilMs }) => (atMs === undefined || atMs <= untilMs) && isIt(target));
}

/** Whether the subject was erased. */
export function isErasedSubject(erased: ErasedNames, subject: string | undefined, atMs?: number): boolean {
  if (subject === undefined) return false;
  return isTarget(erased, atMs, (target) => target.kind === "subject" && target.subject === subject);
}

/** Whether any subject was: then turns and memories are gone whose names no one knows. */
export function isAnySubjectErased(erased: ErasedNames, atMs?: number): boolean {
  return isTarget(erased, atMs, ({ kind }) => kind === "subject");
}

/** Whether the session was erased, with its turns or without. */
export function isErasedSession(erased: ErasedNames, sessionId: string, atMs: number): boolean {
  return isTarget(erased, atMs, (target) => target.kind === "session" && target.sessionId === sessionId);
}

/** Whether the turn was erased, by its number or with its session. */
export function isErasedTurn(erased: ErasedNames, sessionId: string, seq: number, atMs: number): boolean {
  return isTarget(erased, atMs, (target) => {
    if (target.kind === "session") return target.turns && target.sessionId === sessionId;
    return target.kind === "turn" && target.sessionId === sessionId && target.seq === seq;
  });
}

/** Whether the path was erased, by itself or with what is below a folder. */
export function isErasedPath(erased: ErasedNames, path: string, atMs: number): boolean {
  return isTarget(
    erased,
    atMs,
    (target) => target.kind === "path" && (path === target.path || path.startsWith(`${target.path}/`)),
  );
}
