/** The records of the interface specification as data, in its order and words, as its endpoint tables name them. */
import { may, must, type SpecField } from "./spec-tables.ts";

/** The fields of a record that is sent: required or not. */
export const inputRecords: { readonly [record: string]: { readonly [field: string]: SpecField } } = {
  MemoryInput: {
    type: must("string"),
    summary: must("string"),
    content: must("any JSON"),
    topic_key: may("string"),
    keywords: may("string"),
    embedding: may("array of number"),
    session_id: may("string"),
    source: may("string"),
    ttl: may("integer", 86400),
  },
  SqlStatement: { q: must("string"), params: may("array") },
};

/** The fields of a record that is answered; one that is not always there says when it is. */
export const answerRecords: {
  readonly [record: string]: { readonly [field: string]: string | { readonly type: string; readonly only: string } };
} = {
  DatabaseInfo: { name: "string", uuid: "string", created_at: "integer" },
  TokenResponse: { token: "string" },
  IngestItem: { id: "string", status: "string", superseded: "array of string" },
  Memory: {
    id: "string",
    type: "string",
    topic_key: "string or null",
    summary: "string",
    content: "any JSON",
    keywords: "string or null",
    session_id: "string or null",
    source: "string or null",
    created_at: "integer",
    superseded_by: "string or null",
    score: { type: "number", only: "recall" },
    channels: { type: "array of string", only: "recall" },
    supersedes: { type: "array of string", only: "single-memory get" },
  },
  Turn: {
    session_id: "string",
    seq: "integer",
    role: "string",
    content: "any JSON",
    distance: { type: "number", only: "vector search" },
  },
  ErasureCoupon: {
    id: "string",
    status: "string",
    target: "object",
    requested_at: "integer",
    completed_at: "integer or null",
    receipt: { type: "object", only: "completed coupons" },
  },
};
