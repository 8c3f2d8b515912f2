/** Streams of changes over each wire, so that a test's body is the same for all. */
import { setTimeout as pause } from "node:timers/promises";
import { toJson } from "@bufbuild/protobuf";
import { ConnectError, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { ChangeSchema, ChangeService, type WatchResponse } from "../../gen/palimpsest/v1/change_pb.ts";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";

/** What a stream is asked. */
export interface Watched {
  readonly db: string;
  readonly after?: number;
}

/** An event, whatever wire it came by. */
export interface WatchedEvent {
  readonly kind: string;
  readonly txid: number;
  readonly afterTxid: number;
  readonly changes: readonly Readonly<Record<string, unknown>>[];
  readonly isPartial: boolean;
}

/** How a stream was refused, or ended. */
export class Refused extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Events until `stop` is aborted; throws Refused. */
export type Watch = (
  address: string,
  asked: Watched,
  headers: Record<string, string>,
  stop: AbortSignal,
) => AsyncGenerator<WatchedEvent>;

async function* overRest(
  address: string,
  { db, after }: Watched,
  headers: Record<string, string>,
  stop: AbortSignal,
): AsyncGenerator<WatchedEvent> {
  const query = after === undefined ? "" : `?after=${after}`;
  const response = await fetch(`${address}/v1/db/${encodeURIComponent(db)}/changes${query}`, {
    headers: { accept: "text/event-stream", ...headers },
    signal: stop,
  });
  if (response.status !== 200) {
    const { code, error } = (await response.json()) as { code: string; error: string };
    throw new Refused(code, error);
  }
  let text = "";
  const decoder = new TextDecoder();
  for await (const bytes of response.body!) {
    text += decoder.decode(bytes as Uint8Array, { stream: true });
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      yield readEvent(text.slice(0, end));
      text = text.slice(end + 2);
    }
  }
}

function readEvent(block: string): WatchedEvent {
  const fields = new Map(block.split("\n").map((line) => line.split(/: (.*)/s, 2) as [string, string]));
  const data = JSON.parse(fields.get("data")!) as Record<string, any>;
  if (fields.get("event") === "error") throw new Refused(data["code"] as string, data["error"] as string);
  if (fields.get("id") !== String(data["txid"]) || fields.get("event") !== data["kind"])
    throw new Error(`an event is ${block}`);
  const { kind, txid, after_txid: afterTxid, changes, partial: isPartial } = data;
  return { kind, txid, afterTxid, changes, isPartial } as WatchedEvent;
}

function overRpc(open: (address: string, interceptors: Interceptor[]) => Transport): Watch {
  return async function* (address, { db, after }, headers, stop) {
    const client = createClient(ChangeService, open(address, []));
    const request = { db, ...(after !== undefined && { after: BigInt(after) }) };
    try {
      for await (const event of client.watch(request, { headers, signal: stop })) yield fromMessage(event);
    } catch (error) {
      if (!(error instanceof ConnectError)) throw error;
      if (stop.aborted) return;
      const code = error.findDetails(ErrorInfoSchema)[0]?.reason;
      throw new Refused(code ?? `no code: ${error.message}`, error.rawMessage);
    }
  };
}

function fromMessage({ kind, txid, afterTxid, changes, partial }: WatchResponse): WatchedEvent {
  const asRest = changes.map((change) => {
    const json = toJson(ChangeSchema, change, { useProtoFieldName: true }) as Record<string, unknown>;
    return { ...json, ...(json["seq"] !== undefined && { seq: Number(json["seq"]) }) };
  });
  return { kind, txid: Number(txid), afterTxid: Number(afterTxid), changes: asRest, isPartial: partial };
}

/** By the name of the wire. */
export const watches: Readonly<Record<string, Watch>> = {
  rest: overRest,
  grpc: overRpc((baseUrl) => createGrpcTransport({ baseUrl })),
  "grpc-web": overRpc((baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: "1.1" })),
  connect: overRpc((baseUrl) => createConnectTransport({ baseUrl, httpVersion: "1.1" })),
  "connect binary": overRpc((baseUrl) => createConnectTransport({ baseUrl, httpVersion: "2", useBinaryFormat: true })),
};

/** A stream that is read on in the background, until the test has enough of it. */
export class Watching {
  readonly events: WatchedEvent[] = [];
  readonly #stop = new AbortController();
  #waiting: (() => void)[] = [];
  /** What it ended with. */
  ended: unknown;
  isOver = false;

  constructor(watch: Watch, address: string, asked: Watched, headers: Record<string, string> = {}) {
    void this.#run(watch(address, asked, headers, this.#stop.signal));
  }

  async #run(events: AsyncGenerator<WatchedEvent>): Promise<void> {
    try {
      for await (const event of events) {
        this.events.push(event);
        this.#wake();
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) this.ended = error;
    }
    this.isOver = true;
    this.#wake();
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  /** Transactions, without positions. */
  get transactions(): readonly WatchedEvent[] {
    return this.events.filter(({ kind }) => kind !== "position");
  }

  /** Waits until it holds of the stream; fails when the stream is over and it does not. */
  async until(holds: (watching: Watching) => boolean): Promise<void> {
    while (!holds(this)) {
      if (this.isOver) throw new Error("the stream is over", { cause: this.ended });
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  /** Waits for its end, and gives what it ended with. */
  async end(): Promise<unknown> {
    while (!this.isOver) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return this.ended;
  }

  stop(): void {
    this.#stop.abort();
  }
}

/** A reader that comes again behind its last event whenever its stream ends, by another wire, at the next address. */
export class SteadyReader {
  /** Transactions, from the branch's beginning on. */
  told: WatchedEvent[] = [];
  /** What it had been told each time that it was answered `conflict`, and began anew. */
  readonly lost: (readonly WatchedEvent[])[] = [];
  readonly #addresses: readonly string[];
  readonly #db: string;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  constructor(addresses: readonly string[], db: string) {
    this.#addresses = addresses;
    this.#db = db;
    this.#running = this.#run();
  }

  async #run(): Promise<void> {
    const wires = Object.values(watches);
    for (let round = 0; !this.#stop.signal.aborted; round++) {
      const asked = { db: this.#db, after: this.told.at(-1)?.txid ?? 0 };
      const address = this.#addresses[round % this.#addresses.length]!;
      try {
        for await (const event of wires[round % wires.length]!(address, asked, {}, this.#stop.signal))
          if (event.kind !== "position") this.told.push(event);
      } catch (error) {
        if ((error as Partial<Refused>).code === "conflict") {
          this.lost.push(this.told);
          this.told = [];
        }
      }
      await pause(20);
    }
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }
}
