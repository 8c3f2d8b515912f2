/** Bodies that cost much more than they weigh, on every wire, and how a stranger who sends one is refused. */
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { expect } from "vitest";
import { envelope, type RawAnswer } from "./weighed-node.ts";

const MiB = 1 << 20;
/** What they are sent to. */
export const ingest = "/palimpsest.v1.MemoryService/Ingest";
/** 31 MiB of empty memories, as JSON and as protobuf. */
const json = Buffer.from(`{"ns":"a","profile":"b","memories":[${"{},".repeat((31 * MiB) / 3)}{}]}`);
const proto = Buffer.alloc(31 * MiB, Uint8Array.of((4 << 3) | 2, 0));
/** Nobody has signed it. */
export const badToken = "eyJhbGciOiJFZERTQSIsImtpZCI6IngifQ.eyJucyI6ImEifQ.AAAA";

/** Name, headers and body of each. */
export const bombs: readonly (readonly [string, Record<string, string>, Buffer])[] = [
  [
    "Connect JSON in brotli",
    { "content-type": "application/json", "content-encoding": "br" },
    brotliCompressSync(json, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }),
  ],
  ["Connect JSON in gzip", { "content-type": "application/json", "content-encoding": "gzip" }, gzipSync(json)],
  ["Connect protobuf in gzip", { "content-type": "application/proto", "content-encoding": "gzip" }, gzipSync(proto)],
  ["Connect JSON as it is", { "content-type": "application/json" }, json],
  ["gRPC in gzip", { "content-type": "application/grpc", "grpc-encoding": "gzip" }, envelope(gzipSync(proto), 1)],
  ["gRPC as it is", { "content-type": "application/grpc" }, envelope(proto)],
  [
    "gRPC-Web in gzip",
    { "content-type": "application/grpc-web+proto", "grpc-encoding": "gzip" },
    envelope(gzipSync(proto), 1),
  ],
  ["gRPC-Web JSON as it is", { "content-type": "application/grpc-web+json" }, envelope(json)],
];

/** Expects the refusal of a stranger, in the form of its wire. */
export function expectStranger(answer: RawAnswer, what: string): void {
  const type = String(answer.headers["content-type"]);
  const status = { ...answer.headers, ...answer.trailers }["grpc-status"];
  if (type.startsWith("application/grpc-web"))
    expect([answer.status, status ?? /grpc-status: (\d+)/.exec(answer.body.toString())?.[1]], what).toEqual([
      200,
      "16",
    ]);
  else if (type.startsWith("application/grpc")) expect([answer.status, status], what).toEqual([200, "16"]);
  else
    expect([answer.status, JSON.parse(answer.body.toString()).code], what).toEqual([
      401,
      expect.stringMatching(/^unauth/),
    ]);
}
