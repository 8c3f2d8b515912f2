/**
 * The request message of a unary call, read off its body in whatever form it comes.
 *
 * Always true: nothing is inflated beyond the method's cap, nor decoded beyond what json-cut and proto-cut let through;
 * what cannot be read is an Unread, which says what the call is about where that is known. Must not know who calls: it
 * is read once that is known.
 */
import { create, type DescField, type Message } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { World } from "../../base/world.ts";
import { Unread } from "../../service/call/call.ts";
import { isRequired } from "../../service/call/constraints.ts";
import { BodyCap, type AnyEndpoint } from "../../service/call/methods.ts";
import { type BodyRoom, type HeldBody, inflate, readBody } from "../wire/body.ts";
import { decodeBinary, decodeJson, type JsonForm } from "../wire/message-decoder.ts";
import { compileBody } from "../wire/json-decoder.ts";
import type { WireRequest } from "../wire/listener.ts";
import { connectForms, isEnveloped, type RpcForm } from "./rpc-protocols.ts";

type Properties = Message & Record<string, unknown>;

export interface RpcReaderOptions {
  readonly room: BodyRoom;
  readonly world: Pick<World, "soon">;
  /** The cap of messages that carry data; the others have limits.controlBodyBytesMax. */
  readonly dataBodyBytesMax: number;
}

/** A request whose form is known. */
export interface RpcRequest {
  readonly form: RpcForm;
  readonly request: WireRequest;
  /** The query of a call by GET, which holds its message. */
  readonly query: string | undefined;
  /** The database that the Host names. */
  readonly hostDatabase: string | undefined;
}

/** The bytes of a message, and whether they are compressed. */
interface Payload {
  readonly bytes: Buffer;
  readonly isCompressed: boolean;
}

/** Flags of an envelope: bit 0 says that it is compressed; no other is for requests. */
const compressedFlag = 1;
/** Of the flags and the length before a message. */
export const envelopeBytes = 5;

/** Reads the requests of one endpoint. */
export class RpcReader {
  readonly #options: RpcReaderOptions;
  readonly #endpoint: AnyEndpoint;
  readonly #bytesMax: number;
  readonly #json: JsonForm;
  /** Messages that must be there, on both codecs: in protobuf a scalar always is. */
  readonly #required: readonly DescField[];
  /** The fields that say what the call is about. */
  readonly #address: readonly DescField[];

