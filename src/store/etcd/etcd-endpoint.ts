/**
 * One endpoint of etcd: its address, the credentials that belong to it, and a connection that is made when it is
 * needed.
 *
 * Always true: no text that this file makes holds a credential. A connection that left a call without an answer is cut
 * and never used again, nor is the object that managed it: after a cut, that of connect-node may overlook the next
 * connection.
 */
import { Code, ConnectError, createClient, type CallOptions, type Client } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Auth, KV, Lease } from "../../../gen/etcd/api/etcdserverpb/rpc_pb.ts";
import { StoreError } from "../../base/faults/errors.ts";
import type { World } from "../../base/world.ts";
import { TimeUp, within } from "../../base/time-limit.ts";
import { CalmConnection } from "./http2-goaway-workaround.ts";

/** One call of the coordination store must have its answer from one endpoint by then. */
const coordCallMs = 2_000;
const coordAnswerBytesMax = 4 * 1_024 * 1_024;

/** Where etcd is, and who we are to it. */
export interface EtcdAddress {
  /** Such as `http://10.0.0.2:2379`. */
  readonly origin: string;
  /** Undefined when etcd is asked without credentials. */
  readonly login: { readonly name: string; readonly password: string } | undefined;
}

/** Reads `host:port`, `http://host:port` or `https://user:password@host:port`. */
export function parseEtcdAddress(text: string): EtcdAddress {
  const address = URL.parse(text.includes("://") ? text : `http://${text}`);
  if (
    !address ||
    !["http:", "https:"].includes(address.protocol) ||
    address.pathname !== "/" ||
    address.search !== "" ||
    address.hash !== ""
  ) {
    // A password may be anywhere in what is not an address.
    throw new StoreError(
      "misconfigured",
      "etcd: an endpoint must be host:port, http://host:port or https://host:port, with user:password@ before " +
        "the host if need be",
    );
  }
  if (address.username === "" && address.password === "") return { origin: address.origin, login: undefined };
  const login = decodeCredentials(address);
  if (!login)
    throw new StoreError(
      "misconfigured",
      `etcd: the endpoint ${address.origin} must give a user and a password, percent-encoded, or neither`,
    );
  return { origin: address.origin, login };
}

function decodeCredentials({ username, password }: URL): EtcdAddress["login"] {
  try {
    return username === "" || password === ""
      ? undefined
      : { name: decodeURIComponent(username), password: decodeURIComponent(password) };
  } catch {
    // Not percent-encoded as an address must be.
    return undefined;
  }
}

/** The services of an endpoint, over one connection. */
interface EtcdServices {
  readonly kv: Client<typeof KV>;
  readonly lease: Client<typeof Lease>;
}

/** Calls one of the services, with the options that are given. */
export type EtcdAsk<T> = (services: EtcdServices, options: CallOptions) => Promise<T>;

class Session {
  readonly connection: CalmConnection;
  readonly #services: EtcdServices;
  readonly #auth: Client<typeof Auth>;
  readonly #login: EtcdAddress["login"];
  /** Undefined also where etcd asks for no credentials. */
  #token: Promise<string | undefined> | undefined;

  constructor({ origin, login }: EtcdAddress) {
    this.connection = new CalmConnection(origin);
    this.#login = login;
    // Answers are small, so there is nothing to compress.
    const transport = createGrpcTransport({
      baseUrl: origin,
      sessionManager: this.connection,
      readMaxBytes: coordAnswerBytesMax,
      acceptCompression: [],
    });
    this.#services = { kv: createClient(KV, transport), lease: createClient(Lease, transport) };
    this.#auth = createClient(Auth, transport);
  }

