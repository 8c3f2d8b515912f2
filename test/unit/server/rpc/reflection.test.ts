/** A client that has no proto files gets all that it needs by reflection, in both of its versions. */
import {
  createFileRegistry,
  type DescFile,
  type FileRegistry,
  fromBinary,
  getOption,
  type MessageInitShape,
} from "@bufbuild/protobuf";
import { type FileDescriptorProto, FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { create } from "@bufbuild/protobuf";
import { Code, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { http } from "../../../../gen/google/api/annotations_pb.ts";
import { ErrorInfoSchema } from "../../../../gen/google/rpc/error_details_pb.ts";
import {
  ServerReflection,
  type ServerReflectionRequestSchema,
} from "../../../../gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ServerReflectionAlpha } from "../../../../gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { ServiceError } from "../../../../src/base/faults/errors.ts";
import { endpoints } from "../../../../src/service/call/methods.ts";
import { openEcho } from "../../../support/echo-node.ts";

type Question = NonNullable<MessageInitShape<typeof ServerReflectionRequestSchema>["messageRequest"]>;

async function* each(questions: readonly Question[]): AsyncGenerator<{ host: string; messageRequest: Question }> {
  for (const messageRequest of questions) yield { host: "h", messageRequest };
}

/** The answers to questions that are asked on one stream, in either version. */
async function ask(address: string, version: "v1" | "v1alpha", ...questions: readonly Question[]) {
  const transport = createGrpcTransport({ baseUrl: address });
  // The two versions differ in their package only.
  const client = createClient(
    version === "v1" ? ServerReflection : (ServerReflectionAlpha as unknown as typeof ServerReflection),
    transport,
  );
  const answers = [];
  for await (const answer of client.serverReflectionInfo(each(questions))) answers.push(answer);
  return answers;
}

type Answer = Awaited<ReturnType<typeof ask>>[number];

function filesIn({ messageResponse }: Answer): FileDescriptorProto[] {
  if (messageResponse.case !== "fileDescriptorResponse") throw new Error(`not files but ${messageResponse.case}`);
  return messageResponse.value.fileDescriptorProto.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes));
}

function buildRegistry(answers: readonly Answer[]): FileRegistry {
  // A registry wants every file after those it needs; reflection gives the asked one first.
  return createFileRegistry(create(FileDescriptorSetSchema, { file: inOrder(answers.flatMap(filesIn)) }));
}

function inOrder(files: readonly FileDescriptorProto[]): FileDescriptorProto[] {
  const ordered = new Set<FileDescriptorProto>();
  const add = (file: FileDescriptorProto): void => {
    for (const name of file.dependency) add(files.find((candidate) => candidate.name === name)!);
    ordered.add(file);
  };
  files.forEach(add);
  return [...ordered];
}

