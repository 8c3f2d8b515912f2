/**
 * What the proto files allow of requests is all there: every field that can hold too much, too little or nonsense is
 * annotated or named here with the reason why not, and a bound that stands in an annotation is the one that the code
 * beneath holds to.
 *
 * Always true: a new field of a request must find its place here; nothing is looked over because it is new.
 */
import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { limits } from "../../src/base/limits.ts";
import { scopeOrder } from "../../src/control/access/identity.ts";
import { urlBytesMax } from "../../src/egress/guarded-post.ts";
import { webhookDescriptionBytesMax, webhookFailuresMax } from "../../src/format/records/webhook.ts";
import { changeNames } from "../../src/model/core/change-notes.ts";
import { auditOutcomes } from "../../src/format/audit/audit-event.ts";
import {
  contextLinesMax,
  contextShareMax,
  contextTokensMax,
  contextTokensMin,
  sectionNames,
} from "../../src/model/context-block.ts";
import { blockFormats } from "../../src/model/context/block-text.ts";
import { docIdBytesMax } from "../../src/model/docs/docs.ts";
import { docSkipMax, sortKeysMax } from "../../src/model/docs/docs-find.ts";
import { facetKinds } from "../../src/model/facets/facets.ts";
import { fileBytesMax, fileEditsMax } from "../../src/model/files/file-edits.ts";
import { filePathBytesMax } from "../../src/model/files/file-path.ts";
import { filesFoundMax } from "../../src/model/files/files.ts";
import { keywordsBytesMax, summaryBytesMax } from "../../src/model/memory/memory-ingest.ts";
import { memoryTypes } from "../../src/model/memory/memory-record.ts";
import { reviewIdsMax } from "../../src/model/review.ts";
import { memoryStates } from "../../src/model/standing/states.ts";
import { linksMax, memoryIdBytesMax } from "../../src/model/standing/links.ts";
import { validTimeMax } from "../../src/model/standing/validity.ts";
import { subjectBytesMax } from "../../src/model/core/subjects.ts";
import { turnsBatchMax } from "../../src/model/transcript/turn-batches.ts";
import { turnIdBytesMax } from "../../src/model/transcript/turn-details.ts";
import { turnsDeleteMax } from "../../src/model/transcript/turn-removal.ts";
import { importModes } from "../../src/model/transfer/transfer.ts";
import { vectorIdBytesMax } from "../../src/model/vectors/vector-collections.ts";
import { vectorMetrics } from "../../src/model/vectors/vector-metrics.ts";
import { type Constraint, readConstraint } from "../../src/service/call/constraints.ts";
import { allEndpoints } from "../../src/service/call/methods.ts";

/** Why a field needs no annotation: by its full name, or by its own name where the reason is the same everywhere. */
const exceptions: Readonly<Record<string, string>> = {
  cursor: "text of the node's own making, which is read with care; any other is refused by name",
  filter: "a language of its own: what is wrong is told by what reads it, with the place within",
  "GetNamespaceUsageRequest.prefix": "compared with names only; one that no name begins with finds none",
  "ListProfilesRequest.prefix": "compared with names only; one that no name begins with finds none",
  "GetMemoryRequest.id": "one that no memory has is not_found, whatever it looks like",
  "GetHistoryRequest.id": "one that no memory has is not_found, whatever it looks like",
  "UpdateMemoryRequest.id": "one that no memory has is not_found, whatever it looks like",
  "ForgetMemoryRequest.id": "one that no memory has is not_found, whatever it looks like",
  "CreateErasureRequest.memory_id": "one that no memory has is not_found, whatever it looks like",
  "GetErasureRequest.id": "one that no erasure has is not_found, whatever it looks like",
  "UpdateWebhookRequest.id": "one that no webhook has is not_found, whatever it looks like",
  "DeleteWebhookRequest.id": "one that no webhook has is not_found, whatever it looks like",
  "TestWebhookRequest.id": "one that no webhook has is not_found, whatever it looks like",
  "ListWebhookFailuresRequest.id": "one that no webhook has is not_found, whatever it looks like",
  "RedeliverWebhookRequest.id": "one that no webhook has is not_found, whatever it looks like",
  "CalibrateRequest.seed": "every number is one",
  "GetFileRequest.version": "every number is one; a version that is not there is not_found",
  "FileEdit.after_line": "every number is one; which lines there are, the file says",
  "ValueInput.text": "as large as a body may be, which is refused as payload_too_large",
  "ValueInput.bytes": "as large as a body may be, which is refused as payload_too_large",
  "SortKey.path": "on REST the name of a member: what is wrong is told of that name",
  "SortKey.direction": "on REST the value of a member: what is wrong is told of its name",
};

