/**
 * The service's own headers, of requests and of answers, for the OpenAPI document.
 *
 * Must not know: which calls take them.
 */
import { idempotencyKeyCharsMax } from "../../service/call/idempotency.ts";
import type { DescField } from "@bufbuild/protobuf";
import { CreateBranchRequestSchema, RewindBranchRequestSchema } from "../../../gen/palimpsest/v1/branch_pb.ts";
import { constrain, type Schema } from "./openapi-constraints.ts";
import { atParameter } from "./rest-router.ts";

type Json = { readonly [member: string]: unknown };

/** Parameters by the names of their headers. */
export const headerParameters = {
  "Service-Branch": headerParameter(
    "Service-Branch",
    "The branch, instead of in the path or query. Given twice with different values it is refused (400).",
    asField(CreateBranchRequestSchema.field.name),
  ),
  "Service-Min-Txid": headerParameter(
    "Service-Min-Txid",
    "A transaction id that was answered before: the answer comes from that state or a later one.",
    { type: "integer", format: "int64", minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
  ),
  "Service-Consistency": headerParameter(
    "Service-Consistency",
    "`primary`: from the writer. `cached`: a copy may answer.",
    { type: "string", enum: ["primary", "cached"] },
  ),
  "Service-At": headerParameter(
    "Service-At",
    "The earlier state to read: a transaction id, the name of a checkpoint, or a time; as a header or in the query.",
    asField(RewindBranchRequestSchema.field.to),
  ),
  "Service-Durability": headerParameter(
    "Service-Durability",
    "`durable`: answer only when object storage holds the write. It can only escalate what the node is set to.",
    { type: "string", enum: ["standard", "durable"] },
  ),
  "If-Match": headerParameter(
    "If-Match",
    "The tag that the answer of a read or of a write gave, in its quotes, or `*`: the write happens only if that is " +
      "what is there, and is refused (412) otherwise.",
    { type: "string", pattern: '^([*]|"[0-9a-f]{64}")$' },
  ),
  "If-None-Match": headerParameter("If-None-Match", "A tag: the answer is 304 while that is what is there.", {
    type: "string",
  }),
  "If-None-Match.write": headerParameter(
    "If-None-Match",
    "The write happens only if there is nothing yet, and is refused (412) otherwise.",
    { type: "string", enum: ["*"] },
  ),
  "Idempotency-Key": headerParameter(
    "Idempotency-Key",
    "Any text of the client's own, such as a UUID, that makes the call one that may be repeated: within a day the " +
      "same key gives the same answer, and nothing is done twice. With another request it is refused (409).",
    { type: "string", minLength: 1, maxLength: idempotencyKeyCharsMax, pattern: "^[!#-~][ -~]*$" },
  ),
} as const;

/** The header `Service-At` as a parameter of the query. */
export const atQuery: Json = { ...headerParameters["Service-At"], name: atParameter, in: "query" };

function headerParameter(name: string, description: string, schema: Schema): Json {
  return { name, in: "header", required: false, description, schema };
}

/** What a header may be that holds what a field of requests holds. */
function asField(field: DescField): Schema {
  return constrain(field, { type: "string" });
}

/** Headers of answers by their names. */
export const responseHeaders: Json = {
  "Service-Txid": {
    description: "The database's transaction id after the call.",
    schema: { type: "integer", format: "int64" },
  },
  "Service-Durable-Txid": {
    description: "The transaction id up to which object storage holds the branch.",
    schema: { type: "integer", format: "int64" },
  },
  "Service-Erasure-Id": {
    description:
      "The coupon of the erasure that the call has begun: one that was asked for, or one that the policy made " +
      "of a forget.",
    schema: { type: "string" },
  },
  "Service-Expires-At": {
    description: "When the value expires, in Unix milliseconds; absent where it stays.",
    schema: { type: "integer", format: "int64" },
  },
  "Service-Subject": {
    description: "Whom the value is about, percent-encoded; absent where that was not said.",
    schema: { type: "string" },
  },
  ETag: {
    description: "The hash of the content, SHA-256 in hexadecimal, in quotes.",
    schema: { type: "string" },
  },
  "Idempotency-Replayed": {
    description: "`true`: an earlier call with this `Idempotency-Key` was carried out, and this is its answer.",
    schema: { type: "string", enum: ["true"] },
  },
  "Retry-After": {
    description: "Whole seconds until a retry is expected to succeed.",
    schema: { type: "integer", minimum: 1 },
  },
  "WWW-Authenticate": { description: "`Bearer`.", schema: { type: "string" } },
};
