/**
 * The shapes of what exports and imports are given, and of names of records, which erasures have too.
 *
 * Always true: the compiler holds each shape against the declaration that it is of. Must not know how payloads are
 * written.
 */
import type { RecordTarget } from "../../format/erasure/erasure-receipt.ts";
import type { ReadInput, WriteInput } from "../../model/commands.ts";
import type { ErasedNames } from "../../model/transfer/erased.ts";
import type { ExportPlace } from "../../model/transfer/transfer.ts";
import { boolean, list, maybe, number, oneOf, record, text, textOrNumber, variants } from "./payload-shapes.ts";

type Named<Kind extends RecordTarget["kind"]> = Extract<RecordTarget, { kind: Kind }>;

export const recordTargets = {
  turn: record<Named<"turn">>({ kind: oneOf("turn"), sessionId: text, seq: number }),
  path: record<Named<"path">>({ kind: oneOf("path"), path: text }),
  key: record<Named<"key">>({ kind: oneOf("key"), ns: text, key: text }),
  document: record<Named<"document">>({ kind: oneOf("document"), collection: text, id: text }),
  vector: record<Named<"vector">>({ kind: oneOf("vector"), collection: text, id: text }),
  subject: record<Named<"subject">>({ kind: oneOf("subject"), subject: text }),
};

export const importInput = record<WriteInput<"transfer.import">>({
  records: list(record({ line: number, text })),
  each: maybe(boolean),
  mode: oneOf("skip", "replace", "fail"),
  erased: record<ErasedNames>({
    memoryIds: list(text),
    targets: list(
      record<ErasedNames["targets"][number]>({
        target: variants<"kind", ErasedNames["targets"][number]["target"]>("kind", {
          ...recordTargets,
          session: record({ kind: oneOf("session"), sessionId: text, turns: boolean }),
        }),
        untilMs: number,
      }),
    ),
  }),
});

export const exportInput = record<ReadInput<"transfer.export">>({
  from: maybe(record<ExportPlace>({ kind: text, after: maybe(list(textOrNumber)) })),
  asOfMs: maybe(number),
  bytesMax: number,
  hash: text,
});
