/**
 * What every wire reads off a request and writes to a response, whatever the HTTP version.
 */
import type { ServerResponse } from "node:http";
import { errorCodes, type ServiceError } from "../../base/faults/errors.ts";
import { refusalHeaders } from "./refusal.ts";
import type { WireRequest, WireResponse } from "./listener.ts";

export type ResponseHeaders = Record<string, string | number>;

/** The host that a request was sent to, with its port. */
export function readHost(request: WireRequest): string | undefined {
  return (request.headers[":authority"] as string | undefined) ?? request.headers.host;
}

/** The bearer token of a request. */
export function readCredential(request: WireRequest): string | undefined {
  return parseBearer(request.headers.authorization);
}

/** The token of an Authorization header; undefined when there is none or it has another scheme. */
export function parseBearer(authorization: string | undefined): string | undefined {
  return authorization === undefined ? undefined : /^bearer +(\S+) *$/i.exec(authorization)?.[1];
}

/** Answers with the envelope. */
export function sendRefusal(refusal: ServiceError, response: WireResponse): void {
  const headers: ResponseHeaders = { "content-type": "application/json" };
  for (const [name, value] of refusalHeaders(refusal)) headers[name] = value;
  const status = refusal.detail.httpStatus ?? errorCodes[refusal.code].http;
  send(response, status, headers, jsonLine(JSON.stringify({ error: refusal.message, code: refusal.code })));
}

/** A JSON text as a line, which is how a terminal wants it; to a parser it is the same. */
export function jsonLine(text: string): string {
  return `${text}\n`;
}

/** Answers, unless that has been done or the client has gone. */
export function send(
  response: WireResponse,
  status: number,
  headers: ResponseHeaders,
  body: string | Uint8Array | undefined,
): void {
  // Both HTTP versions share these methods; only their overloads differ, which TypeScript cannot call through a union.
  const out = response as ServerResponse;
  if (out.headersSent || out.destroyed) return;
  if (body !== undefined)
    headers["content-length"] = typeof body === "string" ? Buffer.byteLength(body) : body.byteLength;
  out.writeHead(status, headers);
  // A length may be told without its body, which is what HEAD is for: Node leaves the body out by itself.
  out.end(body);
}

/** Aborted when the connection or stream ends before the answer was given. */
export function goneSignal(response: WireResponse): AbortSignal {
  const controller = new AbortController();
  const abort = (): void => void (response.writableEnded || controller.abort());
  if ("stream" in response ? response.stream.destroyed : response.destroyed) abort();
  response.once("close", abort);
  return controller.signal;
}
