/**
 * A node in a process of its own that is watched while somebody is hard on it: how long `/health` takes, how much it
 * holds.
 */
import { connect as connectHttp2, constants, type ClientHttp2Session, type OutgoingHttpHeaders } from "node:http2";
import { readFileSync } from "node:fs";
import * as http from "node:http";
import * as https from "node:https";
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { onTestFinished } from "vitest";
import { startNodeProcess, type NodeProcess } from "./node-process.ts";
import { temporaryDirectory } from "./temporary.ts";

/** What was seen while something went on. */
export interface Strain<Value> {
  readonly value: Value;
  /**
   * The longest that `/health` took, in milliseconds, less the longest that an idle server took, as if the node had a
   * processor to itself.
   */
  readonly healthMs: number;
  /** What the process came to hold more than before, at most, in MiB. */
  readonly grownMiB: number;
}

export interface WeighedNode {
  readonly node: NodeProcess;
  readonly address: string;
  /** Watches the node while `act` goes on. */
  under<Value>(act: () => Promise<Value>): Promise<Strain<Value>>;
}

const probeEveryMs = 10;

/** Starts one; it ends with the test. */
export async function weighedNode(variables: Record<string, string>): Promise<WeighedNode> {
  const node = await startNodeProcess(temporaryDirectory(), {
    SERVICE_CONTROL_RATE: "100000",
    SERVICE_LOG_LEVEL: "warn",
    ...variables,
  });
  onTestFinished(() => node.end("SIGKILL"));
  const residentMiB = (): number =>
    Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${node.child.pid!}/status`, "utf8"))![1]) / 1024;
  /** How long the node's main thread has run, and has waited for a processor, in milliseconds. */
  const scheduled = (): readonly [number, number] => {
    const [ran, waited] = readFileSync(`/proc/${node.child.pid!}/task/${node.child.pid!}/schedstat`, "utf8")
      .split(" ")
      .map(Number) as [number, number];
    return [ran / 1e6, waited / 1e6];
  };
  // In a thread of its own, so that what weighs on this one does not count.
  const prober = new Worker(probes, { eval: true, workerData: { port: node.port, everyMs: probeEveryMs } });
  onTestFinished(() => void prober.terminate());
  const tell = async (word: string): Promise<number> => {
    prober.postMessage(word);
    const [healthMs] = (await once(prober, "message")) as [number];
    return healthMs;
  };
  return {
    node,
    address: `http://127.0.0.1:${node.port}`,
    async under(act) {
      await tell("begin");
      await new Promise((resolve) => setTimeout(resolve, 300));
      await tell("begin");
      const before = residentMiB();
      const [ranBefore, waitedBefore] = scheduled();
      let most = before;
      const watch = setInterval(() => (most = Math.max(most, residentMiB())), probeEveryMs);
      try {
        const value = await act();
        const healthMs = await tell("end");
        const [ran, waited] = scheduled();
        // What the node's thread does in a millisecond takes it longer by what it must wait for a processor.
        const slowness = (ran - ranBefore + waited - waitedBefore) / Math.max(ran - ranBefore, 1);
        return { value, healthMs: healthMs / slowness, grownMiB: most - before };
      } finally {
        clearInterval(watch);
      }
    },
  };
}

/** Below this `/health` answers as if nothing were going on. */
export const calmMs = 200;

/** The calmest of a few: what others do on the machine passes, and what the node does it does each time. */
export async function calm<Value>(under: WeighedNode["under"], act: () => Promise<Value>): Promise<Strain<Value>> {
  let found = await under(act);
  for (let again = 0; again < 4 && found.healthMs >= calmMs; again++) {
    const next = await under(act);
    if (next.healthMs < found.healthMs) found = next;
  }
  return found;
}

/**
 * Asks for `/health` again and again, and says how much longer the longest took since "begin" than the longest that a
 * server took which does nothing else: what a busy machine does to both is not the node's doing.
 */
