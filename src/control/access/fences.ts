/**
 * What the tags around a tenant's text end in, so that nothing between them can close them.
 *
 * Always true: the same text of the same database gets the same letters on every node that has the signing key, and no
 * one who has not can know them, nor make a text that holds the letters of its own: they are a keyed hash of all of it,
 * so that a text which gets a tag seen before written into it is another text, between other tags. Nothing is stored.
 * Must not know: what the text says.
 */
import { createHmac } from "node:crypto";
import { derived } from "./credentials.ts";
import type { SigningKey } from "./signing-key.ts";

/** Twelve bytes: no one finds them by trying. */
const hexDigits = 24;

export class Fences {
  readonly #key: Buffer;

  constructor(signingKey: SigningKey) {
    this.#key = derived(signingKey, "palimpsest context fence");
  }

  /** Letters from a to p for this text of the database, which has a uuid if it exists. */
  nonce(uuid: string | undefined, text: string): string {
    const digits = createHmac("sha256", this.#key)
      .update(`${uuid ?? ""}\0${text}`)
      .digest("hex")
      .slice(0, hexDigits);
    return digits.replace(/./g, (digit) => String.fromCharCode(0x61 + Number.parseInt(digit, 16)));
  }
}
