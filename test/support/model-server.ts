/**
 * A server that speaks the embedding protocols as their providers do: OpenAI's, which local servers speak too, and
 * Voyage's. Vectors are made from the words of a text, so that texts that share words are near to each other.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createHash } from "node:crypto";
import { onTestFinished } from "vitest";

/** A request as it came. */
interface ModelRequest {
  readonly path: string;
  readonly authorization: string | undefined;
  readonly headers: IncomingMessage["headers"];
  readonly body: { readonly input: string[]; readonly model: string; readonly [member: string]: unknown };
}

/** What a request is answered with instead of vectors. */
type Misbehaviour =
  | {
      readonly kind: "status";
      readonly status: number;
      readonly headers?: Record<string, string>;
      readonly text?: string;
    }
  | { readonly kind: "hang" }
  | { readonly kind: "cut" }
  | { readonly kind: "body"; readonly text: string }
  /** An endless body. */
  | { readonly kind: "flood" };

export interface ModelServer {
  readonly address: string;
  readonly port: number;
  /** Every request, oldest first. */
  readonly requests: ModelRequest[];
  /** How many numbers a vector has. */
  dimension: number;
  /** Asked for each request; undefined answers it as it should be. */
  misbehave: ((request: ModelRequest) => Misbehaviour | undefined) | undefined;
  close(): Promise<void>;
}

/** A vector with one place for each word, by the word's hash: the same for the same words, whatever their order. */
export function computeVector(text: string, dimension: number): number[] {
  const vector = Array.from({ length: dimension }, () => 0);
  for (const word of text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [])
    vector[createHash("sha256").update(word).digest().readUInt32LE() % dimension]! += 1;
  const length = Math.hypot(...vector) || 1;
  return vector.map((value) => value / length);
}

/** Opens a port; the last test that uses it closes it. */
export async function openModelServer(): Promise<ModelServer> {
  const server = createServer((request, response) => void answer(request, response));
  const model: { -readonly [Key in keyof ModelServer]: ModelServer[Key] } = {
    address: "",
    port: 0,
    requests: [],
    dimension: 256,
    misbehave: undefined,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };

  async function answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Uint8Array[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Uint8Array);
    const body = JSON.parse(Buffer.concat(chunks).toString()) as ModelRequest["body"];
    const request = {
      path: incoming.url!,
      authorization: incoming.headers.authorization,
      headers: incoming.headers,
      body,
    };
    model.requests.push(request);
    const misbehaviour = incoming.url!.endsWith("/embeddings")
      ? model.misbehave?.(request)
      : ({ kind: "status", status: 404 } as const);
    if (misbehaviour) return misbehaved(misbehaviour, response);
    const isVoyage = "input_type" in body;
    const data = body.input.map((text, index) => ({
      object: "embedding",
      embedding: computeVector(text, model.dimension),
      index,
    }));
    const usage = isVoyage ? { total_tokens: 1 } : { prompt_tokens: 1, total_tokens: 1 };
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ object: "list", data, model: body.model, usage }));
  }

  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  model.port = (server.address() as AddressInfo).port;
  model.address = `http://127.0.0.1:${model.port}`;
  return model;
}

/** The same for one test. */
export async function modelServer(): Promise<ModelServer> {
  const server = await openModelServer();
  onTestFinished(() => server.close());
  return server;
}

function misbehaved(misbehaviour: Misbehaviour, response: ServerResponse): void {
  switch (misbehaviour.kind) {
    case "status": {
      const body = JSON.stringify({
        error: { message: misbehaviour.text ?? "the provider's own words", type: "error" },
      });
      response
        .writeHead(misbehaviour.status, { "content-type": "application/json", ...misbehaviour.headers })
        .end(body);
      return;
    }
    case "hang":
      return;
    case "cut":
      response.writeHead(200, { "content-type": "application/json", "content-length": "100000" });
      response.write('{"data":[', () => response.destroy());
      return;
    case "body":
      response.writeHead(200, { "content-type": "application/json" }).end(misbehaviour.text);
      return;
    case "flood": {
      response.writeHead(200, { "content-type": "application/json" });
      response.write('{"data":"');
      const more = (): void => {
        if (!response.destroyed) response.write("x".repeat(1 << 20), () => setImmediate(more));
      };
      more();
    }
  }
}
