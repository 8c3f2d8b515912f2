/** What tags end in: the same for the same text under one key, and another for any other text, database or key. */
import { generateKeyPairSync } from "node:crypto";
import { expect, test } from "vitest";
import { Fences } from "../../../../src/control/access/fences.ts";
import { buildSigningKey } from "../../../../src/control/access/signing-key.ts";

const key = () => buildSigningKey(generateKeyPairSync("ed25519").privateKey);

test("tags end in 24 letters that follow from key, database and text, and from nothing else", async () => {
  const [one, other] = [await key(), await key()];
  const fences = new Fences(one);
  const nonce = fences.nonce("uuid", "text");
  expect(nonce).toMatch(/^[a-p]{24}$/);
  expect(new Fences(one).nonce("uuid", "text")).toBe(nonce);
  const others = [
    new Fences(other).nonce("uuid", "text"),
    fences.nonce("uuid", "text."),
    fences.nonce("uui", "dtext"),
    fences.nonce(undefined, "text"),
    // A text into which the tag was written that it had before.
    fences.nonce("uuid", `text${nonce}`),
  ];
  expect(new Set([nonce, ...others]).size).toBe(6);
});
