/**
 * The proto files are sound: linted, generated code up to date, options used as they are meant, everything commented,
 * and bounds that stand in two places agree.
 */
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { type DescField, type DescMessage, getOption, ScalarType } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { comments } from "../../gen/comments.ts";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ServerReflectionAlpha } from "../../gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { json } from "../../gen/palimpsest/v1/options_pb.ts";
import { errorCodes } from "../../src/base/faults/errors.ts";
import { limits } from "../../src/base/limits.ts";
import { isRequired } from "../../src/service/call/constraints.ts";
import { BodyCap, Credential, endpoints, pathTemplate, publicServices, Scope } from "../../src/service/call/methods.ts";
import { contextTokensDefault } from "../../src/model/context-block.ts";
import { recallDefault } from "../../src/model/recall.ts";
import { memoriesListDefault, memoriesListMax } from "../../src/model/memory/memory-list.ts";
import { filesFoundDefault, filesListDefault } from "../../src/model/files/files.ts";
import { turnsListDefault } from "../../src/model/transcript/turn-list.ts";
import { docCollectionsDefault } from "../../src/model/docs/docs-catalog.ts";
import { docCountMax, docGroupsDefault, docsDefault } from "../../src/model/docs/docs-find.ts";
import { facetsDefault } from "../../src/model/facets/facets.ts";

const run = promisify(execFile);
const root = new URL("../..", import.meta.url).pathname;
const buf = join(root, "node_modules/.bin/buf");
const files = [...new Set(publicServices.map((service) => service.file))];
const messages = files.flatMap((file) => file.messages);
const fields = messages.flatMap((message) => message.fields);

describe("the proto files", () => {
  it("pass buf's lint", async () => {
    await expect(run(buf, ["lint", "proto"], { cwd: root })).resolves.toMatchObject({ stdout: "" });
  });

  it("generate exactly what gen/ holds", async () => {
    const fresh = await mkdtemp(join(tmpdir(), "palimpsest-gen-"));
    try {
      await run(buf, ["generate", "--output", fresh], { cwd: root, env: withLocalTools() });
      expect(await contents(join(fresh, "gen"))).toEqual(await contents(join(root, "gen")));
    } finally {
      await rm(fresh, { recursive: true });
    }
  });

  it("comment every service, method, message and field", () => {
    const names = [
      ...publicServices.flatMap((service) => [
        service.typeName,
        ...service.methods.map((method) => `${service.typeName}.${method.name}`),
      ]),
      ...messages.map((message) => message.typeName),
      ...fields.map(formatFieldName),
    ];
    expect(names.filter((name) => (comments[name] ?? "") === "")).toEqual([]);
  });

  it("hold grpc's health and reflection under the names that clients know", () => {
    expect(Health.typeName).toBe("grpc.health.v1.Health");
    expect(Health.methods.map((method) => `${method.name} ${method.methodKind}`)).toEqual(
      expect.arrayContaining(["Check unary", "Watch server_streaming"]),
    );
    for (const [service, version] of [
      [ServerReflection, "v1"],
      [ServerReflectionAlpha, "v1alpha"],
    ] as const) {
      expect(service.typeName).toBe(`grpc.reflection.${version}.ServerReflection`);
      expect(service.methods.map((method) => `${method.name} ${method.methodKind}`)).toEqual([
        "ServerReflectionInfo bidi_streaming",
      ]);
    }
  });
});

describe("the rules of methods", () => {
  it.each(endpoints.map((endpoint) => [endpoint.name, endpoint] as const))(
    "%s",
    (_name, { rule, httpMethod, bodyField, segments }) => {
      expect([200, 201, 204]).toContain(rule.status);
      expect(rule.errors.filter((code) => !(code in errorCodes))).toEqual([]);
      // A platform key has no scope; whatever a token opens has one.
      expect(rule.scope === Scope.UNSPECIFIED).toBe(rule.credential === Credential.PLATFORM);
      if (httpMethod === "GET" || httpMethod === "DELETE") expect(bodyField).toBeUndefined();
      else expect(bodyField).toBeDefined();
      if (bodyField === undefined) expect(rule.body).toBe(BodyCap.UNSPECIFIED);
      // What is under /v1/db touches a database, and the answer says which state; webhooks lie beside it.
      const path = pathTemplate(segments);
      if (path.startsWith("/v1/db/") && !path.startsWith("/v1/db/{db}/webhooks")) expect(rule.txid).toBe(true);
    },
  );

  it("let every write that carries data have the large body", () => {
    const large = endpoints.filter(({ rule }) => rule.body === BodyCap.DATA).map(({ name }) => name);
    expect(large.toSorted()).toEqual([
      "DataService.AppendTurn",
      "DataService.AppendTurns",
      "DataService.ExecuteSql",
      "DataService.InsertDocs",
      "DataService.PutDoc",
      "DataService.PutValue",
      "DataService.PutValues",
      "DataService.ReplaceTurns",
      "DataService.UpdateDocs",
      "DataService.UpsertVector",
      "DataService.UpsertVectors",
      "FileService.EditFile",
      "FileService.PutFile",
      "MemoryService.Extract",
      "MemoryService.Ingest",
      "TransferService.Import",
    ]);
  });

  it("mount exactly the routes below /v1/db on a database's own address", () => {
    for (const { name, segments, hostSegments } of endpoints) {
      const path = pathTemplate(segments);
      const expected = path.startsWith("/v1/db/{db}/") ? path.replace("/db/{db}", "") : undefined;
      expect(hostSegments && pathTemplate(hostSegments), name).toBe(expected);
    }
  });
});

