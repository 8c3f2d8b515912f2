/**
 * docs/reference.md: every public method with its route, its request and its answer, and every message with its fields,
 * in the words of the proto files' comments.
 *
 * Always true: what is said of a field is what the OpenAPI document says (server/rest/openapi-schema), of which this is
 * the form for people.
 */
import { type DescField, type DescMessage, type DescService, getOption } from "@bufbuild/protobuf";
import { json } from "../../gen/palimpsest/v1/options_pb.ts";
import { errorCodes } from "../../src/base/faults/errors.ts";
import { listErrorCodes, plainRoutes } from "../../src/server/rest/openapi.ts";
import { sayConstraint, type Schema } from "../../src/server/rest/openapi-constraints.ts";
import { getComment, SchemaCollection } from "../../src/server/rest/openapi-schema.ts";
import { isRequired } from "../../src/service/call/constraints.ts";
import {
  BodyCap,
  Credential,
  allEndpoints,
  pathTemplate,
  publicServices,
  scopeNames,
  type AnyEndpoint,
} from "../../src/service/call/methods.ts";
import { toAnchor } from "./documents.ts";

const rawBody = "google.api.HttpBody";

const credentialNames: ReadonlyMap<Credential, string> = new Map([
  [Credential.NONE, "none"],
  [Credential.PLATFORM, "platform key"],
  [Credential.NAMESPACE, "namespace token"],
  [Credential.DATABASE, "per-database or namespace token"],
  [Credential.PLATFORM_OR_NAMESPACE_ADMIN, "platform key or namespace token"],
]);

const schemas = new SchemaCollection();

/** The whole document. */
export function referenceMarkdown(note: string): string {
  const used = usedMessages();
  return [
    introduction(note),
    plain(),
    ...publicServices.map(ofService),
    "## Messages\n\nMessages that are part of requests and answers, by name. On REST they are JSON objects.",
    ...[...used].sort((left, right) => (left.name < right.name ? -1 : 1)).map(ofMessage),
    errors(),
    "",
  ].join("\n\n");
}

function introduction(note: string): string {
  return `# Reference

${note}

Every method answers over REST JSON, gRPC, gRPC-Web and Connect on one port. The proto files are
[\`proto/palimpsest/v1\`](../proto/palimpsest/v1); a node serves an OpenAPI 3.1 document at \`/openapi.json\` and
answers gRPC reflection. What the service promises is in [spec.md](spec.md), what the words mean in
[concepts.md](concepts.md).

- **Names.** Fields have the names of the proto files (snake_case) on every wire. REST answers carry 64-bit integers as
  JSON numbers. Times are Unix milliseconds unless a field says otherwise.
- **Databases.** \`{db}\` is \`name\` or \`name@branch\`; a profile's database is \`{ns}--{profile}\`. On a database's
  own host (\`{db}.\` and \`SERVICE_DB_HOST_SUFFIX\`) the routes below \`/v1/db/{db}\` begin with \`/v1\`, as
  \`/v1/sql\`; the branch is then given by \`{db}@{branch}\` in the host or by the header \`Service-Branch\`.
- **gRPC.** A method's full name is \`palimpsest.v1.<Service>/<Method>\`. Headers travel as metadata.
- **Credentials** are sent as \`Authorization: Bearer …\`. Where authentication is off no credential is needed.
- **Refusals** are \`{"error": "<for people>", "code": "<for programs>"}\`: see [errors](#errors).

| Request header | Meaning |
|---|---|
| \`Service-Branch\` | the branch, instead of in the path or query |
| \`Service-Min-Txid\` | a transaction id that was answered before: the answer comes from that state or a later one |
| \`Service-Consistency\` | \`primary\`: from the writer; \`cached\`: a copy may answer that is up to 30 s old |
| \`Service-At\` | the earlier state to read: a transaction id, a checkpoint or a time ([past.md](past.md)) |
| \`Service-Durability\` | \`durable\`: answer when object storage holds the write |

| Response header | Meaning |
|---|---|
| \`Service-Txid\` | the database's transaction id after the call |
| \`Service-Durable-Txid\` | the transaction id up to which object storage holds the branch |
| \`Service-Erasure-Id\` | the coupon of the erasure that the call began |
| \`Retry-After\` | seconds after which a retry is expected to succeed |`;
}

