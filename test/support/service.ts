/** A node in the test's own process, put together as in production and reached through its sockets only. */
import { mkdtempSync, rmSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DescService } from "@bufbuild/protobuf";
import { type Client, createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { silentLog } from "../../src/base/log.ts";
import { startNode } from "../../src/server/node/compose.ts";
import { type Config, readConfig } from "../../src/server/config/config.ts";
import { callRest } from "./node-process.ts";
import { temporaryDirectory } from "./temporary.ts";
import { grpcWire, restWire, type Reply, type Wire, type WireName } from "./wires.ts";

export type RestAnswer = Awaited<ReturnType<typeof callRest>>;

export interface Service {
  /** `http://127.0.0.1:port`. */
  readonly address: string;
  readonly port: number;
  /** The node's data directory. */
  readonly directory: string;
  /** Calls REST; the body is sent as JSON unless it is a string or bytes. */
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<RestAnswer>;
  wire(name: WireName): Wire;
  /** A gRPC client of any service of the node. */
  client<Desc extends DescService>(service: Desc): Client<Desc>;
  /** Creates a database with a name of its own and gives the name. */
  database(): Promise<string>;
  /** The address of a profile that does not exist yet. */
  profile(): { readonly ns: string; readonly profile: string };
  close(): Promise<void>;
}

/** A node's configuration: a free port, no limit on control calls, and the variables of the test. */
export function buildConfig(directory: string, variables: Record<string, string>): Config {
  const environment = {
    SERVICE_DATA_DIR: directory,
    SERVICE_LISTEN: "127.0.0.1:0",
    SERVICE_CONTROL_RATE: "100000",
    ...variables,
  };
  const reading = readConfig(environment, { pid: 1, cores: 2 });
  if (!("config" in reading)) throw new Error(reading.problems.join("; "));
  return reading.config;
}

/** Starts a node on the directory, or on one of its own that goes when the node is closed. */
export async function startService(variables: Record<string, string> = {}, given?: string): Promise<Service> {
  const directory = given ?? mkdtempSync(join(tmpdir(), "palimpsest-service-"));
  const node = await startNode(buildConfig(directory, variables), silentLog);
  const { address } = node;
  const port = Number(new URL(address).port);
  const wires = { rest: restWire(address), grpc: grpcWire(address) };
  const sessionManager = new Http2SessionManager(address);
  const transport = createGrpcTransport({ baseUrl: address, sessionManager });
  let names = 0;
  return {
    address,
    port,
    directory,
    call: (method, path, body, headers) => callRest(port, method, path, body, headers),
    wire: (name) => wires[name],
    client: (service) => createClient(service, transport),
    async database() {
      const name = `db-${++names}`;
      expect((await callRest(port, "POST", "/v1/databases", { name })).status).toBe(201);
      return name;
    },
    profile: () => ({ ns: "acme", profile: `p${++names}` }),
    async close() {
      for (const wire of Object.values(wires)) wire.close();
      sessionManager.abort();
      await node.close();
      if (given === undefined) rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** A node for all tests of a file: started before them, closed after them. */
export function useService(variables: Record<string, string> = {}): () => Service {
  let service: Service | undefined;
  beforeAll(async () => {
    service = await startService(variables);
  });
  afterAll(() => service?.close());
  return () => {
    if (!service) throw new Error("the node is not running outside a test");
    return service;
  };
}

/** A node of one test, on a directory that outlives it. */
export interface LosableService {
  /** The node as it runs now. */
  readonly now: Service;
  /** Stops the node, takes every local file of its databases away, and starts it again on the same object storage. */
  loseDisk(): Promise<void>;
}

/** Starts a node that can lose its disk; it ends with the test. */
export async function startLosable(variables: Record<string, string> = {}): Promise<LosableService> {
  const directory = temporaryDirectory();
  let now = await startService(variables, directory);
  onTestFinished(() => now.close());
  return {
    get now() {
      return now;
    },
    async loseDisk() {
      await now.close();
      rmSync(join(directory, "db"), { recursive: true });
      now = await startService(variables, directory);
    },
  };
}

/** The reply of a call that must succeed. */
export async function ok(reply: Promise<Reply>): Promise<Reply> {
  const settled = await reply;
  expect(settled.code, settled.message).toBe("ok");
  return settled;
}

/** Calls REST with headers that fetch keeps to itself, such as Host. */
export function callWithHost(
  port: number,
  host: string,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<{ status: number; headers: Record<string, string | string[] | undefined>; json: any }> {
  return new Promise((resolve, reject) => {
    const type: Record<string, string> = body === undefined ? {} : { "content-type": "application/json" };
    const outgoing = httpRequest(
      { host: "127.0.0.1", port, method, path, headers: { host, ...type, ...headers } },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () => {
          const text = Buffer.concat(chunks).toString();
          resolve({
            status: response.statusCode!,
            headers: response.headers,
            json: text === "" ? undefined : JSON.parse(text),
          });
        });
      },
    );
    outgoing.on("error", reject);
    outgoing.end(body === undefined ? undefined : JSON.stringify(body));
  });
}
