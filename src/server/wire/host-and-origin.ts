/**
 * What holds of a request before its target is looked at: it says one thing, it was sent to this node by name, and no
 * foreign page sent it.
 *
 * Why: a node without authentication is protected by nothing but that it listens on the machine itself. A browser on
 * that machine reaches it too, for any page: by a name of the page's own that comes to mean 127.0.0.1, or straight
 * across origins. The Host header shows the first, the Origin header the second, and a page can forge neither. Always
 * true: on a node without authentication a foreign name or origin gets no answer but the refusal; with it, a bearer of
 * a token may come from anywhere, and only pages of an allowed origin may read the answer. Must not know: paths,
 * bodies.
 */
import { isIP } from "node:net";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { callHeaderNames } from "../../service/call/call.ts";
import { readHost, send } from "./call-headers.ts";
import type { WireRequest, WireResponse } from "./listener.ts";

export interface HostAndOriginOptions {
  /** Whether calls need a credential. */
  readonly hasAuthentication: boolean;
  /** `{db}.{databaseHostSuffix}` and the suffix itself are names of this node. */
  readonly databaseHostSuffix: string;
  /** Further names of this node, without ports. */
  readonly hostNames: readonly string[];
  /** Origins whose pages may call, as browsers write them; `*` for all. */
  readonly allowedOrigins: readonly string[];
}

const single = [
  "host",
  "authorization",
  "content-type",
  "content-length",
  "content-encoding",
  "grpc-encoding",
  "origin",
  callHeaderNames.internal,
  callHeaderNames.idempotencyKey,
];

/** Methods and headers that pages of an allowed origin may use, and headers that they may read. */
const corsMethods = "GET, PUT, POST, DELETE, PATCH";
const corsHeaders = [
  "Authorization",
  "Content-Type",
  "Connect-Protocol-Version",
  "Connect-Timeout-Ms",
  "Grpc-Timeout",
  "X-Grpc-Web",
  "X-User-Agent",
  "Traceparent",
  "Service-Branch",
  "Service-Min-Txid",
  "Service-Consistency",
  "Service-Durability",
  "Service-At",
  "If-Match",
  "If-None-Match",
  "Idempotency-Key",
  "Mcp-Protocol-Version",
  "Mcp-Session-Id",
  "Mcp-Method",
  "Mcp-Name",
].join(", ");
const corsExposed =
  "Service-Txid, Service-Durable-Txid, Service-Erasure-Id, Service-Expires-At, Service-Subject, ETag, " +
  "Idempotency-Replayed, Retry-After, Mcp-Session-Id, Grpc-Status, " +
  "Grpc-Message, Grpc-Status-Details-Bin";
/** How long a browser remembers what it was allowed, in seconds. */
const corsMaxAgeSecs = 600;

export class HostAndOriginCheck {
  readonly #options: HostAndOriginOptions;
  readonly #hostNames: ReadonlySet<string>;
  readonly #origins: ReadonlySet<string>;
  /** The last host that was found to be one of ours: almost all requests have the same. */
  #knownHost: string | undefined;

  constructor(options: HostAndOriginOptions) {
    this.#options = options;
    const { databaseHostSuffix, hostNames, allowedOrigins } = options;
    this.#hostNames = new Set(["localhost", databaseHostSuffix, ...hostNames].map((name) => name.toLowerCase()));
    this.#origins = new Set(allowedOrigins.map((origin) => origin.toLowerCase()));
  }

  /** Why the request must not come in. */
  findRefusal(request: WireRequest): ServiceError | undefined {
    const repeated = repeatedHeader(request);
    if (repeated !== undefined) return invalid(`${repeated} is given more than once`);
    return this.#findHostRefusal(readHost(request), request.method) ?? this.#findOriginRefusal(request);
  }

