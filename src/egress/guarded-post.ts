/**
 * A POST to an address that a tenant has chosen, from a machine that reaches more than the tenant may.
 *
 * Always true:
 * - https, and http only to a host that the operator has listed
 * - the host's name is resolved once, every address that it has is checked, and the connection goes to one of those: a
 *   name server that answers otherwise the next moment changes nothing
 * - only public addresses are connected to, unless the operator has listed the host
 * - no redirect is followed; of the answer the status and `Retry-After` are kept, and its body is not
 * - no address, name or message of the other side is part of what is told
 *
 * Must not know: what is posted, and what becomes of a failure.
 */
import { lookup } from "node:dns/promises";
import { Agent as HttpAgent, request as httpRequest, type ClientRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest, type RequestOptions } from "node:https";
import { isIP } from "node:net";
import type { World } from "../base/world.ts";
import { isListed } from "./hosts.ts";
import { isPublicAddress } from "./public-addresses.ts";

export const urlBytesMax = 2_048;
/** From the resolution of the name to the end of the answer's headers. */
const postMs = 15_000;
/** Of the answer's body so much is read, so that the connection can be used again; a longer one ends it. */
const answerBytesMax = 64 * 1024;
const answerHeaderBytesMax = 16 * 1024;
const addressesMax = 32;
const retryAfterSecsMax = 7 * 86_400;

/** Why nothing was delivered; `status` is an answer other than 2xx. */
type PostFailure = "status" | "timeout" | "connection" | "tls" | "dns" | "address";

/** What came of it. */
export interface Posted {
  /** Undefined when the other side answered 2xx. */
  readonly failure: PostFailure | undefined;
  /** Of the answer, where there was one. */
  readonly status?: number | undefined;
  /** How long the other side wants to be left alone. */
  readonly retryAfterMs?: number | undefined;
}

/** An address as a name server gives it. */
export interface Resolved {
  readonly address: string;
  readonly family: number;
}

export interface GuardedPostParts {
  readonly world: World;
  /** Hosts that plain HTTP and addresses that are not public are let through to. */
  readonly listed: readonly string[];
  /** Every address of a name; the system's resolver, unless a test has one of its own. */
  readonly resolve?: (host: string) => Promise<readonly Resolved[]>;
}

class Refused extends Error {
  override readonly name = "Refused";
  readonly failure: PostFailure;

  constructor(failure: PostFailure) {
    super(failure);
    this.failure = failure;
  }
}

/** What is wrong with the text as an address to post to, in words for its author; undefined where nothing is. */
export function findUrlFault(text: string, listed: readonly string[]): string | undefined {
  const url = URL.parse(text);
  if (url === null || Buffer.byteLength(text) > urlBytesMax || !/^https?:$/.test(url.protocol))
    return `must be an https:// address of at most ${urlBytesMax} bytes`;
  if (url.username !== "" || url.password !== "") return "must not hold a user name or a password";
  if (url.hash !== "") return "must not have a fragment";
  if (isListed(url.hostname, listed)) return undefined;
  if (url.protocol !== "https:") return "must be https://: plain HTTP is for hosts that the operator has listed";
  const literal = bare(url.hostname);
  if (isIP(literal) !== 0 && !isPublicAddress(literal))
    return "must not lead to an address that is not public, unless the operator has listed it";
  return undefined;
}

/** Posts to one receiver, over a connection that is kept while it is used. */
export class GuardedPost {
  readonly #parts: GuardedPostParts;
  readonly #agents = {
    "http:": new HttpAgent({ keepAlive: true, maxSockets: 1 }),
    "https:": new HttpsAgent({ keepAlive: true, maxSockets: 1 }),
  };

  #isClosed = false;

  constructor(parts: GuardedPostParts) {
    this.#parts = parts;
  }

  /** Ends its connection, and what is under way on it. */
  close(): void {
    this.#isClosed = true;
    for (const agent of Object.values(this.#agents)) agent.destroy();
  }

  /** Posts the JSON; says what came of it, and never throws for what the other side does. */
  async post(address: string, body: string, headers: Readonly<Record<string, string>>): Promise<Posted> {
    const { listed, world } = this.#parts;
    if (findUrlFault(address, listed) !== undefined) return { failure: "address" };
    const controller = new AbortController();
    const cancel = world.after(postMs, () => controller.abort());
    try {
      const response = await this.#send(new URL(address), body, headers, controller.signal);
      // The time is for the answer's body too, which nobody waits for.
      response.on("close", cancel);
      return toPosted(response);
    } catch (error) {
      cancel();
      return { failure: controller.signal.aborted ? "timeout" : toFailure(error) };
    }
  }

  async #send(
    url: URL,
    body: string,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    const isOpen = isListed(url.hostname, this.#parts.listed);
    const options: RequestOptions = {
      method: "POST",
      agent: this.#agents[url.protocol as "http:" | "https:"],
      signal,
      maxHeaderSize: answerHeaderBytesMax,
      headers: { ...headers, "content-type": "application/json", "content-length": Buffer.byteLength(body) },
      lookup: (host, { all }, callback) => {
        this.#resolve(host, isOpen).then(
          // Whoever connects tries all of them in turn where it asks for all.
          (found) => (all === true ? callback(null, [...found]) : callback(null, found[0]!.address, found[0]!.family)),
          (error: Error) => callback(error, ""),
        );
      },
    };
    const send = url.protocol === "https:" ? httpsRequest : httpRequest;
    const first = send(url, options);
    try {
      return await answered(first, body);
    } catch (error) {
      // The other side has closed the connection while nothing was on its way: that says nothing of this request.
      if (!first.reusedSocket || signal.aborted || this.#isClosed) throw error;
      return await answered(send(url, options), body);
    }
  }

  /** The addresses of a host; all of them must be ones that may be reached. */
  async #resolve(host: string, isOpen: boolean): Promise<readonly Resolved[]> {
    const resolve = this.#parts.resolve ?? ((name: string) => lookup(name, { all: true }));
    const found = (await resolve(bare(host)).catch(() => [])).slice(0, addressesMax);
    if (found.length === 0) throw new Refused("dns");
    if (!isOpen && !found.every(({ address }) => isPublicAddress(address))) throw new Refused("address");
    return found;
  }
}

function bare(host: string): string {
  return host.replace(/^\[|\]$/g, "");
}

/** The answer, once its headers have come; its body is read no further than is useful. */
function answered(request: ClientRequest, body: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.on("error", reject);
    request.on("response", (response) => {
      let bytes = 0;
      response.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > answerBytesMax) response.destroy();
      });
      // What breaks after the status changes nothing.
      response.on("error", () => response.destroy());
      resolve(response);
    });
    request.end(body);
  });
}

function toPosted({ statusCode: status = 0, headers }: IncomingMessage): Posted {
  const secs = Number(headers["retry-after"] ?? "");
  const retryAfterMs = Number.isInteger(secs) && secs > 0 ? Math.min(secs, retryAfterSecsMax) * 1_000 : undefined;
  return { failure: status >= 200 && status < 300 ? undefined : "status", status, retryAfterMs };
}

/** What a failed connection is told as: its own words may name addresses. */
function toFailure(error: unknown): PostFailure {
  if (error instanceof Refused) return error.failure;
  const code = String((error as { code?: unknown }).code ?? "");
  return /^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO|DEPTH_ZERO|SELF_SIGNED|EPROTO)/.test(code) ? "tls" : "connection";
}
