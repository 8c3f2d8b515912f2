/** Requests over REST to a node that echoes, and the shape of its refusals. */
import { once } from "node:events";
import * as http from "node:http";
import { expect } from "vitest";
import { type EchoNode } from "./echo-node.ts";

interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly text: string;
  readonly json: any;
}

interface Sent {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Uint8Array | undefined;
}

/** A bare request: fetch would tidy the path, the Host and the headers that these tests are about. */
export async function send({ port }: EchoNode, { method = "GET", path, headers = {}, body }: Sent): Promise<Answer> {
  const request = http.request({ host: "127.0.0.1", port, method, path, headers, agent: false });
  request.end(body);
  const [response] = (await once(request, "response")) as [http.IncomingMessage];
  let text = "";
  for await (const chunk of response.setEncoding("utf8")) text += chunk;
  return {
    status: response.statusCode!,
    headers: response.headers,
    text,
    json: text !== "" && response.headers["content-type"] === "application/json" ? JSON.parse(text) : undefined,
  };
}

export const post = (
  node: EchoNode,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> =>
  send(node, {
    method: "POST",
    path,
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

export const refusal = (code: string, error: RegExp | string) => ({
  code,
  error: typeof error === "string" ? error : expect.stringMatching(error),
});