  /**
   * Lets pages of an allowed origin read the answer, and answers a browser that asks whether they may call.
   * @returns Whether the request was that question, and is answered.
   */
  admitPage(request: WireRequest, response: WireResponse): boolean {
    const { origin } = request.headers;
    const isQuestion = request.method === "OPTIONS" && request.headers["access-control-request-method"] !== undefined;
    if (typeof origin !== "string" || !this.#allows(origin)) return false;
    response.setHeader("access-control-allow-origin", origin);
    response.setHeader("vary", "Origin");
    if (!isQuestion) {
      response.setHeader("access-control-expose-headers", corsExposed);
      return false;
    }
    const headers = {
      "access-control-allow-methods": corsMethods,
      "access-control-allow-headers": corsHeaders,
      "access-control-max-age": corsMaxAgeSecs,
    };
    send(response, 204, headers, undefined);
    return true;
  }

  /**
   * Why a page must not call what answers to no page but this node's own and those of allowed origins, with
   * authentication too.
   */
  findForeignPage(request: WireRequest): ServiceError | undefined {
    const { origin } = request.headers;
    if (typeof origin !== "string" || this.#allows(origin) || isOwn(origin, request)) return undefined;
    return new ServiceError(
      "forbidden",
      "no page of another origin is answered here: name the page's origin in SERVICE_ALLOWED_ORIGINS",
    );
  }

  #findHostRefusal(host: string | undefined, method: string | undefined): ServiceError | undefined {
    if (host === this.#knownHost && host !== undefined) return undefined;
    // HTTP/1.0 has no Host header, and operators' tools still speak it.
    if (host === undefined)
      return method === "GET" || method === "HEAD" ? undefined : invalid("the Host header is missing");
    if (!isHost(host)) return invalid("the Host header is malformed");
    if (!this.#options.hasAuthentication && !this.#isOurs(normalizeHost(host))) {
      return new ServiceError(
        "forbidden",
        "without authentication this node answers to localhost, to addresses and to SERVICE_DB_HOST_SUFFIX " +
          "only, and the Host header names something else: set SERVICE_AUTH=on, SERVICE_DB_HOST_SUFFIX, or " +
          "SERVICE_ADVERTISE to the node's own name",
      );
    }
    this.#knownHost = host;
    return undefined;
  }

  #isOurs(name: string): boolean {
    if (isIP(name.replace(/^\[|\]$/g, "")) !== 0 || this.#hostNames.has(name)) return true;
    return name.endsWith(".localhost") || name.endsWith(`.${this.#options.databaseHostSuffix.toLowerCase()}`);
  }

  #findOriginRefusal(request: WireRequest): ServiceError | undefined {
    const { origin } = request.headers;
    if (this.#options.hasAuthentication || typeof origin !== "string" || this.#allows(origin) || isOwn(origin, request))
      return undefined;
    return new ServiceError(
      "forbidden",
      "without authentication this node takes no calls from pages of other origins: name the page's origin in " +
        "SERVICE_ALLOWED_ORIGINS, or set SERVICE_AUTH=on",
    );
  }

  #allows(origin: string): boolean {
    return this.#origins.size > 0 && (this.#origins.has("*") || this.#origins.has(origin.toLowerCase()));
  }
}

/** The name of a Host header, without its port and in lower case. */
function normalizeHost(host: string): string {
  return host.replace(/:\d*$/, "").replace(/\.$/, "").toLowerCase();
}

/** Whether a page came from this very node, at the name that it was asked by. */
function isOwn(origin: string, request: WireRequest): boolean {
  const host = readHost(request)?.toLowerCase();
  const scheme = "encrypted" in request.socket && request.socket.encrypted ? "https" : "http";
  return host !== undefined && origin.toLowerCase() === `${scheme}://${host}`;
}

/** One bit for each length that a header's name of `single` has: most others need not be looked at. */
const singleLengths = single.reduce((bits, name) => bits | (1 << name.length), 0);

/** A header that a request may have once and has twice: what reads the one and what reads the other would differ. */
function repeatedHeader({ rawHeaders, headers }: WireRequest): string | undefined {
  let seen = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!;
    if (name.length > 30 || ((singleLengths >> name.length) & 1) === 0) continue;
    const index = single.indexOf(name.toLowerCase());
    if (index < 0) continue;
    if ((seen & (1 << index)) !== 0) return single[index];
    seen |= 1 << index;
  }
  // HTTP/2 says the host as a part of the request line.
  const authority = headers[":authority"];
  return authority !== undefined && headers.host !== undefined && headers.host !== authority ? "host" : undefined;
}

/** Whether a Host header names a host, with or without a port. */
function isHost(host: string): boolean {
  const [name, port] = /^(\[[0-9a-f:.]+\]|[^\s/?#:\\]+)(?::(\d{0,5}))?$/i.exec(host)?.slice(1) ?? [];
  return name !== undefined && Number(port ?? 0) <= 65_535;
}
