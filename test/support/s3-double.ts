/**
 * A small server that speaks as much S3 as the store adapter needs, and goes wrong when it is told to: what a real
 * server cannot be made to do. It keeps no versions and knows no uploads in parts. ETags are made of the bytes alone,
 * as Amazon's are.
 */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { onTestFinished, vi } from "vitest";
import type { S3Location } from "../../src/store/s3/s3-store.ts";

/** What goes wrong with one request. */
export type Fault =
  /** It is carried out, and the connection is cut instead of an answer. */
  | "drop answer"
  /** Half of the body is sent and the connection is cut. */
  | "cut body"
  /** There is never an answer; `land` carries the request out. */
  | { readonly kind: "silence"; readonly held: (land: () => void) => void }
  /** It is not carried out. */
  | { readonly status: number; readonly code: string };

interface S3Request {
  readonly method: string;
  /** The key with its prefix; empty for a listing. */
  readonly key: string;
  readonly query: URLSearchParams;
  /** Of the access key that signed it. */
  readonly credential: string;
}

/** How a double differs from a sound server. */
export interface S3DoubleOptions {
  readonly ignoresConditions?: boolean;
  readonly hidesETags?: boolean;
}

export interface S3Double {
  readonly location: S3Location;
  /** Every request that came, in order. */
  readonly requests: S3Request[];
  /** How far the server's clock, which its answers tell, is ahead. */
  clockAheadMs: number;
  /** Asked for every request. */
  fault: (request: S3Request) => Fault | undefined;
  text(key: string): string | undefined;
}

interface HeldObject {
  readonly bytes: Buffer;
  readonly etag: string;
  readonly modified: Date;
}

interface Answer {
  readonly status: number;
  readonly headers?: Record<string, string>;
  readonly body?: Buffer | string;
}

const errorAnswer = (status: number, code: string): Answer => ({
  status,
  body: `<?xml version="1.0"?><Error><Code>${code}</Code><Message>${code}</Message></Error>`,
});

/** Starts a double that ends with the test. */
export async function startS3Double(options: S3DoubleOptions = {}): Promise<S3Double> {
  vi.stubEnv("AWS_ACCESS_KEY_ID", "first");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "secret");
  onTestFinished(() => {
    vi.unstubAllEnvs();
  });
  const objects = new Map<string, HeldObject>();
  const server = createServer((incoming, response) => void serve(incoming, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const double: S3Double = {
    location: { kind: "s3", bucket: "bucket", prefix: "some/prefix", endpoint, plainHttp: true },
    requests: [],
    clockAheadMs: 0,
    fault: () => undefined,
    text: (key) => objects.get(`some/prefix/${key}`)?.bytes.toString(),
  };

  async function serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(incoming);
    const url = new URL(incoming.url!, endpoint);
    const key = url.pathname.split("/").slice(2).join("/");
    const credential = /Credential=([^/]+)/.exec(incoming.headers.authorization ?? "")?.[1] ?? "";
    const request = { method: incoming.method!, key, query: url.searchParams, credential };
    double.requests.push(request);
    const fault = double.fault(request);
    const isUnknown = ["versioning", "versions", "uploads"].some((feature) => url.searchParams.has(feature));
    const carryOut = (): Answer =>
      isUnknown
        ? errorAnswer(501, "NotImplemented")
        : key === ""
          ? listing(url.searchParams)
          : onObject(incoming, key, body);
    if (typeof fault === "object" && "kind" in fault) return fault.held(() => void carryOut());
    const answer = typeof fault === "object" ? errorAnswer(fault.status, fault.code) : carryOut();
    if (fault === "drop answer") return void response.destroy();
    const sent = Buffer.from(answer.body ?? "");
    response.writeHead(answer.status, {
      "content-length": sent.length,
      date: new Date(Date.now() + double.clockAheadMs).toUTCString(),
      ...answer.headers,
    });
    if (fault !== "cut body") return void response.end(sent);
    response.write(sent.subarray(0, sent.length / 2), () => response.destroy());
  }

  function onObject({ method, headers }: IncomingMessage, key: string, body: Buffer): Answer {
    const held = objects.get(key);
    if (method === "PUT") {
      if (!options.ignoresConditions) {
        if (headers["if-none-match"] === "*" && held) return errorAnswer(412, "PreconditionFailed");
        if (headers["if-match"] !== undefined && !held) return errorAnswer(404, "NoSuchKey");
        if (headers["if-match"] !== undefined && headers["if-match"] !== held?.etag)
          return errorAnswer(412, "PreconditionFailed");
      }
      const etag = `"${createHash("md5").update(body).digest("hex")}"`;
      objects.set(key, { bytes: body, etag, modified: new Date() });
      return { status: 200, headers: options.hidesETags ? {} : { etag } };
    }
    if (method === "DELETE") {
      objects.delete(key);
      return { status: 204 };
    }
    if (!held) return errorAnswer(404, "NoSuchKey");
    if (headers["if-none-match"] === held.etag) return { status: 304, headers: { etag: held.etag } };
    return {
      status: 200,
      headers: { etag: held.etag, "last-modified": held.modified.toUTCString() },
      body: held.bytes,
    };
  }

  function listing(query: URLSearchParams): Answer {
    const keys = [...objects.keys()]
      .filter((key) => key.startsWith(query.get("prefix")!) && key > (query.get("start-after") ?? ""))
      .sort();
    const page = keys.slice(0, Number(query.get("max-keys")));
    const rows = page.map((key) => {
      const { bytes, modified, etag } = objects.get(key)!;
      const facts = `<Size>${bytes.length}</Size><LastModified>${modified.toISOString()}</LastModified>`;
      return `<Contents><Key>${key}</Key>${facts}<ETag>${etag}</ETag></Contents>`;
    });
    return {
      status: 200,
      body:
        `<?xml version="1.0"?><ListBucketResult><IsTruncated>${keys.length > page.length}</IsTruncated>` +
        `${rows.join("")}</ListBucketResult>`,
    };
  }

  return double;
}
