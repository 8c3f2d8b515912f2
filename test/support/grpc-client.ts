/** gRPC by hand over Node's own HTTP/2 client: every byte is the test's, and what comes back is told as it came. */
import { connect, constants, type ClientHttp2Session, type ClientHttp2Stream, type Settings } from "node:http2";
import { findTrailerError } from "@connectrpc/connect/protocol-grpc";
import { onTestFinished } from "vitest";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";

export interface GrpcAnswer {
  readonly headers: Readonly<Record<string, unknown>>;
  /** Whether the headers ended the answer. */
  readonly isHeadersOnly: boolean;
  readonly trailers: Readonly<Record<string, unknown>> | undefined;
  readonly body: Buffer;
  readonly resetCode: number | undefined;
}

/** The message in an envelope. */
export function enveloped(message: Uint8Array, flags = 0): Buffer {
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/** A connection that is closed when the test ends. */
export function openHttp2(port: number, settings: Settings = {}): ClientHttp2Session {
  const session = connect(`http://127.0.0.1:${port}`, { settings });
  session.on("error", () => {});
  onTestFinished(() => session.destroy());
  return session;
}

export function openCall(
  session: ClientHttp2Session,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): ClientHttp2Stream {
  return session.request({
    ":method": "POST",
    ":path": path,
    "content-type": "application/grpc",
    te: "trailers",
    ...headers,
  });
}

/** What comes back, when the stream is closed. */
export function answerOf(stream: ClientHttp2Stream): Promise<GrpcAnswer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let headers = {};
    let trailers: GrpcAnswer["trailers"];
    let isHeadersOnly = false;
    stream.on("response", (given, flags) => {
      headers = given;
      isHeadersOnly = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
    });
    stream.on("trailers", (given) => (trailers = Object.fromEntries(Object.entries(given))));
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("error", () => {});
    stream.on("close", () =>
      resolve({ headers, isHeadersOnly, trailers, body: Buffer.concat(chunks), resetCode: stream.rstCode }),
    );
  });
}

/** Sends a whole request in the given chunks and gives what comes back. */
export function callGrpc(
  session: ClientHttp2Session,
  path: string,
  body: Uint8Array | readonly Uint8Array[],
  headers: Readonly<Record<string, string>> = {},
): Promise<GrpcAnswer> {
  const stream = openCall(session, path, headers);
  const answer = answerOf(stream);
  for (const chunk of body instanceof Uint8Array ? [body] : body) stream.write(chunk);
  stream.end();
  return answer;
}

export interface GrpcStatus {
  readonly code: number;
  readonly message: string;
  /** Of google.rpc.ErrorInfo. */
  readonly reason: string | undefined;
}

/** The status of an answer, as its headers or trailers have it. */
export function readStatus(fields: Readonly<Record<string, unknown>>): GrpcStatus {
  const texts = Object.entries(fields).filter(([name]) => name.startsWith("grpc-")) as [string, string][];
  const headers = new Headers(texts);
  return {
    code: Number(headers.get("grpc-status")),
    message: decodeURIComponent(headers.get("grpc-message") ?? ""),
    reason: findTrailerError(headers)?.findDetails(ErrorInfoSchema)[0]?.reason,
  };
}

/** The same of gRPC-Web, which has its trailers in the last envelope of the body. */
export function readWebStatus({ headers, body }: GrpcAnswer): GrpcStatus {
  if (headers["grpc-status"] !== undefined) return readStatus(headers);
  let at = 0;
  while ((body[at]! & 0x80) === 0) at += 5 + body.readUInt32BE(at + 1);
  const lines = body
    .toString("latin1", at + 5)
    .trim()
    .split("\r\n");
  return readStatus(Object.fromEntries(lines.map((line) => line.split(/: ?(.*)/s, 2))));
}

/** Frames of HTTP/2 by hand, for what no client sends. */
export const frames = {
  /** What a connection begins with: the preface and settings of no fields. */
  get opening(): Buffer {
    return Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), buildFrame(4, 0, 0, Buffer.of())]);
  },
  headers: (stream: number, fields: Readonly<Record<string, string>>): Buffer =>
    buildFrame(1, constants.NGHTTP2_FLAG_END_HEADERS, stream, Buffer.concat(Object.entries(fields).map(literal))),
  data: (stream: number, bytes: Uint8Array): Buffer => buildFrame(0, 0, stream, bytes),
  reset: (stream: number, code: number): Buffer => buildFrame(3, 0, stream, Buffer.of(0, 0, 0, code)),
};

function buildFrame(type: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** A header as HPACK's literal without indexing; both texts are short. */
function literal([name, value]: readonly [string, string]): Buffer {
  return Buffer.concat([Buffer.of(0, name.length), Buffer.from(name), Buffer.of(value.length), Buffer.from(value)]);
}
