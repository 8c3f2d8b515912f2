/** The OpenAPI document is valid, complete, and says what the endpoint table says. */
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { Validator } from "@seriousme/openapi-schema-validator";
import { describe, expect, it } from "vitest";
import { errorCodes, type ErrorCode } from "../../src/base/faults/errors.ts";
import { listErrorCodes, openapiDocument, plainRoutes } from "../../src/server/rest/openapi.ts";
import { endpoints, pathTemplate, scopeNames } from "../../src/service/call/methods.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const run = promisify(execFile);
const root = new URL("../..", import.meta.url).pathname;

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly security: readonly Record<string, readonly string[]>[];
  readonly parameters?: readonly {
    readonly name?: string;
    readonly in?: string;
    readonly required?: boolean;
    readonly example?: unknown;
    readonly $ref?: string;
  }[];
  readonly requestBody?: {
    readonly required: boolean;
    readonly content: Record<string, { readonly schema: { readonly $ref?: string }; readonly example?: unknown }>;
  };
  readonly responses: Record<
    string,
    { readonly headers?: object; readonly content?: Record<string, { readonly schema: { readonly $ref?: string } }> }
  >;
}

interface ObjectSchema {
  readonly properties: Record<string, Record<string, unknown>>;
  readonly required?: readonly string[];
}

interface Document {
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: { readonly schemas: Record<string, ObjectSchema> };
}

// Through JSON, as clients get it.
const text = JSON.stringify(openapiDocument(endpoints));
const document = JSON.parse(text) as Document;
const { schemas } = document.components;
const operations = Object.values(document.paths).flatMap((path) => Object.values(path));

function findOperation(name: string): Operation {
  const endpoint = endpoints.find((candidate) => candidate.name === name);
  const operation = endpoint && document.paths[pathTemplate(endpoint.segments)]?.[endpoint.httpMethod.toLowerCase()];
  if (!operation) throw new Error(`no operation ${name}`);
  return operation;
}

