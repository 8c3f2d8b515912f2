/**
 * What a write expects of what is there: the condition under which it happens, by the hash of the content.
 *
 * Always true: a condition that does not hold is a conflict, in HTTP's own word for it, and nothing was changed; the
 * same content has the same hash, whatever was there in between.
 */
import { hash } from "node:crypto";
import { invalid, ServiceError } from "../../base/faults/errors.ts";

/** What is expected: a hash, `*` anything, or that there is nothing. */
export interface Expected {
  readonly ifMatch?: string;
  readonly ifAbsent?: boolean;
}

/** What is looked at, in words: `file`, `at the path`. */
interface Place {
  readonly one: string;
  readonly where: string;
}

/** SHA-256 of the content, in hexadecimal. */
export function hashOf(content: string | Uint8Array): string {
  return hash("sha256", content, "hex");
}

/** Refuses what is not as the caller expects it; `present` gives its hash, and is undefined where nothing is there. */
export function checkExpected(
  present: (() => string) | undefined,
  { ifMatch, ifAbsent = false }: Expected,
  { one, where }: Place,
): void {
  if (ifMatch !== undefined && ifMatch !== "*" && !/^[0-9a-f]{64}$/.test(ifMatch))
    throw invalid(`if_match must be the hash of a ${one}, 64 hexadecimal digits in lower case, or *`);
  if (ifMatch !== undefined && ifAbsent) throw invalid("if_match and if_absent exclude each other");
  const unmet = (message: string): ServiceError => new ServiceError("conflict", message, { httpStatus: 412 });
  if (ifAbsent && present) throw unmet(`there is a ${one} ${where}`);
  if (ifMatch === undefined) return;
  if (!present) throw unmet(`there is no ${one} ${where}`);
  if (ifMatch !== "*" && ifMatch !== present()) throw unmet(`the ${one} has changed: its hash is another one`);
}
