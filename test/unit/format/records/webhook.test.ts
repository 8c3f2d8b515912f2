/** Webhooks at rest: what is written is read, and nothing else is. */
import { expect, test } from "vitest";
import { NewerFormat } from "../../../../src/format/core/versions.ts";
import { decodeWebhook, encodeWebhook, type StoredWebhook } from "../../../../src/format/records/webhook.ts";

const nonce = new Uint8Array(16).fill(7);
const webhook: StoredWebhook = {
  uuid: "00000000-0000-4000-8000-000000000001",
  id: "whk_01HF7YAT00000000000000000J",
  database: "acme--alice",
  branch: "main",
  url: "https://example.org/hooks/é",
  kinds: ["kv", "memory"],
  description: "mine",
  createdAtMs: 1,
  paused: "gone",
  position: 12,
  trying: { txid: 13, atMs: 2, tries: 1, reason: "status", status: 500, nextAtMs: 3 },
  failures: [
    { txid: 9, afterTxid: 8, atMs: 2, tries: 7, reason: "timeout", status: undefined, isQueued: false },
    { txid: 10, afterTxid: 9, atMs: 2, tries: 7, reason: "status", status: 404, isQueued: true },
  ],
};
const bare = { ...webhook, kinds: undefined, description: undefined, paused: undefined, trying: undefined };

test("every member comes back, and what is absent stays so", () => {
  for (const one of [webhook, { ...bare, failures: [] }]) expect(decodeWebhook(encodeWebhook(one, nonce))).toEqual(one);
});

test.each<[string, (fields: any) => unknown]>([
  ["no JSON", () => "{"],
  ["another value", () => []],
  ["a member too many", (fields) => ({ ...fields, more: 1 })],
  ["no url", ({ url: _, ...fields }) => fields],
  ["another id", (fields) => ({ ...fields, id: "mem_01HF7YAT00000000000000000J" })],
  ["a position of the past", (fields) => ({ ...fields, position: -1 })],
  ["a failure without its place", (fields) => ({ ...fields, failures: [{ txid: 1 }] })],
  ["another pause", (fields) => ({ ...fields, paused: "perhaps" })],
])("%s is corrupt", (_, spoil) => {
  const fields: unknown = JSON.parse(Buffer.from(encodeWebhook(webhook, nonce)).toString());
  const spoilt = spoil(fields);
  const bytes = Buffer.from(typeof spoilt === "string" ? spoilt : JSON.stringify(spoilt));
  expect(() => decodeWebhook(bytes)).toThrow(expect.objectContaining({ kind: "corrupt" }) as Error);
});

test("one of a newer build is refused by name", () => {
  const fields = JSON.parse(Buffer.from(encodeWebhook(webhook, nonce)).toString()) as object;
  expect(() => decodeWebhook(Buffer.from(JSON.stringify({ ...fields, v: 2 })))).toThrow(NewerFormat);
});
