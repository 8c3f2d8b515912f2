/**
 * The hash of the lines of an export: a chain of SHA-256, so that it can be made and checked in parts.
 *
 * It begins with 32 zero bytes; each line makes it SHA-256 of the 32 bytes so far, the line in UTF-8, and a line feed.
 */
import { createHash } from "node:crypto";

/** The hash of no line, in hexadecimal. */
export const emptyChain = "00".repeat(32);

/** The hash with one more line, which has no line break. */
export function chainHash(hash: string, line: string): string {
  return createHash("sha256").update(Buffer.from(hash, "hex")).update(line, "utf8").update("\n").digest("hex");
}
