/**
 * Inputs with structure against the wires: heads, frames, envelopes, compressed bodies, JSON, protobuf, credentials.
 *
 * The doors are the real ones on real sockets, with real credentials; behind them stands what the pipeline does before
 * a handler. Always true of a run: every answer is one of ours and never an internal error, nothing goes to the log as
 * a fault, no step holds the thread for long, and nothing is held when it is over. `npm run fuzz -- [inputs] [seed]`
 * runs as long as one likes; a finding names the seed and the number of its input.
 */
import { generateKeyPairSync } from "node:crypto";
import * as http from "node:http";
import * as http2 from "node:http2";
import * as net from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { create } from "@bufbuild/protobuf";
import { realWorld } from "../../src/base/world.ts";
import { Credentials } from "../../src/control/access/credentials.ts";
import { buildSigningKey } from "../../src/control/access/signing-key.ts";
import { Tokens } from "../../src/control/access/tokens.ts";
import { BodyRoom } from "../../src/server/wire/body.ts";
import { createDoors } from "../../src/server/node/request-handler.ts";
import { createListener, type Listener } from "../../src/server/wire/listener.ts";
import { type Call, Unread } from "../../src/service/call/call.ts";
import { platformKey } from "../support/credentials.ts";
import { seeded } from "../support/random.ts";
import { type Chance, type Input, Generator, rawBytes } from "./wire-inputs.ts";

/** What a run came to. */
export interface FuzzReport {
  readonly inputs: number;
  /** Answers by status, `closed` for connections that ended without one. */
  readonly answers: Readonly<Record<string, number>>;
  readonly findings: readonly string[];
  /** The longest that the thread was held, in milliseconds of its own time. */
  readonly longestMs: number;
  /** Heap that the second half of the run left behind, in MiB. */
  readonly leftMiB: number;
  /** Bytes of bodies that are still counted. */
  readonly heldBytes: number;
}

const atOnce = 16;
const answerMs = 30_000;
const findingsMax = 20;

/** The doors on a socket, with credentials, and with what stands before every handler. */
class Target {
  readonly faults: unknown[] = [];
  readonly room = new BodyRoom();
  readonly #listener: Listener;
  readonly tokens: readonly string[];
  port = 0;

  constructor(listener: (target: Target) => Listener, tokens: readonly string[]) {
    this.tokens = tokens;
    this.#listener = listener(this);
  }

  static async open(): Promise<Target> {
    const world = realWorld();
    const signingKey = await buildSigningKey(generateKeyPairSync("ed25519").privateKey);
    const minter = new Tokens(signingKey, world);
    const credentials = new Credentials({ tokens: minter, signingKey, platformKey, world });
    const tokens = [
      await minter.mint({ namespace: "acme" }, "admin", 86_400),
      await minter.mint({ namespace: "acme" }, "read", 86_400),
      platformKey,
    ];
    const target = new Target((self) => {
      const log = {
        info() {},
        warn() {},
        error: (message: string, error?: unknown) =>
          void self.faults.push(`${message}: ${error instanceof Error ? error.stack : String(error)}`),
      };
      const identify = (credential: string | undefined) =>
        credentials.known(credential) ?? credentials.identify(credential);
      const dispatch = async (call: Call) => {
        await call.caller;
        try {
          if (call.rest) call.message = await call.rest.receive();
        } catch (error) {
          throw error instanceof Unread ? error.refusal : error;
        }
        return { message: create(call.endpoint.method.output), headers: [] };
      };
      const doors = createDoors({
        dispatch,
        identify,
        room: self.room,
        isReady: () => ({ ready: true, checks: {} }),
        world,
        log,
        dataBodyBytesMax: 4 << 20,
        databaseHostSuffix: "localhost",
      });
      return createListener({
        host: "127.0.0.1",
        port: 0,
        onRequest: doors,
        world,
        log,
        times: { preambleTimeoutMs: 500, headersTimeoutMs: 500, requestReceiveMs: 2_000, drainMs: 100 },
      });
    }, tokens);
    target.port = (await target.#listener.listen()).port;
    return target;
  }

  close(): Promise<void> {
    return this.#listener.close();
  }
}

/** Sends inputs and says what came of each: a status, or `closed`. */
class Sender {
  readonly #port: number;
  readonly #agent = new http.Agent({ keepAlive: true, maxSockets: atOnce });
  #session: http2.ClientHttp2Session | undefined;

  constructor(port: number) {
    this.#port = port;
  }

  async send(input: Input, chance: Chance): Promise<{ readonly status: string; readonly body: string }> {
    const answered =
      input.over === "http1"
        ? this.#http1(input)
        : input.over === "http2"
          ? this.#http2(input)
          : this.#raw(rawBytes(input, chance));
    const late = new Promise<never>((_, reject) => setTimeout(() => reject(new Error("no answer")), answerMs).unref());
    return Promise.race([answered, late]);
  }

  close(): void {
    this.#agent.destroy();
    this.#session?.destroy();
  }

  #http1({ method, path, headers, body }: Input): Promise<{ status: string; body: string }> {
    return new Promise((resolve) => {
      const gone = (): void => resolve({ status: "closed", body: "" });
      try {
        const flat = [
          ["host", "localhost"],
          ...headers.filter(([name]) => name !== "content-length" && name !== "expect"),
          ...(method === "GET" || method === "HEAD" ? [] : [["content-length", String(body.length)]]),
        ].flat();
        const outgoing = http.request(
          { host: "127.0.0.1", port: this.#port, method, path, headers: flat as never, agent: this.#agent },
          (response) => {
            let text = "";
            response.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
            response.on("end", () =>
              resolve({ status: formatStatus(response.statusCode!, response.headers), body: text }),
            );
            response.on("error", gone);
          },
        );
        outgoing.on("error", gone);
        outgoing.end(method === "GET" || method === "HEAD" ? undefined : body);
      } catch {
        // The client would not send it; a raw one may.
        gone();
      }
    });
  }

