/**
 * Requests with structure for the wires, made from a seed: heads, frames, envelopes, compressed bodies, JSON, protobuf
 * and credentials, most of them nearly right.
 */
import { gzipSync } from "node:zlib";
import { create, fromJsonString, toBinary, toJsonString, type DescMessage, type Message } from "@bufbuild/protobuf";
import { compileBody } from "../../src/server/wire/json-decoder.ts";
import { type Endpoint, endpoints } from "../../src/service/call/methods.ts";
import { platformKey } from "../support/credentials.ts";
import { sampleRequests, type Request } from "../support/requests.ts";

export type Chance = () => number;

function pick<Item>(chance: Chance, items: readonly Item[]): Item {
  return items[Math.floor(chance() * items.length)]!;
}

function below(chance: Chance, max: number): number {
  return Math.floor(chance() * max);
}

/** A request before it is sent. */
export interface Input {
  readonly method: string;
  readonly path: string;
  readonly headers: [string, string][];
  readonly body: Buffer;
  readonly over: "http1" | "http2" | "raw1" | "raw2";
}

const tokensOfJson = [
  "[",
  "]",
  "{",
  "}",
  ",",
  ":",
  '"',
  "\\",
  "\\u",
  "\\ud800",
  "null",
  "true",
  "-0",
  "1e999",
  "12345678901234567890",
  "0.1",
  "[]",
  "{}",
  '"__proto__":',
  '"memories":',
  '"a":',
  "[[[[",
  "\u0000",
  "\ufeff",
  " ",
];

/** Changes some bytes: flips, cuts, doubles, inserts. */
function mutate(chance: Chance, bytes: Buffer, tokens: readonly string[]): Buffer {
  let out = bytes;
  for (let times = below(chance, 4); times > 0; times--) {
    const at = below(chance, out.length + 1);
    const to = Math.min(out.length, at + below(chance, 12));
    const kind = below(chance, 6);
    if (kind === 0 && out.length > 0) {
      out = Buffer.from(out);
      out[Math.min(at, out.length - 1)]! ^= 1 << below(chance, 8);
    } else if (kind === 1) out = out.subarray(0, at);
    else if (kind === 2) out = Buffer.concat([out.subarray(0, at), out.subarray(to)]);
    else if (kind === 3) out = Buffer.concat([out.subarray(0, to), out.subarray(at)]);
    else if (kind === 4)
      out = Buffer.concat([out.subarray(0, at), Buffer.from(pick(chance, tokens)), out.subarray(at)]);
    else
      out = Buffer.concat([
        out.subarray(0, at),
        Buffer.from([below(chance, 256), below(chance, 256)]),
        out.subarray(at),
      ]);
  }
  return out;
}

/** Now and then a part again and again, so that what is cut into pieces is met too. */
function swell(chance: Chance, bytes: Buffer): Buffer {
  if (bytes.length === 0 || chance() > 0.004) return bytes;
  const from = below(chance, bytes.length);
  const part = bytes.subarray(from, from + 1 + below(chance, 40));
  return Buffer.concat([
    bytes.subarray(0, from),
    Buffer.alloc(part.length * Math.ceil((below(chance, 1_000_000) + 1) / part.length), part),
    bytes.subarray(from),
  ]);
}

const types = [
  "application/json",
  "application/json; charset=utf-8",
  "application/proto",
  "application/grpc",
  "application/grpc+proto",
  "application/grpc+json",
  "application/grpc-web",
  "application/grpc-web+proto",
  "application/grpc-web+json",
  "application/grpc-web-text",
  "application/connect+json",
  "text/plain",
  "",
  "a/b;c",
];
const tokensOfHeads = [
  "\r\n",
  "\r",
  "\n",
  ":",
  "host: a\r\n",
  "content-length: 5\r\n",
  "transfer-encoding: chunked\r\n",
  "\0",
  "é",
  "HTTP/9.9",
  " ",
];

export class Generator {
  readonly #chance: Chance;
  readonly #samples: ReadonlyMap<string, Request>;
  readonly #tokens: readonly string[];

  constructor(chance: Chance, tokens: readonly string[]) {
    this.#chance = chance;
    this.#tokens = tokens;
    this.#samples = sampleRequests("notes", { ns: "acme", profile: "bob" });
  }