/** The routes that are no methods. */
function plain(): string {
  const rows = Object.entries(plainRoutes).map(
    ([path, route]) => `| \`GET ${path}\` | ${String(route["description"])} |`,
  );
  return [
    "## Routes that are no methods",
    "`GET /metrics`, for the platform key or on `SERVICE_ADMIN_LISTEN`: [operations.md](operations.md#metrics).",
    ["| Route | What it does |", "|---|---|", ...rows].join("\n"),
  ].join("\n\n");
}

function ofService(service: DescService): string {
  const own = allEndpoints.filter(({ method }) => method.parent === service);
  const rows = own.map(
    (endpoint) =>
      `| [${endpoint.method.name}](#${toAnchor(endpoint.name)}) ` +
      `| ${formatRoute(endpoint)} | ${describeAccess(endpoint)} |`,
  );
  return [
    `## ${service.name}`,
    getComment(service.typeName),
    ["| Method | REST | Credential |", "|---|---|---|", ...rows].join("\n"),
    ...own.map(ofEndpoint),
  ].join("\n\n");
}

function ofEndpoint(endpoint: AnyEndpoint): string {
  const { method, rule } = endpoint;
  const details = [
    `- Credential: ${describeAccess(endpoint)}`,
    `- Success: ${rule.status}${rule.txid ? ", with `Service-Txid` and `Service-Durable-Txid`" : ""}`,
    ...(rule.body === BodyCap.DATA ? ["- Body: at most `SERVICE_MAX_BODY_BYTES`"] : []),
    ...(rule.idempotencyKey ? ["- Can be [repeated](writes.md#repeated) with `Idempotency-Key`"] : []),
    ...(rule.at ? ["- Reads an [earlier state](past.md) with `Service-At`, or the query parameter `at`"] : []),
    ...(rule.entityTag ? ["- The answer has a [tag](writes.md#on-a-condition), `ETag`"] : []),
    ...(rule.control ? ["- Counted against `SERVICE_CONTROL_RATE`"] : []),
    `- Errors: ${listErrorCodes(endpoint)
      .map((code) => `\`${code}\``)
      .join(", ")}`,
  ];
  return [
    `### ${endpoint.name}`,
    formatRoute(endpoint),
    getComment(`${method.parent.typeName}.${method.name}`),
    details.join("\n"),
    describeRequest(endpoint),
    describeAnswer(endpoint),
  ].join("\n\n");
}

function describeRequest(endpoint: AnyEndpoint): string {
  const { fields } = endpoint.method.input;
  if (fields.length === 0) return "Request: no fields.";
  const rows = fields.map((field) => {
    const about = [
      `\`${field.name}\``,
      describePlace(endpoint, field),
      describeType(field),
      describeNeed(field),
      describeAllowed(field),
      fieldComment(field),
    ];
    return `| ${about.join(" | ")} |`;
  });
  const head = ["| Field | In | Type | Required | Allowed | Meaning |", "|---|---|---|---|---|---|"];
  return ["Request:", "", ...head, ...rows].join("\n");
}

function describeAnswer({ method: { output }, rule }: AnyEndpoint): string {
  if (output.typeName === rawBody) return "Answer: the raw value (`google.api.HttpBody`).";
  const isEmpty = output.fields.length === 0;
  if (rule.status === 204) {
    if (isEmpty) return "Answer: nothing; REST sends no body.";
    return ["Answer (REST sends no body):", "", fieldsTable(output)].join("\n");
  }
  if (isEmpty) return "Answer: nothing.";
  return isShared(output) ? `Answer: ${linkTo(output)}.` : ["Answer:", "", fieldsTable(output)].join("\n");
}

function ofMessage(message: DescMessage): string {
  return [`### ${message.name}`, getComment(message.typeName), fieldsTable(message)].join("\n\n");
}

function fieldsTable(message: DescMessage): string {
  if (message.fields.length === 0) return "No fields.";
  const takesInput = message.fields.some(isRequired);
  const isBounded = message.fields.some((field) => sayConstraint(shownField(field)) !== undefined);
  const rows = message.fields.map((field) => {
    const need = takesInput && isRequired(field) ? ", required" : "";
    const allowed = isBounded ? ` ${describeAllowed(field)} |` : "";
    return `| \`${field.name}\` | ${describeType(field)}${need} |${allowed} ${fieldComment(field)} |`;
  });
  const head = isBounded
    ? ["| Field | Type | Allowed | Meaning |", "|---|---|---|---|"]
    : ["| Field | Type | Meaning |", "|---|---|---|"];
  return [...head, ...rows].join("\n");
}

