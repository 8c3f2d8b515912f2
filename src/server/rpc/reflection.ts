/**
 * gRPC server reflection, v1 and v1alpha: a client without our proto files asks for them.
 *
 * Always true: every file is served as the compiler wrote it, options included, together with the files it needs that
 * this stream has not been sent yet.
 */
import { type DescFile, type DescService, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { nestedTypes } from "@bufbuild/protobuf/reflect";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code, type ConnectRouter, type HandlerContext } from "@connectrpc/connect";
import {
  ServerReflection,
  type ServerReflectionRequest,
  type ServerReflectionResponseSchema,
} from "../../../gen/grpc/reflection/v1/reflection_pb.ts";
import {
  ServerReflection as ServerReflectionAlpha,
  type ServerReflectionRequest as ServerReflectionRequestAlpha,
} from "../../../gen/grpc/reflection/v1alpha/reflection_pb.ts";

/** The two versions differ in their package name only, so one answer serves both. */
type Request = ServerReflectionRequest | ServerReflectionRequestAlpha;
type Response = MessageInitShape<typeof ServerReflectionResponseSchema>;
type Answer = NonNullable<Response["messageResponse"]>;

export interface ReflectionOptions {
  /** What is listed; reflection adds itself. */
  readonly services: readonly DescService[];
  /** Files that no service needs and a client still meets, such as the details of errors. */
  readonly files: readonly DescFile[];
  /** Lets the bearer of a token in, or throws what the wire understands. */
  readonly admit: (context: HandlerContext) => void | Promise<void>;
  /** Ends every stream when aborted, so that none outlives a drain. */
  readonly draining: AbortSignal;
}

/** Adds both versions of grpc.reflection. */
export function addReflection(router: ConnectRouter, options: ReflectionOptions): void {
  const services = [...options.services, ServerReflection, ServerReflectionAlpha];
  // Most nodes are never asked, and all should start soon.
  let catalog: Catalog | undefined;
  const answer = (requests: AsyncIterable<Request>): AsyncIterable<Response> =>
    answerAll(requests, (catalog ??= new Catalog(services, options.files)), options);
  // Asked before anything of the stream is read.
  const gated = { requestGate: options.admit };
  router.service(ServerReflection, { serverReflectionInfo: answer }, gated);
  router.service(ServerReflectionAlpha, { serverReflectionInfo: answer as never }, gated);
}

async function* answerAll(
  requests: AsyncIterable<Request>,
  catalog: Catalog,
  { draining }: ReflectionOptions,
): AsyncGenerator<Response> {
  const sent = new Set<DescFile>();
  for await (const request of untilAborted(requests, draining)) {
    yield {
      validHost: request.host,
      originalRequest: request as ServerReflectionRequest,
      messageResponse: catalog.answer(request.messageRequest as ServerReflectionRequest["messageRequest"], sent),
    };
  }
}

/** The items until the signal is aborted; then it ends without waiting for the next. */
async function* untilAborted<Item>(items: AsyncIterable<Item>, signal: AbortSignal): AsyncGenerator<Item> {
  const { promise: aborted, resolve } = Promise.withResolvers<undefined>();
  const end = (): void => resolve(undefined);
  signal.addEventListener("abort", end);
  if (signal.aborted) end();
  const iterator = items[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await Promise.race([iterator.next(), aborted]);
      if (next === undefined || next.done === true) return;
      yield next.value;
    }
  } finally {
    signal.removeEventListener("abort", end);
  }
}

/** Every file behind the services, by name, by symbol and by extension. */
class Catalog {
  readonly #services: readonly string[];
  readonly #files = new Map<string, DescFile>();
  readonly #symbols = new Map<string, DescFile>();
  /** By the extended message's name, then by field number. */
  readonly #extensions = new Map<string, Map<number, DescFile>>();

  constructor(services: readonly DescService[], further: readonly DescFile[]) {
    this.#services = services.map((service) => service.typeName);
    for (const file of [...services.map((service) => service.file), ...further]) this.#addFile(file);
  }

  answer(request: ServerReflectionRequest["messageRequest"], sent: Set<DescFile>): Answer {
    switch (request.case) {
      case "listServices":
        return { case: "listServicesResponse", value: { service: this.#services.map((name) => ({ name })) } };
      case "fileByFilename":
        return files(this.#files.get(request.value), sent);
      case "fileContainingSymbol":
        return files(this.#symbols.get(request.value), sent);
      case "fileContainingExtension": {
        const { containingType, extensionNumber } = request.value;
        return files(this.#extensions.get(containingType)?.get(extensionNumber), sent);
      }
      case "allExtensionNumbersOfType": {
        const numbers = this.#extensions.get(request.value);
        if (numbers === undefined && !this.#symbols.has(request.value)) return notFound;
        const extensionNumber = [...(numbers?.keys() ?? [])];
        return { case: "allExtensionNumbersResponse", value: { baseTypeName: request.value, extensionNumber } };
      }
      case undefined:
        return failure(Code.InvalidArgument, "the request asks for nothing");
    }
  }

  #addFile(file: DescFile): void {
    if (this.#files.has(file.proto.name)) return;
    this.#files.set(file.proto.name, file);
    for (const type of nestedTypes(file)) {
      this.#symbols.set(type.typeName, file);
      if (type.kind === "service")
        for (const method of type.methods) this.#symbols.set(`${type.typeName}.${method.name}`, file);
      if (type.kind === "message")
        for (const member of type.members) this.#symbols.set(`${type.typeName}.${member.name}`, file);
      if (type.kind === "extension") this.#addExtension(type.extendee.typeName, type.number, file);
      // The values of an enum live in the scope that holds it.
      const scope = type.typeName.slice(0, type.typeName.lastIndexOf(".") + 1);
      if (type.kind === "enum") for (const value of type.values) this.#symbols.set(scope + value.name, file);
    }
    for (const dependency of file.dependencies) this.#addFile(dependency);
  }

  #addExtension(extendee: string, number: number, file: DescFile): void {
    const numbers = this.#extensions.get(extendee) ?? new Map<number, DescFile>();
    this.#extensions.set(extendee, numbers.set(number, file));
  }
}

function files(file: DescFile | undefined, sent: Set<DescFile>): Answer {
  if (file === undefined) return notFound;
  const wanted = new Set<DescFile>();
  const want = (needed: DescFile): void => {
    if (wanted.has(needed)) return;
    wanted.add(needed);
    for (const dependency of needed.dependencies) want(dependency);
  };
  want(file);
  // What was asked for is always answered, also for the second time.
  const fresh = [...wanted].filter((needed) => needed === file || !sent.has(needed));
  for (const needed of fresh) sent.add(needed);
  return { case: "fileDescriptorResponse", value: { fileDescriptorProto: fresh.map(encodeFile) } };
}

function encodeFile(file: DescFile): Uint8Array {
  return toBinary(FileDescriptorProtoSchema, file.proto);
}

function failure(errorCode: Code, errorMessage: string): Answer {
  return { case: "errorResponse", value: { errorCode, errorMessage } };
}

const notFound = failure(Code.NotFound, "no such file, symbol or extension");
