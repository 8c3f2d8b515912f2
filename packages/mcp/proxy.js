/**
 * Messages of a client to the node and back, of either revision of the protocol.
 *
 * Always true: each request has one answer, the node's or one that says why there is none; what a client cancels is
 * given up at the node too. What the node must be told in headers is read off the messages themselves. Must not know:
 * lines, what a tool does.
 */
import { readMessages } from "./answers.js";

/** Requests that wait for their answers; further ones are refused. */
const requestsMax = 256;

const versionKey = "io.modelcontextprotocol/protocolVersion";

/** What JSON-RPC says of a body that cannot be read, and of what went wrong at a server. */
const codes = { unreadable: -32700, failed: -32603 };

/**
 * @typedef {object} Message
 * @property {string | number | null} [id]
 * @property {string} [method]
 * @property {Record<string, any>} [params]
 * @property {Record<string, any>} [result]
 */

/**
 * @typedef {object} ProxyOptions
 * @property {URL} url
 * @property {string | undefined} token
 * @property {Promise<void>} ready Resolves when the node answers; rejects with why it does not.
 * @property {(message: object) => void} send
 */

export class Proxy {
  /** @type {ProxyOptions} */
  #options;
  /** @type {Map<string | number, AbortController>} */
  #running = new Map();
  /** @type {Set<Promise<void>>} */
  #work = new Set();
  /** Of a client of 2025-11-25, which says both once. @type {string | undefined} */
  #version;
  /** @type {string | undefined} */
  #session;

  /** @param {ProxyOptions} options */
  constructor(options) {
    this.#options = options;
    // Each message tells of it by itself.
    options.ready.catch(() => {});
  }

  /**
   * Takes one line of the client's.
   *
   * @param {string} line
   */
  take(line) {
    /** @type {Message} */
    let message;
    try {
      message = JSON.parse(line);
    } catch {
      return this.refuseLine("a line must be one message of JSON");
    }
    if (typeof message !== "object" || message === null || Array.isArray(message))
      return this.refuseLine("a line must be one message");
    // At a node a request is given up by closing its connection.
    if (message.method === "notifications/cancelled") return this.#running.get(message.params?.["requestId"])?.abort();
    const { id } = message;
    const isRequest = id !== undefined && id !== null && message.method !== undefined;
    if (isRequest && this.#work.size >= requestsMax)
      return this.#refuse(id, "too many requests wait for their answers");
    const work = this.#carry(message, line, isRequest ? id : undefined).finally(() => this.#work.delete(work));
    this.#work.add(work);
  }

  /** @param {string} why */
  refuseLine(why) {
    this.#options.send({ jsonrpc: "2.0", id: null, error: { code: codes.unreadable, message: why } });
  }

  /** Resolves when every request is answered. */
  async settled() {
    await Promise.all(this.#work);
  }

  /**
   * Carries a message to the node, and what the node answers to the client.
   *
   * @param {Message} message
   * @param {string} line
   * @param {string | number | undefined} id Of a request.
   */
  async #carry(message, line, id) {
    const controller = new AbortController();
    if (id !== undefined) this.#running.set(id, controller);
    let isAnswered = false;
    try {
      await this.#options.ready;
      const { url } = this.#options;
      const headers = this.#headersOf(message);
      const response = await fetch(url, { method: "POST", headers, body: line, signal: controller.signal });
      if (message.method === "initialize") this.#session = response.headers.get("mcp-session-id") ?? undefined;
      for await (const answer of readMessages(response)) {
        const told = /** @type {Message & { code?: unknown, error?: unknown }} */ (answer);
        // The node refuses what is no message of the protocol with its own envelope.
        if (!("jsonrpc" in told)) throw new Error(`${String(told.code)}: ${String(told.error)}`);
        if (message.method === "initialize") this.#version = told.result?.["protocolVersion"];
        if (id === undefined) continue;
        isAnswered ||= told.id === id || told.id === null;
        this.#options.send(told.id === null ? { ...told, id } : told);
      }
      if (!isAnswered && id !== undefined) throw new Error(`the node answered ${response.status} and nothing else`);
    } catch (error) {
      if (id !== undefined && !isAnswered && !controller.signal.aborted)
        this.#refuse(id, describe(error, this.#options));
    } finally {
      if (id !== undefined) this.#running.delete(id);
    }
  }

  /** @param {Message} message */
  #headersOf({ method, params }) {
    const { token } = this.#options;
    /** @type {Record<string, string>} */
    const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
    if (token !== undefined) headers["authorization"] = `Bearer ${token}`;
    const told = params?.["_meta"]?.[versionKey];
    if (typeof told === "string") {
      headers["mcp-protocol-version"] = told;
      if (method !== undefined) headers["mcp-method"] = method;
      const name = params?.["name"] ?? params?.["uri"];
      if (typeof name === "string" && named.has(method ?? "")) headers["mcp-name"] = asHeader(name);
      return headers;
    }
    if (this.#version !== undefined) headers["mcp-protocol-version"] = this.#version;
    if (this.#session !== undefined) headers["mcp-session-id"] = this.#session;
    return headers;
  }

  /**
   * @param {string | number} id
   * @param {string} why
   */
  #refuse(id, why) {
    this.#options.send({ jsonrpc: "2.0", id, error: { code: codes.failed, message: why } });
  }
}

/** The methods whose object is told in a header. */
const named = new Set(["tools/call", "prompts/get", "resources/read"]);

/**
 * A text as a header can carry it, as the revision 2026-07-28 says.
 *
 * @param {string} text
 */
function asHeader(text) {
  if (/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !text.startsWith("=?base64?")) return text;
  return `=?base64?${Buffer.from(text).toString("base64")}?=`;
}

/**
 * @param {unknown} error
 * @param {ProxyOptions} options
 */
function describe(error, { url }) {
  if (error instanceof TypeError) return `no node answers at ${url.origin}: start one, or call with --start`;
  return error instanceof Error ? error.message : String(error);
}