/** Bounds, as they are compared. */
type Bounds = Readonly<Record<string, unknown>>;

const bytes = (bytesMax: number): Bounds => ({ bytesMin: 1, bytesMax });
const bytesOrNone = (bytesMax: number): Bounds => ({ bytesMax });
const items = (itemsMax: number): Bounds => ({ itemsMin: 1, itemsMax });
const itemsOrNone = (itemsMax: number): Bounds => ({ itemsMax });
const range = (min: number, max: number): Bounds => ({ min, max });
const oneOf = (values: readonly string[]): Bounds => ({ values: [...values].toSorted() });
const fromOne: Bounds = { min: 1 };
const seq = range(1, Number.MAX_SAFE_INTEGER);
/** A time on the node's clock; also a transaction id. */
const time = range(0, Number.MAX_SAFE_INTEGER);
const validTime = range(-validTimeMax, validTimeMax);
const docPath: Bounds = { charsMin: 1, charsMax: limits.pathCharsMax };
/** The end of the year 9999, the last day whose name is as long as others; it stands in the proto file alone. */
const auditTime = range(0, Date.UTC(10_000, 0) - 1);

/** What the code beneath holds to: by a field's full name, or by its own where it is the same everywhere. */
const bounds: Readonly<Record<string, Bounds>> = {
  limit: fromOne,
  k: fromOne,
  seq,
  from_seq: seq,
  to_seq: seq,
  subject: bytes(subjectBytesMax),
  topic_key: bytes(limits.topicKeyBytesMax),
  session_id: bytes(limits.sessionIdBytesMax),
  session: bytes(limits.sessionIdBytesMax),
  sid: bytes(limits.sessionIdBytesMax),
  prefer_session_id: bytes(limits.sessionIdBytesMax),
  derived_from_session: bytes(limits.sessionIdBytesMax),
  derived_from_memory: bytes(memoryIdBytesMax),
  derived_from_seq: seq,
  source: bytes(limits.sourceBytesMax),
  role: bytes(limits.roleBytesMax),
  turn_id: bytes(turnIdBytesMax),
  operation_id: bytes(turnIdBytesMax),
  keywords: bytesOrNone(keywordsBytesMax),
  query: bytesOrNone(limits.recallQueryBytesMax),
  ttl: { max: limits.ttlSecsMax },
  expires_in: range(1, limits.tokenSecsMax),
  since: time,
  until: time,
  valid_at: validTime,
  valid_from: validTime,
  valid_until: validTime,
  key: bytes(limits.kvKeyBytesMax),
  vector_id: bytes(vectorIdBytesMax),
  doc_id: bytes(docIdBytesMax),
  status: oneOf(["active", "proposed"]),
  order: oneOf(["asc", "desc"]),
  scope: oneOf(scopeOrder),
  type: oneOf(memoryTypes),
  metric: oneOf(vectorMetrics),
  consistency: oneOf(["primary", "cached"]),
  "ImportRequest.mode": oneOf(importModes),
  "ListKeysRequest.include": oneOf(["values", "details"]),
  first_line: fromOne,
  last_line: fromOne,
  "ReadAuditRequest.from": auditTime,
  "ReadAuditRequest.to": auditTime,
  "ReadAuditRequest.outcome": oneOf(auditOutcomes),
  "IngestRequest.memories": itemsOrNone(limits.ingestItemsMax),
  "MemoryInput.summary": bytes(summaryBytesMax),
  "MemoryInput.derived_from": itemsOrNone(linksMax),
  "MemoryLinkInput.memory_id": bytes(memoryIdBytesMax),
  "Vector.values": items(limits.vectorDimensionMax),
  "ListProfilesRequest.include": oneOf(["activity"]),
  "ReviewMemoryRequest.ids": items(reviewIdsMax),
  "ReviewMemoryRequest.verdict": oneOf(["approve", "reject"]),
  "MinScore.keyword": range(0, 1),
  "MinScore.vector": range(-1, 1),
  "TypeCounts.fact": fromOne,
  "TypeCounts.event": fromOne,
  "TypeCounts.instruction": fromOne,
  "TypeCounts.task": fromOne,
  "GetContextRequest.max_tokens": range(contextTokensMin, contextTokensMax),
  "GetContextRequest.format": oneOf(blockFormats),
  "GetContextRequest.sections": itemsOrNone(sectionNames.length),
  "GetContextRequest.now": time,
  "ContextSectionInput.name": oneOf(sectionNames),
  "ContextSectionInput.share": range(1, contextShareMax),
  "ContextSectionInput.max_lines": range(1, contextLinesMax),
  "AskRequest.question": bytesOrNone(limits.recallQueryBytesMax),
  "ExtractRequest.turns": itemsOrNone(500),
  "CalibrateRequest.unrelated_share": range(0, 0.5),
  "AppendTurnsRequest.turns": items(turnsBatchMax),
  "ReplaceTurnsRequest.turns": itemsOrNone(turnsBatchMax),
  "ReplaceTurnsRequest.expected": itemsOrNone(turnsBatchMax),
  "ListTurnsRequest.last": fromOne,
  "DeleteTurnsRequest.last": range(1, turnsDeleteMax),
  "ExecuteSqlRequest.stmts": items(limits.sqlStatementsMax),
  "SqlStatement.q": bytesOrNone(limits.sqlTextBytesMax),
  "ListFacetsRequest.kind": oneOf(Object.keys(facetKinds)),
  "ListKeysRequest.prefix": bytesOrNone(limits.kvKeyBytesMax),
  "ListKeysRequest.start": bytesOrNone(limits.kvKeyBytesMax),
  "ListKeysRequest.end": bytesOrNone(limits.kvKeyBytesMax),
  "GetValuesRequest.keys": { ...items(limits.kvBatchMax), each: bytes(limits.kvKeyBytesMax) },
  "PutValuesRequest.items": items(limits.kvBatchMax),
  "DeleteValuesRequest.items": items(limits.kvBatchMax),
  "InsertDocsRequest.docs": items(limits.docsInsertMax),
  "PutDocRequest.id": bytes(docIdBytesMax),
  "GetDocRequest.id": bytes(docIdBytesMax),
  "DeleteDocRequest.id": bytes(docIdBytesMax),
  "FindDocsRequest.sort": itemsOrNone(sortKeysMax),
  "FindDocsRequest.skip": { max: docSkipMax },
  "ListDocCollectionsRequest.limit": range(1, limits.collectionsMax),
  "CreateDocIndexRequest.path": docPath,
  "DropDocIndexRequest.path": docPath,
  "GroupDocsRequest.path": docPath,
  "UpsertVectorRequest.id": bytes(vectorIdBytesMax),
  "UpsertVectorsRequest.vectors": items(limits.vectorBatchMax),
  "VectorInput.id": bytes(vectorIdBytesMax),
  "GetVectorRequest.id": bytes(vectorIdBytesMax),
  "DeleteVectorRequest.id": bytes(vectorIdBytesMax),
  "DeleteVectorsRequest.ids": { ...itemsOrNone(limits.vectorBatchMax), each: bytes(vectorIdBytesMax) },
  "SearchVectorsRequest.id": bytes(vectorIdBytesMax),
  "PutValueRequest.subject": bytesOrNone(subjectBytesMax),
  "ValueInput.subject": bytesOrNone(subjectBytesMax),
  "PutDocRequest.subject": bytesOrNone(subjectBytesMax),
  "UpsertVectorRequest.subject": bytesOrNone(subjectBytesMax),
  "VectorInput.subject": bytesOrNone(subjectBytesMax),
  "PutFileRequest.subject": bytesOrNone(subjectBytesMax),
  "PutFileRequest.text": bytesOrNone(fileBytesMax),
  "FileEdit.old_text": bytes(fileBytesMax),
  "FileEdit.text": bytesOrNone(fileBytesMax),
  "EditFileRequest.edits": items(fileEditsMax),
  "SearchFilesRequest.query": bytes(limits.recallQueryBytesMax),
  "SearchFilesRequest.k": range(1, filesFoundMax),
  "CreateBranchRequest.ttl": range(1, limits.ttlSecsMax),
  "WatchRequest.after": time,
  "UndoRequest.txid": seq,
  "CreateWebhookRequest.url": bytes(urlBytesMax),
  "CreateWebhookRequest.after": time,
  "CreateWebhookRequest.description": bytesOrNone(webhookDescriptionBytesMax),
  "UpdateWebhookRequest.url": bytes(urlBytesMax),
  "UpdateWebhookRequest.description": bytesOrNone(webhookDescriptionBytesMax),
  "RedeliverWebhookRequest.txids": { ...itemsOrNone(webhookFailuresMax), each: seq },
  "WebhookKinds.values": { ...itemsOrNone(Object.keys(changeNames).length), each: oneOf(Object.keys(changeNames)) },
  "MemoryTypeList.values": { each: oneOf(memoryTypes) },
};