  #http2({ method, path, headers, body }: Input): Promise<{ status: string; body: string }> {
    return new Promise((resolve) => {
      const gone = (): void => resolve({ status: "closed", body: "" });
      try {
        if (this.#session === undefined || this.#session.destroyed || this.#session.closed) {
          this.#session = http2.connect(`http://127.0.0.1:${this.#port}`, { maxSessionMemory: 100 });
          this.#session.on("error", () => {});
        }
        const many: Record<string, string | string[]> = {};
        for (const [name, value] of headers)
          if (name !== "te" && name !== "expect" && name !== "content-length") many[name] = value;
        const stream = this.#session.request({ ":method": method, ":path": path, ...many });
        let status = "closed";
        let text = "";
        stream.on(
          "response",
          (given) => (status = formatStatus(Number(given[":status"]), given as http.IncomingHttpHeaders)),
        );
        stream.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
        stream.on("error", () => {});
        stream.on("close", () => resolve({ status, body: text }));
        stream.end(body);
      } catch {
        // As above.
        gone();
      }
    });
  }

  #raw(bytes: Buffer): Promise<{ status: string; body: string }> {
    return new Promise((resolve) => {
      const socket = net.connect(this.#port, "127.0.0.1");
      let text = "";
      socket.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
      socket.on("error", () => {});
      socket.on("close", () =>
        resolve({
          status: /^(?:HTTP\/1\.1 100 Continue\r\n\r\n)*HTTP\/1\.1 ([2-5]\d\d)/.exec(text)?.[1] ?? "closed",
          body: text,
        }),
      );
      socket.end(bytes);
    });
  }
}

function formatStatus(status: number, headers: http.IncomingHttpHeaders): string {
  const grpc = headers["grpc-status"];
  return grpc === undefined ? String(status) : `grpc ${String(grpc)}`;
}

const expected = new Set([
  "closed",
  "200",
  "201",
  "202",
  "204",
  "400",
  "401",
  "403",
  "404",
  "405",
  "408",
  "413",
  "415",
  "429",
  "431",
  "501",
  "503",
  "417",
]);

/** What is wrong with an answer, whatever was asked. */
function findComplaint(status: string, body: string): string | undefined {
  if (status.startsWith("grpc "))
    return ["0", "1", "3", "4", "5", "7", "8", "12", "14", "16"].includes(status.slice(5))
      ? undefined
      : `answered ${status}`;
  if (!expected.has(status)) return `answered ${status}: ${body.slice(0, 200)}`;
  return body.includes('"code":"internal"') || /grpc-status: (2|13|15)\b/.test(body)
    ? `answered an internal error: ${body.slice(0, 200)}`
    : undefined;
}

function collectedHeapMiB(): number {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  return process.memoryUsage().heapUsed / (1 << 20);
}

function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

/** Runs so many inputs of the seed. */
export async function fuzzWires(
  inputs: number,
  seed: number,
  tell: (done: number) => void = () => {},
): Promise<FuzzReport> {
  const target = await Target.open();
  const sender = new Sender(target.port);
  const answers: Record<string, number> = {};
  const findings: string[] = [];
  let longestMs = 0;
  let heapMiB = 0;
  let isOver = false;
  let fromMs = threadMs();
  const beat = (): void => {
    const nowMs = threadMs();
    longestMs = Math.max(longestMs, nowMs - fromMs);
    fromMs = nowMs;
    if (!isOver) setImmediate(beat);
  };
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < inputs && findings.length < findingsMax) {
      const number = next++;
      // Each input has a seed of its own, so that one can be had again without those before it.
      const chance = seeded(seed * 1_000_003 + number);
      const input = new Generator(chance, target.tokens).next();
      const { status, body } = await sender
        .send(input, chance)
        .catch((error: unknown) => ({ status: String(error), body: "" }));
      answers[status] = (answers[status] ?? 0) + 1;
      const complaint = findComplaint(status, body);
      if (complaint !== undefined)
        findings.push(
          `seed ${seed}, input ${number} (${input.over} ${input.method} ${input.path.slice(0, 120)}): ${complaint}`,
        );
      if (number === Math.floor(inputs / 2)) heapMiB = collectedHeapMiB();
      // What collecting takes is not the wires' doing.
      if (number === Math.floor(inputs / 2)) fromMs = threadMs();
      if (number % 10_000 === 9_999) tell(number + 1);
    }
  };
  setImmediate(beat);
  await Promise.all(Array.from({ length: atOnce }, work));
  isOver = true;
  sender.close();
  await target.close();
  for (const fault of target.faults.slice(0, findingsMax)) findings.push(`a fault of ours: ${String(fault)}`);
  return {
    inputs: next,
    answers,
    findings,
    longestMs,
    leftMiB: collectedHeapMiB() - heapMiB,
    heldBytes: target.room.bytes,
  };
}

if (process.argv[1] === import.meta.filename) {
  const [inputs = 1_000_000, seed = Date.now() % 1_000_000] = process.argv.slice(2).map(Number);
  console.log(`${inputs} inputs of seed ${seed}`);
  const report = await fuzzWires(inputs, seed, (done) => console.log(`${done} of ${inputs}`));
  console.log(report);
  process.exitCode =
    report.findings.length === 0 && report.heldBytes === 0 && report.longestMs < 200 && report.leftMiB < 64 ? 0 : 1;
}
