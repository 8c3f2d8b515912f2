/**
 * The gRPC wire of the endpoints, which take one message and give one: the answer's frame, its headers, its status.
 *
 * Why beside the library, which speaks gRPC too: its streams of one message, fetch's headers and signals that nobody
 * hears cost about twice what all else of a small call does. Always true: an answer ends with `grpc-status`, a refusal
 * is the status alone, and an answer is never compressed. Must not know: who calls, how a request is read.
 */
import type { Http2ServerResponse } from "node:http2";
import { type DescMessage, type Message, toBinary, toJsonString } from "@bufbuild/protobuf";
import type { ServiceError } from "../../base/faults/errors.ts";
import type { CallResult } from "../../service/call/call.ts";
import type { Discards } from "../wire/body.ts";
import type { WireResponse } from "../wire/listener.ts";
import type { RpcCall, RpcEndpoint } from "./rpc-endpoint.ts";
import { type RpcForm, sendStatus, toConnectError } from "./rpc-protocols.ts";
import { envelopeBytes } from "./rpc-request.ts";

/** Answers one call. Never rejects. */
export async function serveGrpc(calls: RpcEndpoint, call: RpcCall, discards: Discards): Promise<void> {
  const { form, request, response } = call;
  const { output } = calls.endpoint.method;
  try {
    await calls.answer(call, (result) => sendResult(output, result, form, response));
  } catch (error) {
    sendStatus(toConnectError(error as ServiceError), form, response);
    discards.take(request);
  }
}

const okTrailers = { "grpc-status": "0" };

function sendResult(
  output: DescMessage,
  { message, headers }: CallResult,
  form: RpcForm,
  response: WireResponse,
): void {
  const frame = encodeFrame(output, message, form);
  if (response.headersSent) return;
  const head: Record<string, string> = { "content-type": form.contentType };
  for (const [name, value] of headers) head[name] = value;
  if ("stream" in response) return sendOnStream(frame, head, response);
  response.writeHead(200, head);
  response.addTrailers(okTrailers);
  response.end(frame);
}

/** The same of HTTP/2, whose stream does not look at each header twice. */
function sendOnStream(frame: Buffer, head: Readonly<Record<string, string>>, response: Http2ServerResponse): void {
  const { stream } = response;
  if (stream.destroyed || stream.closed) return;
  response.addTrailers(okTrailers);
  stream.respond({ ":status": 200, ...response.getHeaders(), ...head }, { waitForTrailers: true });
  response.end(frame);
}

/** The message in its envelope: no flags, its length, its bytes. */
function encodeFrame(output: DescMessage, message: Message, { codec }: RpcForm): Buffer {
  const bytes = codec === "proto" ? toBinary(output, message) : Buffer.from(toJsonString(output, message));
  const frame = Buffer.allocUnsafe(envelopeBytes + bytes.length);
  frame[0] = 0;
  frame.writeUInt32BE(bytes.length, 1);
  frame.set(bytes, envelopeBytes);
  return frame;
}