  constructor(endpoint: AnyEndpoint, options: RpcReaderOptions) {
    const { method, rule, segments } = endpoint;
    this.#options = options;
    this.#endpoint = endpoint;
    this.#bytesMax = rule.body === BodyCap.DATA ? options.dataBodyBytesMax : limits.controlBodyBytesMax;
    const { fields } = method.input;
    const isRaw = fields.some((field) => field.message?.typeName === "google.api.HttpBody");
    this.#json = {
      decoder: compileBody(fields, "proto"),
      frameBytesMax: isRaw ? this.#bytesMax : limits.elementBytesMax,
    };
    this.#required = fields.filter((field) => field.fieldKind === "message" && isRequired(field));
    this.#address = segments.flatMap((segment) => (segment.kind === "field" ? [segment.field] : []));
  }

  /** @throws Unread, ClientGone. */
  async read(rpc: RpcRequest): Promise<Message> {
    let message: Message | undefined;
    let bytes: Buffer | undefined;
    try {
      using held = await this.#payload(rpc);
      bytes = held.bytes;
      message = await this.#decode(held.bytes, rpc.form);
      this.#fill(message, rpc);
      for (const { localName, name } of this.#required)
        if ((message as Properties)[localName] === undefined) throw invalid(`${name} is required`);
      return message;
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      const address = message ?? (bytes && this.#decodeAddress(bytes, rpc.form));
      if (address) this.#fill(address, rpc);
      throw new Unread(error, address);
    }
  }

  #decode(bytes: Buffer, { codec }: RpcForm): Message | Promise<Message> {
    const { world } = this.#options;
    const { input } = this.#endpoint.method;
    return codec === "proto"
      ? decodeBinary(bytes, input, world)
      : decodeJson(bytes, this.#json, () => create(input), world);
  }

  /** The Host's database fills an empty one, and never overrides. */
  #fill(message: Message, { hostDatabase }: RpcRequest): void {
    const properties = message as Properties;
    if (hostDatabase !== undefined && this.#endpoint.hostSegments && properties["db"] === "")
      properties["db"] = hostDatabase;
  }

  /** The bytes of the message, inflated, and held in the room. */
  async #payload({ form, request, query }: RpcRequest): Promise<HeldBody> {
    const { room } = this.#options;
    checkTimeout(form, request);
    if (query !== undefined) return this.#inflated(parseQueryPayload(query), form);
    const encoding = request.headers[form.encodingHeader];
    const isGzip = encoding === "gzip";
    if (encoding !== undefined && encoding !== "identity" && !isGzip) throw unknownEncoding(form.encodingHeader, form);
    if (!isEnveloped(form)) {
      const held = await readBody(request, this.#bytesMax, room);
      return isGzip ? this.#inflateAndRelease(held, { bytes: held.bytes, isCompressed: true }, form) : held;
    }
    const held = await readBody(request, this.#bytesMax + envelopeBytes, room);
    try {
      const payload = parseEnvelope(held.bytes, this.#bytesMax, isGzip);
      if (!payload.isCompressed) return { bytes: payload.bytes, [Symbol.dispose]: () => held[Symbol.dispose]() };
      return await this.#inflateAndRelease(held, payload, form);
    } catch (error) {
      held[Symbol.dispose]();
      throw error;
    }
  }

  /** Inflates, and releases the compressed bytes however that ends. */
  async #inflateAndRelease(held: HeldBody, payload: Payload, form: RpcForm): Promise<HeldBody> {
    try {
      return await this.#inflated(payload, form);
    } finally {
      held[Symbol.dispose]();
    }
  }

  async #inflated({ bytes, isCompressed }: Payload, { protocol }: RpcForm): Promise<HeldBody> {
    if (isCompressed) return inflate(bytes, this.#bytesMax, this.#options.room);
    if (bytes.length > this.#bytesMax)
      throw new ServiceError(
        "payload_too_large",
        `a message of ${protocol} here holds at most ${this.#bytesMax} bytes`,
      );
    return { bytes, [Symbol.dispose]: () => {} };
  }

  /** What a message that cannot be decoded is about, where its beginning or its shape still tell. */
  #decodeAddress(bytes: Buffer, { codec }: RpcForm): Message | undefined {
    const address =
      codec === "proto" ? decodeBinaryAddress(bytes, this.#address) : decodeJsonAddress(bytes, this.#address);
    if (address.size < this.#address.length) return undefined;
    const message = create(this.#endpoint.method.input) as Properties;
    for (const [field, text] of address) message[field.localName] = text;
    return message;
  }
}

/**
 * How long the client waits, in milliseconds; undefined where it does not say, not as its protocol has it, or longer
 * than a timer can.
 */
export function parseTimeoutMs(form: RpcForm, request: WireRequest): number | undefined {
  const text = readTimeoutText(form, request);
  if (text === undefined) return undefined;
  const timeoutMs = Number.parseInt(text) * (unitsMs[text.at(-1)!] ?? 1);
  return timeoutMs <= timerMsMax ? timeoutMs : undefined;
}

/** gRPC's units of time. Connect has none, and means milliseconds. */
const unitsMs: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 };
const timerMsMax = 2 ** 31 - 1;

function readTimeoutText({ timeoutHeader }: RpcForm, request: WireRequest): string | undefined {
  const text = request.headers[timeoutHeader];
  const pattern = timeoutHeader === "grpc-timeout" ? /^\d{1,8}[HMSmun]$/ : /^\d{1,10}$/;
  return typeof text === "string" && pattern.test(text) ? text : undefined;
}

function checkTimeout(form: RpcForm, request: WireRequest): void {
  const { timeoutHeader } = form;
  if (request.headers[timeoutHeader] === undefined || readTimeoutText(form, request) !== undefined) return;
  const isGrpc = timeoutHeader === "grpc-timeout";
  const allowed = isGrpc ? "up to 8 digits and one of H, M, S, m, u, n" : "milliseconds, up to 10 digits";
  throw invalid(`${timeoutHeader} must be ${allowed}`);
}

function unknownEncoding(where: string, { protocol }: RpcForm): ServiceError {
  const header = protocol === "connect" ? "accept-encoding" : "grpc-accept-encoding";
  return new ServiceError("invalid_request", `${where} must be identity or gzip`, {
    httpStatus: 415,
    headers: { [header]: "identity, gzip" },
  });
}

/** The one message of a unary call, out of its envelope. */
function parseEnvelope(body: Buffer, bytesMax: number, isGzip: boolean): Payload {
  if (body.length < envelopeBytes) throw invalid("the body holds no whole message");
  const flags = body[0]!;
  const length = body.readUInt32BE(1);
  if (length > bytesMax)
    throw new ServiceError(
      "payload_too_large",
      `the message is larger than the ${bytesMax} bytes that this method takes`,
    );
  if (body.length < envelopeBytes + length) throw invalid("the body holds no whole message");
  if (body.length > envelopeBytes + length)
    throw invalid("the body holds more than the one message that this method takes");
  if ((flags & ~compressedFlag) !== 0) throw invalid("the message's envelope has flags that no request has");
  const isCompressed = flags === compressedFlag;
  if (isCompressed && !isGzip)
    throw invalid("the message is compressed, and grpc-encoding does not say how: gzip is taken");
  return { bytes: body.subarray(envelopeBytes), isCompressed };
}

/** The message of a Connect call by GET. */
function parseQueryPayload(query: string): Payload {
  const parameters = new URLSearchParams(query);
  const text = parameters.get("message") ?? "";
  const compression = parameters.get("compression") ?? "identity";
  if (compression !== "identity" && compression !== "gzip") throw unknownEncoding("compression", connectForms.json);
  return {
    bytes: Buffer.from(text, parameters.get("base64") === "1" ? "base64url" : "utf8"),
    isCompressed: compression === "gzip",
  };
}

/** How many fields of a message are looked at for those that say what it is about: they come first. */
const addressFieldsMax = 64;

function decodeBinaryAddress(bytes: Buffer, fields: readonly DescField[]): Map<DescField, string> {
  const found = new Map<DescField, string>();
  const reader = new BinaryReader(bytes);
  try {
    for (let step = 0; step < addressFieldsMax && reader.pos < reader.len; step++) {
      const [number, type] = reader.tag();
      const field = fields.find((candidate) => candidate.number === number);
      if (field && type === WireType.LengthDelimited) found.set(field, reader.string());
      else reader.skip(type, number);
    }
  } catch {
    // What cannot be read tells nothing more about itself.
  }
  return found;
}

function decodeJsonAddress(bytes: Buffer, fields: readonly DescField[]): Map<DescField, string> {
  const found = new Map<DescField, string>();
  if (bytes.length > limits.decodedAtOnceBytes) return found;
  try {
    const json = JSON.parse(bytes.toString()) as Record<string, unknown> | null;
    for (const field of fields) {
      const value = json?.[field.jsonName] ?? json?.[field.name];
      if (typeof value === "string") found.set(field, value);
    }
  } catch {
    // What is no JSON tells nothing about itself.
  }
  return found;
}
