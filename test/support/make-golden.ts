/**
 * Makes test/golden/database-v2.db, a database of every data model, written by the product's own code in a fixed world,
 * and one object of each format of object storage beside it.
 * Run it (`node test/support/make-golden.ts`) only for a format that has never been released; afterwards the file stays
 * as it is, and a change of the tables makes a new format with a golden file of its own.
 */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { limits } from "../../src/base/limits.ts";
import { Receipts } from "../../src/control/access/receipts.ts";
import { buildSigningKey } from "../../src/control/access/signing-key.ts";
import { encodeAuditEvent } from "../../src/format/audit/audit-event.ts";
import { encodeAuditObject } from "../../src/format/audit/audit-object.ts";
import { encodeCopyRecord } from "../../src/format/records/copy-record.ts";
import { encodeCatalog } from "../../src/format/history/catalog.ts";
import { encodeCoupon } from "../../src/format/erasure/erasure-coupon.ts";
import { encodeManifest } from "../../src/format/history/manifest.ts";
import { encodeHistory } from "../../src/format/history/history.ts";
import { inlinePress } from "../../src/format/core/compression.ts";
import { encodeSegment } from "../../src/format/history/segment.ts";
import { formats } from "../../src/format/core/versions.ts";
import { runWrite, type WriteInput, type WriteKind } from "../../src/model/commands.ts";
import { sealTransaction } from "../../src/model/core/change-log.ts";
import { createSchema } from "../../src/model/schema.ts";
import type { Tx } from "../../src/model/core/transaction.ts";
import { VectorCache } from "../../src/model/index/vector-index.ts";
import { Connection } from "../../src/sqlite/connection/connection.ts";
import { runGroup } from "../../src/sqlite/group.ts";
import {
  countingBytes,
  sampleAuditEvents,
  sampleLaterAuditEvents,
  sampleAwaitingCoupon,
  sampleRecordsCoupon,
  sampleCatalog,
  sampleCopy,
  sampleCoupon,
  sampleDelta,
  sampleOrderedDelta,
  sampleManifest,
  sampleHistory,
  sampleImage,
  sampleReceiptPayload,
  sampleSigningKey,
  sampleSubjectPayload,
  sampleUnattestedPayload,
} from "./format-samples.ts";

/** Where the database file of a format lies. */
export function goldenDatabasePath(format: number): string {
  return join(import.meta.dirname, `../golden/database-v${format}.db`);
}

/** That of the first format. */
export const goldenPath = goldenDatabasePath(1);
/** When the first commit was made; each further one is a second later. */
export const goldenStartMs = 1_700_000_000_000;
/** The transaction id of the file. */
export const goldenTxid = 10;

type Command = { readonly [Kind in WriteKind]: { readonly kind: Kind; readonly input: WriteInput<Kind> } }[WriteKind];

const theme = (colour: string, embedding: readonly number[]): WriteInput<"memory.ingest">["memories"][number] => ({
  type: "fact",
  topicKey: "ui.theme",
  summary: `The user prefers the ${colour} theme`,
  content: `{"theme":"${colour}","id":9007199254740993}`,
  keywords: "appearance colours",
  embedding: Float32Array.from(embedding),
  sessionId: "s-1",
  source: "planner",
});

const commands: readonly Command[] = [
  {
    kind: "memory.ingest",
    input: {
      memories: [
        theme("dark", [1, 0, 0]),
        { type: "event", summary: "Moved to Lima", content: "null" },
        { type: "instruction", topicKey: "tone", summary: "Answer briefly", content: '["brief"]' },
        { type: "task", summary: "Water the ferns", content: "{}", sessionId: "s-1", ttlSecs: 3_600 },
      ],
    },
  },
  { kind: "memory.ingest", input: { memories: [theme("light", [0, 1, 0])] } },
  {
    kind: "turn.append",
    input: { sessionId: "s-1", role: "user", content: '{"text":"hello"}', embedding: Float32Array.from([0.6, 0.8]) },
  },
  { kind: "turn.append", input: { sessionId: "s-1", role: "assistant", content: '"good day"' } },
  { kind: "kv.put", input: { ns: "n", key: "bytes", value: Uint8Array.from([0, 1, 254, 255]) } },
  { kind: "kv.put", input: { ns: "n", key: "passing", value: Uint8Array.from([120]), ttlSecs: 3_600 } },
  { kind: "docs.index", input: { collection: "People", path: "address.city" } },
  {
    kind: "docs.insert",
    input: {
      collection: "People",
      docs: ['{"_id":"ann","n":18446744073709551615,"address":{"city":"Rome"}}', '{"_id":"bob","tags":["a",null,1.5]}'],
    },
  },
  { kind: "vector.upsert", input: { collection: "shapes", id: "east", embedding: Float32Array.from([1, 0]) } },
  { kind: "vector.upsert", input: { collection: "shapes", id: "north", embedding: Float32Array.from([0, 1]) } },
];

