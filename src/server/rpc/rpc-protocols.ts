/**
 * The forms of remote procedure calls: which of gRPC, gRPC-Web and Connect a request speaks, and a refusal in that
 * form.
 *
 * Always true: what is refused before the library sees it is refused as the library would, with google.rpc.ErrorInfo,
 * so that a client of any form understands it. Must not know: endpoints, bodies.
 */
import { create } from "@bufbuild/protobuf";
import { DurationSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { codeToHttpStatus, errorToJson } from "@connectrpc/connect/protocol-connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { ErrorInfoSchema, RetryInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import { errorCodes, type ServiceError } from "../../base/faults/errors.ts";
import { type ResponseHeaders, send, sendRefusal } from "../wire/call-headers.ts";
import { refusalHeaders, computeRetryAfterSecs } from "../wire/refusal.ts";
import type { WireRequest, WireResponse } from "../wire/listener.ts";

/** What a request speaks, and how its messages are written. */
export interface RpcForm {
  readonly protocol: "grpc" | "grpc-web" | "connect";
  readonly codec: "proto" | "json";
  /** Of Connect, which says so by the type: whether the answer is a stream. The others have one form for both. */
  readonly isStream: boolean;
  /** The type in the one way in which we write it. */
  readonly contentType: string;
  /** The header that says how the body is compressed. */
  readonly encodingHeader: "grpc-encoding" | "content-encoding" | "connect-content-encoding";
  /** The header that says how long the client waits. */
  readonly timeoutHeader: "grpc-timeout" | "connect-timeout-ms";
}

function buildForm(
  protocol: RpcForm["protocol"],
  codec: RpcForm["codec"],
  contentType: string,
  isStream: boolean = false,
): RpcForm {
  const isConnect = protocol === "connect";
  return {
    protocol,
    codec,
    isStream,
    contentType,
    encodingHeader: isConnect ? (isStream ? "connect-content-encoding" : "content-encoding") : "grpc-encoding",
    timeoutHeader: isConnect ? "connect-timeout-ms" : "grpc-timeout",
  };
}

/** Connect, in the codec given: also what a GET speaks, whose query names the codec. */
export const connectForms = {
  proto: buildForm("connect", "proto", "application/proto"),
  json: buildForm("connect", "json", "application/json"),
} as const;

const known: ReadonlyMap<string, RpcForm> = new Map([
  ["application/proto", connectForms.proto],
  ["application/json", connectForms.json],
  ["application/connect+proto", buildForm("connect", "proto", "application/connect+proto", true)],
  ["application/connect+json", buildForm("connect", "json", "application/connect+json", true)],
  ...(["grpc", "grpc-web"] as const).flatMap((protocol): [string, RpcForm][] => [
    [`application/${protocol}`, buildForm(protocol, "proto", `application/${protocol}+proto`)],
    [`application/${protocol}+proto`, buildForm(protocol, "proto", `application/${protocol}+proto`)],
    [`application/${protocol}+json`, buildForm(protocol, "json", `application/${protocol}+json`)],
  ]),
]);

/** The media types of calls whose answer is a stream, or is none, for refusals. */
export function rpcTypes(isStream: boolean): readonly string[] {
  return [...known].flatMap(([type, form]) =>
    form.protocol === "connect" && form.isStream !== isStream ? [] : [type],
  );
}

/** Whether messages come in envelopes: on all but Connect's calls that have one message each way. */
export function isEnveloped({ protocol, isStream }: RpcForm): boolean {
  return protocol !== "connect" || isStream;
}

/** The form of a POST with this type; undefined for a type of none. */
export function findRpcForm(contentType: string | undefined): RpcForm | undefined {
  if (contentType === undefined) return undefined;
  const form = known.get(contentType);
  if (form) return form;
  const [, type] = /^([^;\s]+)\s*;\s*charset\s*=\s*"?utf-?8"?\s*;?$/i.exec(contentType) ?? [undefined, contentType];
  return known.get(type!.toLowerCase());
}

/** The refusal on these wires: its code, google.rpc.ErrorInfo, RetryInfo when a retry can help, and its headers. */
export function toConnectError(refusal: ServiceError): ConnectError {
  const { connect, retryable } = errorCodes[refusal.code];
  // gRPC's way to say that an encoding, a type or a method is not there.
  const isUnknown = refusal.detail.httpStatus === 415 || refusal.detail.httpStatus === 405;
  const error = new ConnectError(
    // One that quotes the beginning of a name may end within a character, of which no header can be made.
    refusal.message.toWellFormed(),
    isUnknown ? Code.Unimplemented : (connect as Code),
    refusalHeaders(refusal),
  );
  error.details.push({
    desc: ErrorInfoSchema,
    value: create(ErrorInfoSchema, { reason: refusal.code, domain: "palimpsest" }),
  });
  const seconds = retryable ? computeRetryAfterSecs(refusal) : undefined;
  if (seconds !== undefined) {
    const retryDelay = create(DurationSchema, { seconds: BigInt(seconds) });
    error.details.push({ desc: RetryInfoSchema, value: create(RetryInfoSchema, { retryDelay }) });
  }
  return error;
}

/** Whether a path has the shape of a method's, `/package.Service/Method`. */
export function isMethodPath(path: string): boolean {
  return /^\/[\w.]+\.\w+\/\w+$/.test(path);
}

/**
 * Refuses a request before anything of it was read, in the form that its client understands. `code` overrides the
 * refusal's own on these wires.
 */
export function refuseRequest(refusal: ServiceError, request: WireRequest, response: WireResponse, code?: Code): void {
  const path = (request.url ?? "").split("?", 1)[0]!;
  const form = findRpcForm(request.headers["content-type"]);
  const isCall = isMethodPath(path);
  if (!isCall && (form === undefined || form.protocol === "connect")) return sendRefusal(refusal, response);
  const known = toConnectError(refusal);
  const error =
    code === undefined ? known : new ConnectError(refusal.message, code, known.metadata, known.details as []);
  if (form === undefined || form.protocol === "connect") {
    const headers: ResponseHeaders = { "content-type": "application/json" };
    for (const [name, value] of refusalHeaders(refusal)) headers[name] = value;
    return send(
      response,
      refusal.detail.httpStatus ?? (code === undefined ? codeToHttpStatus(error.code) : errorCodes[refusal.code].http),
      headers,
      JSON.stringify(errorToJson(error, undefined)),
    );
  }
  sendStatus(error, form, response);
}

/** Answers a call of gRPC or gRPC-Web by its status alone: in headers, with which the answer ends. */
export function sendStatus(error: ConnectError, { contentType }: RpcForm, response: WireResponse): void {
  if (response.headersSent) return;
  const headers: ResponseHeaders = { "content-type": contentType };
  for (const [name, value] of setTrailerStatus(new Headers(), error)) headers[name] = value;
  // The library leaves it out with all headers of the protocol, and a client that is refused for its encoding needs it.
  const accepted = error.metadata.get("grpc-accept-encoding");
  if (accepted !== null) headers["grpc-accept-encoding"] = accepted;
  if (!("stream" in response)) return send(response, 200, headers, undefined);
  const { stream } = response;
  if (stream.destroyed || stream.closed) return;
  // As the response itself writes headers they do not end the stream, and a client that finds the status in headers
  // that do not takes the answer for one that broke off. Nor would Node end a stream whose request nobody reads.
  stream.respond({ ":status": 200, ...response.getHeaders(), ...headers }, { endStream: true });
  response.end();
}
