/**
 * The door of models: what comes to /mcp, from its headers to its answer.
 *
 * Always true: who asks is known, and that the credential is for the profile, before a byte of the body is read; a body
 * is one JSON-RPC message within the cap; no page of a foreign origin is answered, with authentication or without it.
 * The protocol itself is the library's (mcp/protocol), which is loaded by the first visit. Must not know: tools.
 */
import { decodeUtf8 } from "../../base/bytes.ts";
import { ServiceError } from "../../base/faults/errors.ts";
import type { Log } from "../../base/log.ts";
import type { World } from "../../base/world.ts";
import { decide } from "../../control/access/access-rules.ts";
import { anonymous, type Identity } from "../../control/access/identity.ts";
import { profileDatabaseName } from "../../format/core/names.ts";
import { ClientGone } from "../../service/call/call.ts";
import { unauthorized } from "../../control/access/credentials.ts";
import { type BodyRoom, type Discards, readBody } from "../wire/body.ts";
import { goneSignal, send, sendRefusal } from "../wire/call-headers.ts";
import type { Callers } from "../wire/callers.ts";
import type { HostAndOriginCheck } from "../wire/host-and-origin.ts";
import type { RequestHandler, WireRequest, WireResponse } from "../wire/listener.ts";
import { refusalFor } from "../wire/refusal.ts";
import { isMcpPath, type ProfileAddress, readAddress, readToolSet } from "./mcp-address.ts";
import type { OpenProtocol, Protocol } from "./protocol.ts";
import { readClientName, sessionFor, sessionHeader } from "./client-name.ts";
import { ServiceCalls, type ServiceCallsOptions } from "./service-calls.ts";
import type { Visit } from "./visit.ts";
import { sendWebResponse, toWebRequest } from "./web-messages.ts";

/** One message: a memory with a content of 1 MiB, and what quoting adds to it. Parsed at once: 20 ms. */
const mcpBodyBytesMax = 2 * 1024 * 1024;

export interface McpDoorOptions extends ServiceCallsOptions {
  /** Tells who makes a request; absent where authentication is off. */
  readonly callers?: Callers | undefined;
  readonly gate: HostAndOriginCheck;
  readonly room: BodyRoom;
  readonly discards: Discards;
  readonly dataBodyBytesMax: number;
  /** Aborted when the node leaves: streams end. */
  readonly leaving: AbortSignal;
  readonly world: World;
  readonly log: Log;
  /** Loads the protocol with what it offers; the node's own tools unless a test brings others. */
  readonly openProtocol?: (() => Promise<OpenProtocol>) | undefined;
}

/** The handler of what comes to /mcp, and of everything else `next`. */
export function createMcpDoor(options: McpDoorOptions, next: RequestHandler): RequestHandler {
  const door = new McpDoor(options);
  return (request, response) => {
    const url = request.url ?? "";
    const mark = url.indexOf("?");
    const path = mark < 0 ? url : url.slice(0, mark);
    if (!isMcpPath(path)) return next(request, response);
    void door.serve({ request, response, path, query: mark < 0 ? "" : url.slice(mark + 1) });
  };
}

/** A request that came in. */
interface Guest {
  readonly request: WireRequest;
  readonly response: WireResponse;
  readonly path: string;
  readonly query: string;
}

const loadOwnProtocol = async (): Promise<OpenProtocol> => (await import("./protocol.ts")).openOwnProtocol;

class McpDoor {
  readonly #options: McpDoorOptions;
  readonly #calls: ServiceCalls;
  #protocol: Promise<Protocol> | undefined;

  constructor(options: McpDoorOptions) {
    this.#options = options;
    this.#calls = new ServiceCalls(options);
  }

  /** Answers one request. Never rejects. */
  async serve(guest: Guest): Promise<void> {
    const { request, response } = guest;
    const { world, log, requestMetrics, discards } = this.#options;
    try {
      await this.#answer(guest);
    } catch (error) {
      if (error instanceof ClientGone) return;
      const refusal = refusalFor(error, "mcp", world, log);
      requestMetrics.strayed(refusal);
      sendRefusal(refusal, response);
      discards.take(request);
    }
  }

  async #answer({ request, response, path, query }: Guest): Promise<void> {
    const { callers, gate, room, dataBodyBytesMax } = this.#options;
    if (request.method !== "POST")
      throw new ServiceError("invalid_request", "this path takes POST: it has no sessions and no streams of its own", {
        httpStatus: 405,
        headers: { Allow: "POST" },
      });
    const foreign = gate.findForeignPage(request);
    if (foreign) throw foreign;
    const caller = callers ? await callers.of(request) : anonymous;
    const address = readAddress(path, caller);
    const toolSet = readToolSet(query);
    if (callers) refuseUncovered(caller, address);
    requireJson(request);
    using held = await readBody(request, Math.min(mcpBodyBytesMax, dataBodyBytesMax), room);
    const message = parseMessage(held.bytes);
    if ("refusal" in message) return sendProtocolError(response, message);
    const visit: Visit = {
      address,
      toolSet,
      clientName: readClientName(request),
      call: (method, fields, headers) => this.#calls.call({ request, response }, method, fields, headers),
    };
    const protocol = await this.#open();
    const answer = await protocol.answer(toWebRequest(request, goneSignal(response)), message.body, visit);
    const session = answer.ok ? sessionFor(message.body) : undefined;
    await sendWebResponse(answer, response, session === undefined ? {} : { [sessionHeader]: session });
  }

  #open(): Promise<Protocol> {
    const { openProtocol = loadOwnProtocol, leaving, log } = this.#options;
    this.#protocol ??= openProtocol().then((open) => open({ leaving, log }));
    return this.#protocol;
  }
}

/** The protocol's own refusal of a body that is no message of it. */
interface Unreadable {
  readonly refusal: string;
  readonly code: number;
}

function parseMessage(bytes: Uint8Array): Unreadable | { readonly body: unknown } {
  const text = decodeUtf8(bytes);
  if (text === undefined) return { code: -32700, refusal: "the body is not UTF-8" };
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    // The parser's own words quote the body.
    return { code: -32700, refusal: "the body is not JSON" };
  }
  if (Array.isArray(body))
    return { code: -32600, refusal: "the body must be one message: there are no batches in this protocol any more" };
  if (typeof body !== "object" || body === null)
    return { code: -32600, refusal: "the body must be a JSON-RPC message" };
  return { body };
}

function sendProtocolError(response: WireResponse, { refusal, code }: Unreadable): void {
  const body = JSON.stringify({ jsonrpc: "2.0", id: null, error: { code, message: refusal } });
  send(response, 400, { "content-type": "application/json" }, body);
}

/** Whoever may not read the profile is told so, whatever is asked: the tools' own calls are judged one by one. */
function refuseUncovered(identity: Identity, { ns, profile }: ProfileAddress): void {
  const decision = decide({
    rule: { credential: "database", scope: "read" },
    identity,
    target: { kind: "database", name: profileDatabaseName(ns, profile) },
  });
  if (decision.kind === "unauthorized") throw unauthorized("missing");
  if (decision.kind === "forbidden") throw new ServiceError("forbidden", decision.message);
}

/** A page's form can send every other type across sites. */
function requireJson(request: WireRequest): void {
  const encoding = request.headers["content-encoding"];
  if (encoding !== undefined && encoding !== "identity")
    throw new ServiceError("invalid_request", "content-encoding must be identity", { httpStatus: 415 });
  if (!/^application\/json\s*(?:;|$)/i.test(request.headers["content-type"] ?? ""))
    throw new ServiceError("invalid_request", "content-type must be application/json", { httpStatus: 415 });
}