/** Writes the database of the format to the path, which must not exist. */
export function writeGolden(path: string, format: number): void {
  const connection = new Connection(path, { readonly: false, pageCacheKiB: limits.pageCacheKiB });
  createSchema(connection, format);
  connection.exec(
    "CREATE TABLE measured (at INTEGER PRIMARY KEY, value REAL); INSERT INTO measured VALUES (1, 0.5), (2, NULL)",
  );
  let ids = 0;
  for (const [index, { kind, input }] of commands.entries()) {
    const committedAtMs = goldenStartMs + index * 1_000;
    const group = runGroup(
      connection,
      [
        (deferred) => {
          const tx: Tx = {
            connection,
            notes: deferred.notes,
            nowMs: committedAtMs,
            vectors: new VectorCache(),
            txid: 1,
            newId: () => `01HF7YAT00${String(ids++).padStart(16, "0")}`,
            atGroupEnd: (act) => deferred.atGroupEnd.push(act),
            afterCommit: (act) => deferred.afterCommit.push(act),
          };
          return runWrite(kind, tx, input);
        },
      ],
      (notes) =>
        sealTransaction(
          connection,
          { txid: index + 1, committedAtMs, writerEpochId: undefined, changesKeptMs: 86_400_000 },
          notes,
        ),
    );
    const [outcome] = group.outcomes;
    if (outcome?.kind !== "done" || !group.changed) throw new Error(`${kind} did not write`, { cause: outcome });
  }
  connection.raw.pragma("wal_checkpoint(TRUNCATE)");
  connection.close();
}

/** Where the object of a format lies. */
export function goldenFormatPath(name: string, version = 1): string {
  return join(import.meta.dirname, `../golden/${name}-v${version}.bin`);
}

/** A sample coupon as it is put. */
export function goldenCoupon(coupon = sampleCoupon): Uint8Array {
  return encodeCoupon(coupon, countingBytes(16, 16));
}

/** A sample receipt as text. */
export async function goldenReceipt(payload = sampleReceiptPayload): Promise<string> {
  return JSON.stringify(new Receipts(await buildSigningKey(sampleSigningKey)).sign(payload));
}

/** Writes the samples of test/support/format-samples.ts, each in its format; the segment's object holds two. */
async function writeGoldenFormats(): Promise<void> {
  writeFileSync(
    goldenFormatPath("segment"),
    Buffer.concat([await encodeSegment(sampleDelta, inlinePress), await encodeSegment(sampleImage, inlinePress)]),
  );
  writeFileSync(goldenFormatPath("segment", 2), await encodeSegment(sampleOrderedDelta, inlinePress));
  writeFileSync(goldenFormatPath("head"), encodeManifest(sampleManifest));
  writeFileSync(goldenFormatPath("history"), encodeHistory(sampleHistory));
  writeFileSync(goldenFormatPath("catalog"), encodeCatalog(sampleCatalog));
  writeFileSync(goldenFormatPath("audit"), encodeAuditObject(sampleAuditEvents.map(encodeAuditEvent)));
  writeFileSync(goldenFormatPath("audit", 2), encodeAuditObject(sampleLaterAuditEvents.map(encodeAuditEvent)));
  writeFileSync(goldenFormatPath("coupon"), goldenCoupon());
  writeFileSync(goldenFormatPath("coupon", 2), goldenCoupon(sampleAwaitingCoupon));
  writeFileSync(goldenFormatPath("coupon", 3), goldenCoupon(sampleRecordsCoupon));
  writeFileSync(goldenFormatPath("receipt"), await goldenReceipt());
  writeFileSync(goldenFormatPath("receipt", 2), await goldenReceipt(sampleUnattestedPayload));
  writeFileSync(goldenFormatPath("receipt", 3), await goldenReceipt(sampleSubjectPayload));
  writeFileSync(goldenFormatPath("copy"), encodeCopyRecord(sampleCopy));
}

if (import.meta.main) {
  const newest = Math.max(...formats.database.writes);
  rmSync(goldenDatabasePath(newest), { force: true });
  writeGolden(goldenDatabasePath(newest), newest);
  await writeGoldenFormats();
}
