/** The wires without a service behind them: real sockets, the real doors, and a dispatch of the test's choice. */
import { create, type Message } from "@bufbuild/protobuf";
import { onTestFinished } from "vitest";
import type { Log } from "../../src/base/log.ts";
import { realWorld } from "../../src/base/world.ts";
import { createDoors, type Doors, type DoorsOptions } from "../../src/server/node/request-handler.ts";
import { createListener, type Listener, type ListenerOptions } from "../../src/server/wire/listener.ts";
import { type Call, type CallResult, type Dispatch, Unread } from "../../src/service/call/call.ts";

export interface EchoNode {
  readonly doors: Doors;
  readonly listener: Listener;
  readonly port: number;
  readonly address: string;
  /** Every call that reached the dispatch. */
  readonly calls: Call[];
  /** What went to the log as an error. */
  readonly faults: unknown[];
}

export interface EchoOptions {
  readonly dispatch?: Dispatch;
  readonly doors?: Partial<DoorsOptions>;
  readonly listener?: Partial<ListenerOptions>;
}

/** An empty answer of the right type. */
export function emptyAnswer(call: Call, fields: object = {}): CallResult {
  return { message: create(call.endpoint.method.output, fields as never) as Message, headers: [["Service-Txid", "7"]] };
}

/** Does with a call what the pipeline does before anything else: asks who makes it, then reads the rest of it. */
export async function received(call: Call): Promise<void> {
  // Asked once, as there; what it gave stays there for the test.
  Object.defineProperty(call, "caller", { value: await call.caller });
  try {
    if (call.rest) call.message = await call.rest.receive();
  } catch (error) {
    throw error instanceof Unread ? error.refusal : error;
  }
}

/** Opens a port that is closed when the test ends. */
export async function openEcho(options: EchoOptions = {}): Promise<EchoNode> {
  const world = realWorld();
  const calls: Call[] = [];
  const faults: unknown[] = [];
  const log: Log = { info() {}, warn() {}, error: (_message, error) => void faults.push(error) };
  const answer = options.dispatch ?? ((call: Call) => Promise.resolve(emptyAnswer(call)));
  const doors = createDoors({
    dispatch: async (call) => {
      await received(call);
      calls.push(call);
      return answer(call);
    },
    isReady: () => ({ ready: true, checks: { store: "ok" } }),
    world,
    log,
    dataBodyBytesMax: 4 * 1024 * 1024,
    databaseHostSuffix: "localhost",
    ...options.doors,
  });
  const listener = createListener({
    host: "127.0.0.1",
    port: 0,
    onRequest: doors,
    world,
    log,
    ...options.listener,
    times: { drainMs: 500, ...options.listener?.times },
  });
  const { port } = await listener.listen();
  onTestFinished(() => listener.close());
  return { doors, listener, port, address: `http://127.0.0.1:${port}`, calls, faults };
}