function formatRoute({ httpMethod, segments }: AnyEndpoint): string {
  return `\`${httpMethod} ${pathTemplate(segments)}\``;
}

function describeAccess({ rule: { credential, scope } }: AnyEndpoint): string {
  const scopeName = scopeNames.get(scope);
  return `${credentialNames.get(credential) ?? "none"}${scopeName === undefined ? "" : ` [${scopeName}]`}`;
}

function describePlace({ segments, queryFields }: AnyEndpoint, field: DescField): string {
  if (segments.some((segment) => segment.kind === "field" && segment.field === field)) return "path";
  return queryFields.includes(field) ? "query" : "body";
}

function describeNeed(field: DescField): string {
  return isRequired(field) ? "yes" : "";
}

/** The field's JSON Schema; nothing of a raw body. */
function buildSchema(field: DescField): Schema {
  return field.message?.typeName === rawBody ? {} : schemas.field(field);
}

function fieldComment(field: DescField): string {
  const { default: byDefault } = buildSchema(field);
  const comment = cell(getComment(`${field.parent.typeName}.${field.name}`));
  return byDefault === undefined ? comment : `${comment} Default: ${String(byDefault)}.`;
}

/** What the annotations allow of the field, without the words that the column's head says. */
function describeAllowed(field: DescField): string {
  const says = sayConstraint(shownField(field)) ?? "";
  return cell(
    says
      .replace(/^Must (?:be )?/, "")
      .replace(/\.$/, "")
      .replaceAll("*", "\\*"),
  );
}

/** Of a wrapper that is written as a bare list, that list. */
function shownField(field: DescField): DescField {
  return getOption(field, json).bareList ? field.message!.fields[0]! : field;
}

function describeType(field: DescField): string {
  return field.message?.typeName === rawBody ? "raw bytes" : typeName(buildSchema(field));
}

/** The JSON type in words, with a link where it is a message. */
function typeName(schema: Schema): string {
  if (typeof schema["$ref"] === "string") {
    const name = schema["$ref"].split("/").at(-1)!;
    return `[${name}](#${toAnchor(name)})`;
  }
  if (Array.isArray(schema["oneOf"])) return (schema["oneOf"] as Schema[]).map(typeName).join(" or ");
  const { type } = schema;
  if (Array.isArray(type)) return type.join(" or ");
  if (type === "array") return `array of ${typeName(schema["items"] as Schema)}`;
  if (type === "object" && schema["additionalProperties"] !== undefined) {
    return `object of ${typeName(schema["additionalProperties"] as Schema)}`;
  }
  return typeof type === "string" ? type : "any JSON";
}

function linkTo(message: DescMessage): string {
  return `[${message.name}](#${toAnchor(message.name)})`;
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll(/\s*\n\s*/g, " ");
}

/** Requests and answers that belong to one method are shown with it, the others under Messages. */
function isShared({ name }: DescMessage): boolean {
  return !/(?:Request|Response)$/.test(name) || name === "TokenResponse";
}

/** Every message that is shown by itself: what answers are, and what fields of anything shown refer to. */
function usedMessages(): ReadonlySet<DescMessage> {
  const all = new Map<string, DescMessage>();
  const visit = (message: DescMessage): void => {
    if (all.has(message.name) || !message.typeName.startsWith("palimpsest.v1.")) return;
    all.set(message.name, message);
    for (const field of message.fields) if (field.message) visit(field.message);
  };
  for (const { method } of allEndpoints) for (const message of [method.input, method.output]) visit(message);
  const text = [...all.values()].flatMap(({ fields }) => fields.map(describeType)).join(" ");
  const answers = new Set(allEndpoints.map(({ method }) => method.output));
  return new Set(
    [...all.values()].filter(
      (message) => isShared(message) && (answers.has(message) || text.includes(`(#${toAnchor(message.name)})`)),
    ),
  );
}

function errors(): string {
  const rows = Object.entries(errorCodes).map(
    ([code, { http, retryable }]) => `| \`${code}\` | ${http} | ${retryable ? "yes" : "no"} |`,
  );
  return [
    "## Errors",
    "The code is the same on every wire; on gRPC, gRPC-Web and Connect it stands in `google.rpc.ErrorInfo`.",
    ["| Code | HTTP status | A retry can help |", "|---|---|---|", ...rows].join("\n"),
  ].join("\n\n");
}
