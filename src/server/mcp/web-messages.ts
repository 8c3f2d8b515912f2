/**
 * Between a node's HTTP messages and the web's own, which the protocol's library speaks.
 *
 * Always true: headers and the whole way back are carried, with the pace of a client that reads slowly; the body has
 * been read and parsed by the door. Must not know: the protocol.
 */
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { readHost, type ResponseHeaders, send } from "../wire/call-headers.ts";
import type { WireRequest, WireResponse } from "../wire/listener.ts";

/** The request without its body. `signal` is aborted when its client goes away. */
export function toWebRequest(request: WireRequest, signal: AbortSignal): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    // What HTTP/2 says of the request line is no header, and the credential is the door's alone.
    if (value === undefined || name.startsWith(":") || name === "authorization") continue;
    headers.set(name, Array.isArray(value) ? value.join(", ") : value);
  }
  return new Request(`http://${readHost(request) ?? "localhost"}${request.url ?? "/"}`, {
    method: request.method ?? "GET",
    headers,
    signal,
  });
}

/** Sends the answer; of a stream event by event. `more` are headers beside its own. */
export async function sendWebResponse(answer: Response, response: WireResponse, more: ResponseHeaders): Promise<void> {
  const headers: ResponseHeaders = { ...Object.fromEntries(answer.headers), ...more };
  const isStream = answer.headers.get("content-type")?.startsWith("text/event-stream") === true;
  if (answer.body === null) return send(response, answer.status, headers, undefined);
  if (!isStream) return send(response, answer.status, headers, Buffer.from(await answer.arrayBuffer()));
  const out = response as ServerResponse;
  const reader = answer.body.getReader();
  out.once("close", () => void reader.cancel().catch(() => {}));
  out.writeHead(answer.status, headers);
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    if (out.destroyed) return;
    if (!out.write(next.value)) await Promise.race([once(out, "drain"), once(out, "close")]);
  }
  out.end();
}
