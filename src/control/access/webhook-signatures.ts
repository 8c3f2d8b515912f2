/**
 * Signatures of webhooks, by Standard Webhooks' asymmetric scheme: `v1a,` and an Ed25519 signature over the message's
 * id, its time and its body.
 *
 * Always true: signed with the key that tokens and receipts are signed with, so that a receiver finds the public half
 * in the key set; what is signed is neither a token, which has no braces, nor a receipt, which begins with its domain.
 * Must not know: what a message says, who gets it.
 */
import { sign } from "node:crypto";
import { assert } from "../../base/faults/assert.ts";
import { encodeUtf8 } from "../../base/bytes.ts";
import type { SigningKey } from "./signing-key.ts";

/** Has no dot, which divides what is signed. */
const idPattern = /^[A-Za-z0-9_-]+$/;

export class WebhookSignatures {
  readonly #key: Pick<SigningKey, "privateKey">;

  constructor(key: Pick<SigningKey, "privateKey">) {
    this.#key = key;
  }

  /** The headers of a message. */
  headers(id: string, atMs: number, body: string): Readonly<Record<string, string>> {
    assert(idPattern.test(id) && body.startsWith("{"), "what is signed is a webhook and nothing else");
    const timestamp = String(Math.floor(atMs / 1_000));
    const signature = sign(null, encodeUtf8(`${id}.${timestamp}.${body}`), this.#key.privateKey);
    return {
      "webhook-id": id,
      "webhook-timestamp": timestamp,
      "webhook-signature": `v1a,${signature.toString("base64")}`,
    };
  }
}