describe.each(["v1", "v1alpha"] as const)("reflection %s", (version) => {
  test("lists the services and gives each whole, with what it needs and its options", async () => {
    const { address } = await openEcho();
    const [list] = await ask(address, version, { case: "listServices", value: "*" });
    expect(list!.validHost).toBe("h");
    const listed =
      list!.messageResponse.case === "listServicesResponse"
        ? list!.messageResponse.value.service.map(({ name }) => name)
        : [];
    expect(listed.toSorted()).toEqual([
      "grpc.health.v1.Health",
      "grpc.reflection.v1.ServerReflection",
      "grpc.reflection.v1alpha.ServerReflection",
      "palimpsest.v1.BranchService",
      "palimpsest.v1.ChangeService",
      "palimpsest.v1.ControlService",
      "palimpsest.v1.DataService",
      "palimpsest.v1.FileService",
      "palimpsest.v1.MemoryService",
      "palimpsest.v1.TransferService",
      "palimpsest.v1.WebhookService",
    ]);
    const registry = buildRegistry(
      await ask(address, version, ...listed.map((value) => ({ case: "fileContainingSymbol", value }) as const)),
    );
    for (const { method, segments, httpMethod } of endpoints) {
      const served = registry.getService(method.parent.typeName)!.methods.find(({ name }) => name === method.name)!;
      expect([served.input.typeName, served.output.typeName]).toEqual([method.input.typeName, method.output.typeName]);
      expect(served.input.fields.map(({ name, number }) => [name, number])).toEqual(
        method.input.fields.map(({ name, number }) => [name, number]),
      );
      const { pattern } = getOption(served, http);
      expect([pattern.case, String(pattern.value).split("/").length - 1]).toEqual([
        httpMethod.toLowerCase(),
        segments.length,
      ]);
    }
  });

  test("finds files by every kind of symbol, by name and by extension", async () => {
    const { address } = await openEcho();
    const memory = "palimpsest/v1/memory.proto";
    const [byName] = await ask(address, version, { case: "fileByFilename", value: memory });
    expect(filesIn(byName!)[0]!.name).toBe(memory);
    for (const value of [
      "palimpsest.v1.Memory",
      "palimpsest.v1.Memory.topic_key",
      "palimpsest.v1.MemoryService.Ingest",
    ]) {
      expect(filesIn((await ask(address, version, { case: "fileContainingSymbol", value }))[0]!)[0]!.name).toBe(memory);
    }
    for (const value of [
      "palimpsest.v1.SCOPE_READ",
      "palimpsest.v1.Scope",
      "palimpsest.v1.rule",
      "palimpsest.v1.Rule",
    ]) {
      expect(filesIn((await ask(address, version, { case: "fileContainingSymbol", value }))[0]!)[0]!.name).toBe(
        "palimpsest/v1/options.proto",
      );
    }
    // No service needs it, but every refusal carries it.
    expect(
      filesIn((await ask(address, version, { case: "fileContainingSymbol", value: "google.rpc.ErrorInfo" }))[0]!)[0]!
        .name,
    ).toBe("google/rpc/error_details.proto");
    const [http, numbers, none] = await ask(
      address,
      version,
      {
        case: "fileContainingExtension",
        value: { containingType: "google.protobuf.MethodOptions", extensionNumber: 72_295_728 },
      },
      { case: "allExtensionNumbersOfType", value: "google.protobuf.MethodOptions" },
      { case: "allExtensionNumbersOfType", value: "palimpsest.v1.Memory" },
    );
    expect(filesIn(http!)[0]!.name).toBe("google/api/annotations.proto");
    expect(numbers!.messageResponse).toMatchObject({
      value: {
        baseTypeName: "google.protobuf.MethodOptions",
        extensionNumber: expect.arrayContaining([72_295_728, 50_101]),
      },
    });
    expect(none!.messageResponse).toMatchObject({
      case: "allExtensionNumbersResponse",
      value: { extensionNumber: [] },
    });
  });

  test("one stream gets a needed file once, and what it asks for every time", async () => {
    const { address } = await openEcho();
    const question = { case: "fileContainingSymbol", value: "palimpsest.v1.MemoryService" } as const;
    const [first, second] = await ask(address, version, question, question);
    expect(filesIn(first!).map(({ name }) => name)).toEqual(
      expect.arrayContaining(["google/protobuf/struct.proto", "google/api/http.proto", "palimpsest/v1/data.proto"]),
    );
    expect(filesIn(second!).map(({ name }) => name)).toEqual(["palimpsest/v1/memory.proto"]);
  });

  test("what is not there is an error in the stream, which goes on", async () => {
    const { address } = await openEcho();
    const answers = await ask(
      address,
      version,
      { case: "fileByFilename", value: "nothing.proto" },
      { case: "fileContainingSymbol", value: "nothing" },
      { case: "fileContainingExtension", value: { containingType: "palimpsest.v1.Memory", extensionNumber: 1 } },
      { case: "allExtensionNumbersOfType", value: "nothing" },
      { case: undefined },
    );
    expect(
      answers.map(({ messageResponse }) => messageResponse.case === "errorResponse" && messageResponse.value.errorCode),
    ).toEqual([5, 5, 5, 5, 3]);
  });

  test("a stream asks for a credential, and ends with a drain", async () => {
    const admitOperator = (credential: string | undefined): void => {
      if (credential === undefined) throw new ServiceError("unauthorized", "the platform key is wanted");
    };
    const guarded = await openEcho({ doors: { admitOperator } });
    await expect(ask(guarded.address, version, { case: "listServices", value: "" })).rejects.toSatisfy(
      (error: unknown) => {
        const { code, findDetails } = error as {
          code: Code;
          findDetails(desc: typeof ErrorInfoSchema): { reason: string }[];
        };
        return code === Code.Unauthenticated && findDetails.call(error, ErrorInfoSchema)[0]?.reason === "unauthorized";
      },
    );
    const node = await openEcho();
    const client = createClient(ServerReflection, createGrpcTransport({ baseUrl: node.address }));
    const { promise: never, resolve: end } = Promise.withResolvers<void>();
    const questions = (async function* () {
      yield { messageRequest: { case: "listServices", value: "" } as const };
      await never;
    })();
    let answers = 0;
    for await (const answer of client.serverReflectionInfo(questions)) {
      answers += answer.messageResponse.case === "listServicesResponse" ? 1 : 0;
      node.doors.drain();
    }
    expect(answers).toBe(1);
    end();
  });
});

test("every file of a service can be found under its own name", async () => {
  const { address } = await openEcho();
  const names = new Set<string>();
  const collect = (file: DescFile): void => {
    names.add(file.proto.name);
    file.dependencies.forEach(collect);
  };
  for (const { method } of endpoints) collect(method.parent.file);
  const answers = await ask(address, "v1", ...[...names].map((value) => ({ case: "fileByFilename", value }) as const));
  expect(answers.map((answer) => filesIn(answer)[0]!.name)).toEqual([...names]);
});