const probes = `
const { parentPort, workerData, Worker, isMainThread } = require("node:worker_threads");
const http = require("node:http");
function track(port) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const track = { longest: 0, from: performance.now() };
  (function probe() {
    track.from = performance.now();
    const next = () => {
      track.longest = Math.max(track.longest, performance.now() - track.from);
      setTimeout(probe, workerData.everyMs);
    };
    const options = { host: "127.0.0.1", port, path: "/health", agent };
    http.get(options, (response) => response.resume().on("end", next)).on("error", next);
  })();
  return track;
}
const idleCode =
  'const s = require("node:http").createServer((_, r) => r.end("ok"));' +
  's.listen(0, "127.0.0.1", () => require("node:worker_threads").parentPort.postMessage(s.address().port))';
const idle = new Worker(idleCode, { eval: true });
idle.once("message", (port) => {
  const tracks = [track(workerData.port), track(port)];
  // One that has not come back yet counts by how long it has taken so far.
  const longest = ({ longest, from }) => Math.max(longest, performance.now() - from - workerData.everyMs);
  parentPort.on("message", (word) => {
    if (word === "begin") for (const track of tracks) { track.longest = 0; track.from = performance.now(); }
    parentPort.postMessage(longest(tracks[0]) - longest(tracks[1]));
  });
});
`;

/** An answer, whatever HTTP version it came by. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
  readonly trailers: Readonly<Record<string, string | string[] | undefined>>;
  /** From the first byte sent to the answer's head. */
  readonly tookMs: number;
}

/**
 * Sends a request by HTTP/1.1 on a connection of its own, under TLS where that is asked for, and gives the answer,
 * whether or not the body was taken.
 */
export function sendRaw(
  to: number | { readonly tlsPort: number },
  path: string,
  headers: http.OutgoingHttpHeaders,
  body: Uint8Array,
  method = "POST",
): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const from = performance.now();
    const options = {
      host: "127.0.0.1",
      path,
      method,
      headers: { "content-length": body.length, ...headers },
      agent: false as const,
    };
    const send = (answered: (response: http.IncomingMessage) => void): http.ClientRequest =>
      typeof to === "number"
        ? http.request({ ...options, port: to }, answered)
        : https.request({ ...options, port: to.tlsPort, rejectUnauthorized: false }, answered);
    const outgoing = send((response) => {
      const tookMs = performance.now() - from;
      const chunks: Buffer[] = [];
      const settle = (): void => {
        resolve({
          status: response.statusCode!,
          headers: response.headers,
          body: Buffer.concat(chunks),
          trailers: response.trailers,
          tookMs,
        });
        outgoing.destroy();
      };
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", settle);
      response.on("error", settle);
    });
    let isAnswered = false;
    outgoing.on("response", () => (isAnswered = true));
    // A body that is not wanted may be cut off once the answer is there.
    outgoing.on("error", (error) => isAnswered || reject(error));
    outgoing.end(body);
  });
}

/** Opens an HTTP/2 session that ends with the test. */
export function openSession(address: string): ClientHttp2Session {
  // What is about to be sent counts as the session's memory.
  const session = connectHttp2(address, { rejectUnauthorized: false, maxSessionMemory: 1_000 });
  session.on("error", () => {});
  onTestFinished(() => session.destroy());
  return session;
}

/** Sends a request by HTTP/2. */
export function sendHttp2(
  session: ClientHttp2Session,
  path: string,
  headers: OutgoingHttpHeaders,
  body: Uint8Array,
): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const from = performance.now();
    const stream = session.request({ ":method": "POST", ":path": path, te: "trailers", ...headers });
    const chunks: Buffer[] = [];
    let head: Record<string, string | string[] | undefined> | undefined;
    let tookMs = 0;
    let trailers: Record<string, string | string[] | undefined> = {};
    stream.on("response", (given) => {
      head = given as Record<string, string | string[] | undefined>;
      tookMs = performance.now() - from;
    });
    stream.on("trailers", (given) => (trailers = given as Record<string, string | string[] | undefined>));
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    const settle = (): void => {
      if (head)
        resolve({ status: Number(head[":status"]), headers: head, body: Buffer.concat(chunks), trailers, tookMs });
      else reject(new Error(`no answer: the stream ended with code ${stream.rstCode}`));
      stream.close(constants.NGHTTP2_NO_ERROR);
    };
    stream.on("end", settle);
    stream.on("error", settle);
    stream.on("close", settle);
    stream.end(body);
  });
}

/** A message in the envelope of gRPC. */
export function envelope(message: Uint8Array, flags = 0): Buffer {
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}