const asked = [...new Set(allEndpoints.flatMap(({ method }) => listFields(method.input)))];
const bounded = asked.flatMap((field) => {
  const constraint = readConstraint(field);
  return constraint ? [{ field, constraint }] : [];
});

function listFields(type: DescMessage, known = new Set<DescMessage>()): readonly DescField[] {
  if (known.has(type) || !type.typeName.startsWith("palimpsest.")) return [];
  known.add(type);
  return type.fields.flatMap((field) => [field, ...(field.message ? listFields(field.message, known) : [])]);
}

function nameOf(field: DescField): string {
  return `${field.parent.name}.${field.name}`;
}

function find<Found>(table: Readonly<Record<string, Found>>, field: DescField): Found | undefined {
  return table[nameOf(field)] ?? table[field.name];
}

/** Whether values of the field's type can be too large, too small or nonsense. */
function needsBounds(field: DescField): boolean {
  if (field.fieldKind === "list") return true;
  return field.fieldKind === "scalar" && field.scalar !== ScalarType.BOOL;
}

/** What is bounded, in the words of the table; undefined where a pattern with a name of its own says it. */
function toBounds(constraint: Omit<Constraint, "orEmpty"> | undefined): Bounds | undefined {
  if (constraint === undefined) return undefined;
  const {
    kind,
    says: _,
    examples: __,
    isAboveMin: ___,
    isFinite: ____,
    isUnique: _____,
    orEmpty: ______,
    ...rest
  } = {
    ...constraint,
  } as Record<string, unknown>;
  if ("pattern" in rest && rest["pattern"] !== undefined) return undefined;
  const { items: each, values, ...bare } = rest;
  const said = Object.entries(bare).filter(([, value]) => value !== undefined);
  const inner = kind === "list" ? toBounds(each as Constraint | undefined) : undefined;
  return {
    ...Object.fromEntries(said),
    ...(values !== undefined && { values: [...(values as string[])].toSorted() }),
    ...(inner && Object.keys(inner).length > 0 && { each: inner }),
  };
}