describe("the fields of messages", () => {
  it.each(fields.map((field) => [formatFieldName(field), field] as const))("%s", (_name, field) => {
    const options = getOption(field, json);
    expect(field.fieldKind === "enum").toBe(false);
    if (options.bareList) expect(wrappedList(field)?.fieldKind).toBe("list");
    if (options.orderedObject)
      expect(field.fieldKind === "list" ? (field.message as DescMessage | undefined)?.fields.length : 0).toBe(2);
    if (options.acceptNumber) expect(field.fieldKind === "scalar" && field.scalar === ScalarType.STRING).toBe(true);
    if (options.nullWhenAbsent) expect(field.proto.proto3Optional).toBe(true);
    // A default is what absence means: so absence must show, and nothing required can have one.
    if (options.defaultNumber !== undefined)
      expect([field.proto.proto3Optional, isRequired(field)]).toEqual([true, false]);
    // Whatever is required has no use for telling absence from its zero.
    if (isRequired(field)) expect(field.proto.proto3Optional).toBe(false);
  });

  it("wrap nothing in a list wrapper without saying that REST shows the bare list", () => {
    const wrappers = new Set([
      "palimpsest.v1.Vector",
      "palimpsest.v1.StringList",
      "palimpsest.v1.MemoryTypeList",
      "palimpsest.v1.IngestItemList",
      "palimpsest.v1.MemoryInputList",
      "palimpsest.v1.NearMissList",
      "palimpsest.v1.ValueEntryList",
    ]);
    const shown = fields.filter((field) => field.fieldKind === "message" && wrappers.has(field.message.typeName));
    expect(shown.length).toBeGreaterThan(0);
    expect(shown.filter((field) => !getOption(field, json).bareList).map(formatFieldName)).toEqual([]);
  });

  it("have the defaults that base/limits has", () => {
    const bounds: Readonly<Record<string, number>> = {
      "RecallRequest.k": recallDefault,
      "AskRequest.k": recallDefault,
      "GetContextRequest.max_tokens": contextTokensDefault,
      "ListSessionsRequest.limit": limits.sessionsDefault,
      "ListMemoriesRequest.limit": memoriesListDefault,
      "ForgetMemoriesRequest.limit": memoriesListMax,
      "ListTurnsRequest.last": limits.turnsDefault,
      "ListTurnsRequest.limit": turnsListDefault,
      "SearchTurnsRequest.k": limits.turnSearchDefault,
      "ListKeysRequest.limit": limits.kvListDefault,
      "ListFacetsRequest.limit": facetsDefault,
      "GetNamespaceUsageRequest.limit": 100,
      "FindDocsRequest.limit": docsDefault,
      "CountDocsRequest.limit": docCountMax,
      "GroupDocsRequest.limit": docGroupsDefault,
      "ListDocCollectionsRequest.limit": docCollectionsDefault,
      "ListFilesRequest.limit": filesListDefault,
      "SearchFilesRequest.k": filesFoundDefault,
      "SearchVectorsRequest.k": limits.vectorSearchDefault,
    };
    const stated = fields.map(
      (field) => [`${field.parent.name}.${field.name}`, getOption(field, json).defaultNumber] as const,
    );
    expect(
      Object.fromEntries(stated.filter(([name]) => name in bounds).map(([name, value]) => [name, Number(value)])),
    ).toEqual(bounds);
  });
});

function formatFieldName(field: DescField): string {
  return `${field.parent.typeName}.${field.name}`;
}

function wrappedList(field: DescField): DescField | undefined {
  return field.fieldKind === "message" && field.message.fields.length === 1 ? field.message.fields[0] : undefined;
}

function withLocalTools(): NodeJS.ProcessEnv {
  return { ...process.env, PATH: `${join(root, "node_modules/.bin")}:${process.env.PATH}` };
}

async function contents(directory: string): Promise<Record<string, string>> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const found = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const read = await Promise.all(
    found.map(async (path) => [path.slice(directory.length), await readFile(path, "utf8")] as const),
  );
  return Object.fromEntries(read);
}