  next(): Input {
    const chance = this.#chance;
    const endpoint = pick(chance, endpoints);
    const kind = chance();
    const over = kind < 0.5 ? "http1" : kind < 0.9 ? "http2" : kind < 0.96 ? "raw1" : "raw2";
    const isRest = chance() < 0.35;
    const form = isRest ? this.#rest(endpoint) : this.#rpc(endpoint);
    return { ...form, headers: [...form.headers, ...this.#headers()], over };
  }

  #message(endpoint: Endpoint): Message {
    const type = endpoint.method.input;
    const message = create(type);
    const { value, ...fields } = this.#samples.get(endpoint.name)! as Request & { value?: unknown };
    try {
      // The specification's JSON is our own decoder's; what it makes is what the other forms are made of.
      compileBody(type.fields.filter(({ name }) => name in fields)).decode(message, JSON.parse(JSON.stringify(fields)));
    } catch {
      // What a sample writes for REST only is left empty elsewhere.
    }
    return value === undefined ? message : create(type, message as never);
  }

  #rest({
    name,
    httpMethod,
    segments,
    bodyField,
    bodyFields,
    queryFields,
  }: Endpoint): Pick<Input, "method" | "path" | "headers" | "body"> {
    const chance = this.#chance;
    const sample = this.#samples.get(name)! as Record<string, unknown>;
    let path = segments
      .map(
        (segment) =>
          `/${segment.kind === "literal" ? segment.text : encodeURIComponent(String(sample[segment.field.name]))}`,
      )
      .join("");
    if (queryFields.length > 0 && chance() < 0.5) path += `?${pick(chance, queryFields).name}=${below(chance, 300)}`;
    if (chance() < 0.15)
      path = mutate(chance, Buffer.from(path), ["/", "%2F", "%", "%ff", "?", "&", "=", "#", "//", ".."])
        .toString("latin1")
        .replace(/[\s\0-\x1f\x7f-\xff]/g, "%20");
    const json = Object.fromEntries(
      Object.entries(sample).filter(([field]) => bodyFields.some((candidate) => candidate.name === field)),
    );
    const body =
      bodyField === undefined
        ? Buffer.alloc(0)
        : swell(chance, mutate(chance, Buffer.from(JSON.stringify(json)), tokensOfJson));
    return {
      method: chance() < 0.95 ? httpMethod : pick(chance, ["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS"]),
      path: path || "/",
      headers: [["content-type", chance() < 0.9 ? "application/json" : pick(chance, types)]],
      body,
    };
  }

  #rpc(endpoint: Endpoint): Pick<Input, "method" | "path" | "headers" | "body"> {
    const chance = this.#chance;
    const { method } = endpoint;
    const contentType = chance() < 0.95 ? pick(chance, types.slice(0, 9)) : pick(chance, types);
    const message = this.#message(endpoint);
    const plain = contentType.includes("json")
      ? encodeJson(method.input, message)
      : Buffer.from(toBinary(method.input, message));
    let body = swell(
      chance,
      mutate(
        chance,
        plain,
        contentType.includes("json")
          ? tokensOfJson
          : ["\x0a\x00", "\x22\x02", "\xff\xff\xff\xff\x0f", "\x0b", "\x32\x00"],
      ),
    );
    const isGzip = chance() < 0.2;
    if (isGzip) body = mutate(chance, gzipSync(body, { level: 1 }), ["\x1f\x8b"]);
    const headers: [string, string][] = [["content-type", contentType]];
    const isFramed = contentType.includes("grpc");
    if (isFramed) {
      const head = Buffer.alloc(5);
      head[0] = chance() < 0.9 ? Number(isGzip) : below(chance, 256);
      head.writeUInt32BE(chance() < 0.95 ? body.length : below(chance, 2 ** 32), 1);
      body = Buffer.concat([head, body]);
      if (chance() < 0.1) body = mutate(chance, body, ["\0\0\0\0\0"]);
    }
    if (isGzip || chance() < 0.05)
      headers.push([
        isFramed ? "grpc-encoding" : "content-encoding",
        chance() < 0.9 ? "gzip" : pick(chance, ["br", "identity", "deflate", "", "gzip, gzip"]),
      ]);
    if (chance() < 0.1)
      headers.push([
        isFramed ? "grpc-timeout" : "connect-timeout-ms",
        pick(chance, ["1", "1S", "99999999H", "-1", "x", "99999999999", "0n", "5000"]),
      ]);
    const path = `/${method.parent.typeName}/${chance() < 0.97 ? method.name : pick(chance, ["Nothing", "", "a/b"])}`;
    if (chance() < 0.05)
      return {
        method: "GET",
        path:
          `${path}?connect=v1&encoding=${pick(chance, ["json", "proto", "x"])}` +
          `&message=${encodeURIComponent(plain.toString("base64url").slice(0, 3_000))}` +
          `&base64=${below(chance, 2)}&compression=${pick(chance, ["", "gzip", "br"])}`,
        headers: [],
        body: Buffer.alloc(0),
      };
    return { method: "POST", path, headers, body };
  }

  #headers(): [string, string][] {
    const chance = this.#chance;
    const headers: [string, string][] = [];
    if (chance() < 0.85) headers.push(["authorization", `Bearer ${this.#credential()}`]);
    if (chance() < 0.03)
      headers.push(["authorization", pick(chance, ["Basic YTpi", "Bearer", "bearer  x", "Bearer a b"])]);
    if (chance() < 0.1)
      headers.push([
        pick(chance, [
          "service-branch",
          "service-min-txid",
          "service-consistency",
          "service-durability",
          "service-internal",
          "traceparent",
          "origin",
          "content-length",
          "expect",
          "te",
        ]),
        pick(chance, [
          "main",
          "1",
          "-1",
          "primary",
          "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
          "null",
          "http://localhost",
          "trailers",
          "100-continue",
        ]),
      ]);
    return headers;
  }

  /** Mostly a good token, as a stranger comes no further; else one that nearly is. */
  #credential(): string {
    const chance = this.#chance;
    const token = pick(chance, this.#tokens);
    if (chance() < 0.8) return token;
    const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");
    const [head = "", claims = "", signature = ""] = token.split(".");
    switch (below(chance, 6)) {
      case 0:
        return [
          part({ alg: pick(chance, ["none", "HS256", "EdDSA", 5, null]), kid: pick(chance, ["x", "", null]) }),
          claims,
          signature,
        ].join(".");
      case 1:
        return `${head}.${part({ ns: "acme", scope: "admin", exp: pick(chance, [1e99, -1, "x", null]) })}.${signature}`;
      case 2:
        return (
          mutate(chance, Buffer.from(token), [".", "=", "a".repeat(5_000)])
            .toString("latin1")
            .replace(/[^\x21-\x7e]/g, "_") || "."
        );
      case 3:
        return token.slice(0, below(chance, token.length)) || ".";
      case 4:
        return `${head}.${claims}.${signature}.${signature}`;
      default:
        return pick(chance, ["..", ".", "a.b.c", platformKey, "é".normalize("NFD").charCodeAt(0).toString()]);
    }
  }
}

