/**
 * A local server that speaks the Messages protocol as the provider does, says what it is told to, and remembers what it
 * was sent. What the provider would refuse, it refuses too: a request without key, version, model or bound, a schema
 * that leaves an object open.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

/** What a client sent. */
export interface AssistantRequest {
  readonly headers: IncomingMessage["headers"];
  readonly model: string;
  readonly system: string;
  /** The text of the one user message. */
  readonly data: string;
  readonly body: any;
}

export type AssistantReply =
  /** The model writes this value as JSON. */
  | { readonly json: unknown }
  /** The model writes this text and stops for this reason. */
  | { readonly text: string; readonly stop?: string }
  /** The provider fails with a message that quotes what it was sent. */
  | { readonly status: number; readonly headers?: Record<string, string> }
  /** A body of its own under status 200. */
  | { readonly raw: string; readonly type?: string }
  /** No answer, or the beginning of one; a cut connection; another address. */
  | "hang"
  | "hang_in_body"
  | "cut"
  | { readonly redirect: string };

export interface AssistantServer {
  /** For SERVICE_…_BASE_URL. */
  readonly address: string;
  /** What came to be answered, in order. */
  readonly requests: AssistantRequest[];
  /** Connections that their clients gave up while they waited. */
  readonly abandoned: { count: number };
  /** What it says from now on, in order; the last for good. A function says it by what was asked. */
  say(...replies: (AssistantReply | ((request: AssistantRequest) => AssistantReply))[]): void;
  close(): Promise<void>;
}

function message(model: string, text: string, stop = "end_turn"): string {
  return JSON.stringify({
    id: "msg_01",
    type: "message",
    role: "assistant",
    model,
    content: [{ type: "text", text }],
    stop_reason: stop,
    stop_sequence: null,
    usage: { input_tokens: 10, output_tokens: 10 },
  });
}

function failure(type: string, text: string): string {
  return JSON.stringify({ type: "error", error: { type, message: text }, request_id: "req_01" });
}

/** Why the provider would not take the request; undefined when it would. */
function findComplaint({ headers }: IncomingMessage, body: any): string | undefined {
  if (headers["anthropic-version"] !== "2026-10-21") return "anthropic-version is required";
  if ("temperature" in body || "top_p" in body || "top_k" in body) return "sampling parameters are not of this version";
  if (typeof body.model !== "string" || !Number.isInteger(body.max_tokens) || body.max_tokens < 1)
    return "model and max_tokens are required";
  if (body.messages?.length !== 1 || body.messages[0].role !== "user" || typeof body.messages[0].content !== "string")
    return "messages are required";
  if (body.output_config?.format?.type !== "json_schema") return "output_config.format is expected";
  return openObject(body.output_config.format.schema);
}

function openObject(schema: any): string | undefined {
  if (typeof schema !== "object" || schema === null) return undefined;
  if (
    schema.type === "object" &&
    (schema.additionalProperties !== false ||
      Object.keys(schema.properties).some((name) => !schema.required.includes(name)))
  )
    return "every object must be closed";
  return Object.values(schema)
    .map(openObject)
    .find((found) => found !== undefined);
}

async function readJson(request: IncomingMessage): Promise<any> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString());
}

function write(reply: AssistantReply, asked: AssistantRequest, response: ServerResponse): void {
  const send = (status: number, headers: Record<string, string>, body: string): void =>
    void response.writeHead(status, { "content-type": "application/json", ...headers }).end(body);
  if (reply === "hang") return;
  if (reply === "hang_in_body")
    return void response.writeHead(200, { "content-type": "application/json" }).write('{"id":');
  if (reply === "cut") return void response.destroy();
  if ("json" in reply) return send(200, {}, message(asked.model, JSON.stringify(reply.json)));
  if ("text" in reply) return send(200, {}, message(asked.model, reply.text, reply.stop));
  if ("raw" in reply) return send(200, { "content-type": reply.type ?? "application/json" }, reply.raw);
  if ("redirect" in reply) return send(307, { location: reply.redirect }, "");
  send(
    reply.status,
    reply.headers ?? {},
    failure("some_error", `failed on ${asked.data} with ${String(asked.headers.authorization)}`),
  );
}

/** Starts a server that ends with the test, or with `close` when `lasting` is said. */
export async function startAssistantServer({ lasting = false } = {}): Promise<AssistantServer> {
  const requests: AssistantRequest[] = [];
  const abandoned = { count: 0 };
  let script: (AssistantReply | ((request: AssistantRequest) => AssistantReply))[] = [{ status: 500 }];
  const server = createServer((request, response) => {
    response.on("close", () => void (response.writableFinished || abandoned.count++));
    void readJson(request).then((body) => {
      if (request.method !== "POST" || request.url !== "/v1/messages")
        return void response
          .writeHead(404, { "content-type": "application/json" })
          .end(failure("not_found_error", "no such path"));
      if (!/^Bearer ./.test(request.headers.authorization ?? ""))
        return void response
          .writeHead(401, { "content-type": "application/json" })
          .end(failure("authentication_error", "no key"));
      const complaint = findComplaint(request, body);
      if (complaint !== undefined)
        return void response
          .writeHead(400, { "content-type": "application/json" })
          .end(failure("invalid_request_error", complaint));
      const asked = {
        headers: request.headers,
        model: body.model,
        system: body.system,
        data: body.messages[0].content,
        body,
      };
      requests.push(asked);
      const next = script.length > 1 ? script.shift()! : script[0]!;
      write(typeof next === "function" ? next(asked) : next, asked, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = (): Promise<void> => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(() => resolve()));
  };
  if (!lasting) onTestFinished(close);
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    abandoned,
    say(...replies) {
      script = replies;
    },
    close,
  };
}

/** The JSON in a block of what a model was sent. */
export function parseBlock(data: string, name: string): any {
  const [, json] = new RegExp(`<${name}>\n([^<]*)\n</${name}>`).exec(data) ?? [];
  return JSON.parse(json ?? "null");
}