describe("every field of a request", () => {
  it("is bounded, or named with the reason why not", () => {
    const open = asked.filter((field) => needsBounds(field) && !readConstraint(field) && !find(exceptions, field));
    expect(open.map(nameOf)).toEqual([]);
  });

  it("is no exception that is bounded, or that is not there", () => {
    const open = asked.filter((field) => needsBounds(field) && !readConstraint(field));
    const used = new Set(open.flatMap((field) => [nameOf(field), field.name]));
    expect(Object.keys(exceptions).filter((name) => !used.has(name))).toEqual([]);
  });

  it("has the bounds that the code beneath holds to", () => {
    const stated = bounded.flatMap(({ field, constraint }) => {
      const own = toBounds(constraint);
      return own ? [[nameOf(field), own, find(bounds, field)] as const] : [];
    });
    const toObject = (at: 1 | 2) => Object.fromEntries(stated.map((one) => [one[0], one[at]]));
    expect(toObject(1)).toEqual(toObject(2));
  });

  it("has the length of a name where it is one", () => {
    const { nameCharsMax: one } = limits;
    const lengths = new Set(
      bounded.flatMap(({ constraint }) =>
        constraint.kind === "text" && constraint.pattern !== undefined && constraint.charsMax !== undefined
          ? [constraint.charsMax]
          : [],
      ),
    );
    // A name; a namespace and a profile with `--` between them; that with a branch after `@`.
    expect([...lengths].toSorted((left, right) => left - right)).toEqual([one, 2 * one + 2, 3 * one + 3]);
  });

  it("has the length of a path where it is one", () => {
    const paths = bounded.filter(
      ({ field }) => field.parent.file.name.endsWith("/file") && /path$|^(from|to)$/.test(field.name),
    );
    expect(paths.length).toBeGreaterThan(4);
    for (const { constraint } of paths) expect(constraint).toMatchObject({ bytesMax: filePathBytesMax });
  });

  it("names the states of memories that there are", () => {
    for (const { field, constraint } of bounded)
      if (nameOf(field) === "ListMemoriesRequest.status")
        for (const state of memoryStates)
          expect(constraint.kind === "text" && new RegExp(constraint.pattern!).test(state)).toBe(true);
  });
});