function encodeJson(type: DescMessage, message: Message): Buffer {
  const text = toJsonString(type, message);
  fromJsonString(type, text);
  return Buffer.from(text);
}

/** The bytes of a request whose head is not what a client would send. */
export function rawBytes({ method, path, headers, body, over }: Input, chance: Chance): Buffer {
  if (over === "raw1") {
    const head =
      `${method} ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n` +
      `${headers.map(([name, value]) => `${name}: ${value}\r\n`).join("")}content-length: ${body.length}\r\n\r\n`;
    return Buffer.concat([mutate(chance, Buffer.from(head, "latin1"), tokensOfHeads), body]);
  }
  const frames: Buffer[] = [Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")];
  for (let count = below(chance, 8); count >= 0; count--) {
    const payload = Buffer.from(Array.from({ length: below(chance, 40) }, () => below(chance, 256)));
    const frame = Buffer.alloc(9 + payload.length);
    frame.writeUIntBE(chance() < 0.9 ? payload.length : below(chance, 2 ** 24), 0, 3);
    frame[3] = below(chance, 12);
    frame[4] = below(chance, 256);
    frame.writeUInt32BE(below(chance, 8), 5);
    payload.copy(frame, 9);
    frames.push(frame);
  }
  return Buffer.concat(frames);
}
