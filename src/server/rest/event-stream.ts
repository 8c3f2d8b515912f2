/**
 * A stream of messages over REST, as server-sent events (the HTML standard's `text/event-stream`).
 *
 * The message's `txid` is the event's id, which a client that comes again names in `Last-Event-ID`, and its `kind` the
 * event's name; its data is the message in JSON, on one line. A refusal that ends the stream is the event `error` with
 * the envelope. Always true: no more is written than the client takes. Must not know: what the messages mean.
 */
import type { ServerResponse } from "node:http";
import type { Message } from "@bufbuild/protobuf";
import { ServiceError } from "../../base/faults/errors.ts";
import type { ResponseHeaders } from "../wire/call-headers.ts";
import type { WireRequest, WireResponse } from "../wire/listener.ts";
import type { WriteMessage } from "./rest-encoder.ts";

const eventStream = "text/event-stream";

/** Refuses a client that takes no such stream. */
export function requireEventStream(request: WireRequest): void {
  const accept = request.headers.accept;
  if (accept === undefined || /(^|[\s,])(text\/event-stream|text\/\*|\*\/\*)/i.test(accept)) return;
  throw new ServiceError("invalid_request", `this route answers ${eventStream}, which Accept does not allow`, {
    httpStatus: 406,
  });
}

/** Writes the stream out, to its end or until the client goes. `refuse` makes what it ended with fit for the client. */
export async function sendEvents(
  messages: AsyncIterable<Message>,
  write: WriteMessage,
  headers: ResponseHeaders,
  response: WireResponse,
  refuse: (error: unknown) => ServiceError,
): Promise<void> {
  const out = response as ServerResponse;
  if (out.destroyed) return;
  // Proxies that gather what they pass on would hold events back.
  const own = { "content-type": eventStream, "cache-control": "no-store", "x-accel-buffering": "no" };
  out.writeHead(200, { ...headers, ...own });
  out.flushHeaders();
  try {
    for await (const message of messages) {
      const { txid, kind } = message as Message & { readonly txid?: unknown; readonly kind?: unknown };
      await put(out, `id: ${String(txid)}\nevent: ${String(kind)}\ndata: ${write(message)}\n\n`);
      if (out.destroyed) return;
    }
  } catch (error) {
    const { message, code } = refuse(error);
    if (!out.destroyed) await put(out, `event: error\ndata: ${JSON.stringify({ error: message, code })}\n\n`);
  }
  out.end();
}

/** Writes, and waits until the client has taken enough for more, or has gone. */
function put(out: ServerResponse, text: string): Promise<void> | undefined {
  if (out.write(text)) return undefined;
  return new Promise((resolve) => {
    const go = (): void => {
      out.off("drain", go);
      out.off("close", go);
      resolve();
    };
    out.once("drain", go);
    out.once("close", go);
    if (out.destroyed) go();
  });
}