describe("the OpenAPI document", () => {
  it("is valid OpenAPI 3.1", async () => {
    const validator = new Validator();
    const result = await validator.validate(JSON.parse(text) as Record<string, unknown>);
    expect(result).toMatchObject({ valid: true });
    expect(validator.version).toBe("3.1");
  });

  it("passes Redocly's lint, its examples what the schemas say", { timeout: 60_000 }, async () => {
    const file = join(temporaryDirectory(), "openapi.json");
    await writeFile(file, text);
    const lint = [join(root, "node_modules/@redocly/cli/bin/cli.js"), "lint", file, "--format=stylish"];
    const given = ["--config", join(root, "test/support/redocly.yaml")];
    // It would tell its makers of every run, and ask them for a newer version.
    const env = { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" };
    const said = await run(process.execPath, [...lint, ...given], { env }).catch((error: Error) => error);
    expect(said).not.toBeInstanceOf(Error);
  });

  it("gives every operation a title, and an example of its body and of its path", () => {
    const titles = operations.map(({ summary }) => summary);
    expect(titles.filter((title) => !/^[A-Z].{5,140}$/.test(title))).toEqual([]);
    expect(new Set(titles).size).toBe(titles.length);
    const bare = operations.filter(({ requestBody, parameters = [] }) => {
      const body = requestBody?.content["application/json"];
      const isBare = (place: (typeof parameters)[number]) => place.in === "path" && place.example === undefined;
      return (body !== undefined && body.example === undefined) || parameters.some(isBare);
    });
    expect(bare.map(({ operationId }) => operationId)).toEqual([]);
  });

  it("surface lockstep: has the paths and methods of the endpoint table and the plain routes, and no others", () => {
    const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const served = endpoints.map((endpoint) => `${endpoint.httpMethod} ${pathTemplate(endpoint.segments)}`);
    expect(documented.toSorted()).toEqual(
      [...served, ...Object.keys(plainRoutes).map((path) => `GET ${path}`)].toSorted(),
    );
  });

  it("names every operation once", () => {
    const ids = operations.map((operation) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it("refers to nothing that it does not hold", () => {
    const references = [...text.matchAll(/"\$ref":"#\/([^"]+)"/g)].map((match) => match[1] as string);
    expect(references.length).toBeGreaterThan(0);
    const missing = references.filter(
      (reference) =>
        reference.split("/").reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], document) === undefined,
    );
    expect(missing).toEqual([]);
  });

  it("describes every operation and every property", () => {
    expect(operations.filter((operation) => !operation.description)).toEqual([]);
    const bare = Object.entries(schemas).flatMap(([name, schema]) =>
      Object.entries(schema.properties)
        .filter(([, property]) => !property.description)
        .map(([property]) => `${name}.${property}`),
    );
    expect(bare).toEqual([]);
  });

  it("shows 64-bit integers as numbers, nulls where there can be nulls, and leaves out what may be absent", () => {
    const memory = schemas.Memory as ObjectSchema;
    expect(memory.properties.created_at).toMatchObject({ type: "integer", format: "int64" });
    expect(memory.properties.topic_key).toMatchObject({ type: ["string", "null"] });
    expect(memory.properties.supersedes).toMatchObject({ type: "array", items: { type: "string" } });
    expect(memory.required).toEqual(expect.arrayContaining(["id", "created_at", "topic_key", "superseded_by"]));
    for (const only of ["score", "channels", "supersedes", "expires_at"]) expect(memory.required).not.toContain(only);
    expect(schemas.ErasureCoupon?.properties.erased_txid).toMatchObject({
      type: "object",
      additionalProperties: { type: "integer" },
    });
    expect(schemas.ProfilePolicy?.properties.override).toMatchObject({ type: ["object", "null"] });
  });

  it("shows requests with what they need, and keeps path and query out of bodies", () => {
    const ingest = findOperation("MemoryService.Ingest");
    expect(ingest.requestBody?.content["application/json"]?.schema.$ref).toBe("#/components/schemas/IngestRequest");
    expect(Object.keys(schemas.IngestRequest?.properties ?? {})).toEqual(["memories"]);
    expect(schemas.MemoryInput?.required).toEqual(["type", "summary", "content"]);
    expect(schemas.MemoryInput?.properties.ttl).toMatchObject({ type: ["integer", "null"], default: 86400 });
    expect(schemas.RecallRequest?.properties.embedding).toMatchObject({
      type: ["array", "null"],
      items: { type: "number" },
    });
    expect(schemas.FindDocsRequest?.properties.sort).toMatchObject({
      type: ["object", "null"],
      additionalProperties: { type: "integer" },
    });
    expect(schemas.RewindBranchRequest?.properties.to).toMatchObject({ type: ["string", "number"] });
    expect(schemas.CreateBranchRequest?.properties.at).toMatchObject({ type: ["string", "number", "null"] });
    expect(ingest.parameters).toEqual(
      expect.arrayContaining([expect.objectContaining({ name: "branch", in: "query", required: false })]),
    );
    expect(Object.keys(findOperation("DataService.PutValue").requestBody?.content ?? {})).toEqual(["*/*"]);
  });

  it("tells the headers of requests and answers", () => {
    const listParameters = (name: string) =>
      findOperation(name).parameters?.flatMap((parameter) => parameter.$ref?.split("/").at(-1) ?? []);
    expect(listParameters("MemoryService.Ingest")).toEqual([
      "Service-Branch",
      "Service-Min-Txid",
      "Service-Consistency",
      "Service-Durability",
      "Idempotency-Key",
    ]);
    expect(listParameters("MemoryService.Recall")).not.toContain("Service-Durability");
    expect(listParameters("DataService.ExecuteSql")).toContain("Service-Durability");
    expect(listParameters("ControlService.ListDatabases")).toEqual([]);
    expect(listParameters("MemoryService.Recall")).toContain("Service-At");
    expect(listParameters("DataService.PutValue")).not.toContain("Service-At");
    expect(findOperation("DataService.GetValue").parameters).toEqual(
      expect.arrayContaining([expect.objectContaining({ name: "at", in: "query", required: false })]),
    );
    expect(findOperation("MemoryService.ForgetMemory").responses["204"]?.headers).toHaveProperty("Service-Erasure-Id");
    expect(findOperation("MemoryService.Recall").responses["429"]?.headers).toHaveProperty("Retry-After");
    expect(findOperation("MemoryService.Recall").responses["401"]?.headers).toHaveProperty("WWW-Authenticate");
  });

  it.each(endpoints.map((endpoint) => [endpoint.name, endpoint] as const))(
    "%s: status, txid header, security and errors",
    (name, endpoint) => {
      const operation = findOperation(name);
      const { rule } = endpoint;
      const success = operation.responses[rule.status];
      expect("Service-Txid" in (success?.headers ?? {})).toBe(rule.txid);
      expect("Service-Durable-Txid" in (success?.headers ?? {})).toBe(rule.txid);
      expect(success?.content === undefined).toBe(rule.status === 204);

      const role = scopeNames.get(rule.scope);
      for (const alternative of operation.security) {
        for (const [scheme, roles] of Object.entries(alternative))
          expect(roles).toEqual(scheme === "platformKey" || role === undefined ? [] : [role]);
      }
      expect(operation.security.length).toBeGreaterThan(0);

      const statuses = listErrorCodes(endpoint).map((code: ErrorCode) => String(errorCodes[code].http));
      expect(Object.keys(operation.responses)).toEqual(expect.arrayContaining(statuses));
    },
  );

  it("hardening-06: lists the specific error codes where the specification has them", () => {
    const byName = (name: string) => endpoints.find((endpoint) => endpoint.name === name);
    const listCodes = (name: string) => {
      const endpoint = byName(name);
      return endpoint ? listErrorCodes(endpoint) : [];
    };
    expect(listCodes("ControlService.CreateDatabase")).toContain("already_exists");
    expect(listCodes("ControlService.DeleteDatabase")).toContain("database_not_found");
    expect(listCodes("ControlService.GetNamespacePolicy")).toContain("not_found");
    expect(listCodes("MemoryService.Ask")).toContain("unconfigured");
    expect(listCodes("MemoryService.PutProfilePolicy")).toContain("conflict");
    expect(listCodes("BranchService.CreateBranch")).toEqual(expect.arrayContaining(["already_exists", "not_found"]));
    expect(listCodes("BranchService.DeleteBranch")).toContain("branch_not_found");
    expect(listCodes("BranchService.RewindBranch")).toContain("not_found");
  });
});