  /** Asks with a token, if there are credentials; one that etcd does not take is asked for anew, once. */
  async ask<T>(signal: AbortSignal, ask: EtcdAsk<T>): Promise<T> {
    if (!this.#login) return ask(this.#services, buildOptions(signal, undefined));
    const token = this.#tokenOtherThan(undefined, signal);
    try {
      return await ask(this.#services, buildOptions(signal, await token));
    } catch (error) {
      if (!isOfToken(error)) throw error;
      return ask(this.#services, buildOptions(signal, await this.#tokenOtherThan(token, signal)));
    }
  }

  /** The token that all calls share; asked for when it is still the refused one. */
  #tokenOtherThan(refused: Promise<string | undefined> | undefined, signal: AbortSignal): Promise<string | undefined> {
    if (this.#token && this.#token !== refused) return this.#token;
    const asked = this.#authenticate(signal);
    this.#token = asked;
    asked.catch(() => {
      // All waiters hear why; the next call asks again.
      if (this.#token === asked) this.#token = undefined;
    });
    return asked;
  }

  async #authenticate(signal: AbortSignal): Promise<string | undefined> {
    try {
      return (await this.#auth.authenticate(this.#login!, buildOptions(signal, undefined))).token;
    } catch (error) {
      // Authentication is not enabled (yet): then no call needs a token.
      if (error instanceof ConnectError && error.code === Code.FailedPrecondition) return undefined;
      throw error;
    }
  }
}

/** Whether etcd refused a call for its token or the lack of one: it has done nothing then. */
function isOfToken(error: unknown): boolean {
  return (
    error instanceof ConnectError &&
    (error.code === Code.Unauthenticated || /user name is empty|revision of auth store is old/.test(error.rawMessage))
  );
}

function buildOptions(signal: AbortSignal, token: string | undefined): CallOptions {
  // Without a leader etcd says so at once, instead of making every call wait.
  return { signal, headers: { hasleader: "true", ...(token !== undefined && { token }) } };
}

/** There was no answer. */
export class Unanswered extends Error {
  override readonly name = "Unanswered";
  /** Whether etcd may still have carried the call out. */
  readonly wasSent: boolean;

  constructor(wasSent: boolean, message: string) {
    super(message);
    this.wasSent = wasSent;
  }
}

/** One endpoint, asked over one connection at a time. */
export class EtcdEndpoint {
  readonly #address: EtcdAddress;
  readonly #world: Pick<World, "after">;
  #session: Session | undefined;

  /** Nothing is sent yet. */
  constructor(address: EtcdAddress, world: Pick<World, "after">) {
    this.#address = address;
    this.#world = world;
  }

  get origin(): string {
    return this.#address.origin;
  }

  /** Asks once. Throws Unanswered, or the ConnectError that etcd or the connection has answered with. */
  async ask<T>(ask: EtcdAsk<T>): Promise<T> {
    const session = (this.#session ??= new Session(this.#address));
    let wasSent = false;
    try {
      return await within(this.#world, coordCallMs, async (signal) => {
        if ((await session.connection.connect()) === "error")
          throw new Unanswered(false, describeError(session.connection.error()));
        return session.ask(signal, (services, options) => {
          wasSent = true;
          return repeatedIfRefused(() => ask(services, options));
        });
      });
    } catch (error) {
      if (!(error instanceof TimeUp)) throw error;
      this.#cut(session);
      throw new Unanswered(wasSent, error.message);
    }
  }

  /** Cuts the connection; every call that still waits for an answer hears that there is none. */
  close(): void {
    if (this.#session) this.#cut(this.#session);
  }

  #cut(session: Session): void {
    if (this.#session === session) this.#session = undefined;
    session.connection.abort(new ConnectError("the connection was cut", Code.Unavailable));
  }
}

/** Asks again, once, when the server had just ended the connection: it refuses what came after, unseen. */
async function repeatedIfRefused<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (!isUnseen(error)) throw error;
    return ask();
  }
}

/** Whether the server refused the stream, which says that it has not looked at what was asked (RFC 9113, 8.7). */
export function isUnseen(error: unknown): boolean {
  return error instanceof ConnectError && error.rawMessage.includes("REFUSED_STREAM");
}

function describeError(error: unknown): string {
  return error instanceof ConnectError ? error.rawMessage : "no connection";
}
