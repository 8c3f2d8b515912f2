/**
 * A real S3 server that goes away and comes back: what a node goes on doing meanwhile, where it stops, and that nothing
 * is lost. Bounds that are minutes in earnest are seconds here.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import {
  countingClients,
  expectSound,
  prepareCounting,
  syncCounting,
  type CountingClient,
  type Outcome,
} from "../support/counting-clients.ts";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { hasS3Server, s3ServerNeed, startS3Server, type S3Server } from "../support/s3-server.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const requestTimeoutMs = 3_000;
/** What an answer may take beyond its time on a busy machine. */
const slackMs = 1_500;
/** More than a node remembers by itself which databases there are. */
const outageMs = 12_000;

/** Every try of one client, with when it was sent. */
interface Tried {
  readonly client: CountingClient;
  readonly sentMs: number;
  readonly outcome: Outcome;
}

/** One look at what a client has written: undefined when it was answered and right. */
interface Read {
  readonly sentMs: number;
  readonly tookMs: number;
  readonly failure: string | undefined;
}

describe.skipIf(!hasS3Server)(`an outage of a real S3 server${s3ServerNeed}`, { timeout: 120_000 }, () => {
  let server: S3Server;
  let stores = 0;
  beforeAll(async () => {
    server = await startS3Server();
  });
  afterAll(() => server.end());

  function starter(given: Record<string, string>): { readonly directory: string; start(): Promise<NodeProcess> } {
    const directory = join(temporaryDirectory(), "data");
    const variables = {
      ...server.variables,
      SERVICE_OBJECT_STORE: server.buildUrl(`outage-${stores++}`),
      SERVICE_REQUEST_TIMEOUT: String(requestTimeoutMs / 1_000),
      ...given,
    };
    let startedBefore = 0;
    return {
      directory,
      async start() {
        const node = await startNodeProcess(directory, variables);
        onTestFinished(() => node.end("SIGKILL"));
        // The first calls load what the node needs for them, and open its databases.
        if (startedBefore++ > 0) await syncCounting(node.call);
        return node;
      },
    };
  }

  /** Writes and reads without a pause until `stop` is called. */
  function load(
    node: NodeProcess,
    clients: readonly CountingClient[],
  ): { readonly tried: Tried[]; readonly reads: Read[]; stop(): Promise<void> } {
    const tried: Tried[] = [];
    const reads: Read[] = [];
    let stopped = false;
    const writing = clients.map(async (client) => {
      while (!stopped) {
        const sentMs = performance.now();
        const outcome = await client.advance(node.call);
        tried.push({ client, sentMs, outcome });
        await pause(outcome.kind === "acknowledged" ? 20 : 100);
      }
    });
    const reading = clients.map(async (client) => {
      while (!stopped) {
        const sentMs = performance.now();
        const failure = await client.inspect(node.call).then(
          () => undefined,
          (error: unknown) => String(error),
        );
        reads.push({ sentMs, tookMs: performance.now() - sentMs, failure });
        await pause(150);
      }
    });
    return {
      tried,
      reads,
      async stop() {
        stopped = true;
        await Promise.all([...writing, ...reading]);
      },
    };
  }

  const expectEverything = async (node: NodeProcess, clients: readonly CountingClient[]): Promise<void> => {
    for (const client of clients) await client.expectAll(node.call);
    await expectSound(node.call);
  };

  /** Durable tries are refused in time and never acknowledged. */
  function expectNoneDurable(tried: readonly Tried[]): void {
    const durable = tried.filter(({ client }) => client.durable);
    expect(durable.length).toBeGreaterThan(0);
    for (const { client, outcome } of durable) {
      if (outcome.kind !== "refused") throw new Error(`${client.name}: ${JSON.stringify(outcome)}`);
      expect([408, 429, 503], outcome.text).toContain(outcome.status);
      expect(outcome.tookMs).toBeLessThan(requestTimeoutMs + slackMs);
    }
  }

  for (const [what, bound, halt, resume] of [
    [
      "F33: a store that is gone, and writes that are too old",
      { SERVICE_UNSHIPPED_MAX_SECS: "4" },
      () => server.stop(),
      () => server.start(),
    ],
    [
      "F33: a store that is silent, and too many bytes",
      { SERVICE_UNSHIPPED_MAX_BYTES: String(512 * 1024) },
      async () => server.freeze(),
      async () => server.awaken(),
    ],
  ] as const) {
    test(`${what}: standard writes go on to the bound, durable ones are refused in time, all drains`, async () => {
      // Reads go on.
      const { directory, start } = starter(bound);
      let node = await start();
      const clients = countingClients();
      await prepareCounting(node.call, clients);
      const { tried, reads, stop } = load(node, clients);
      await pause(1_000);
      await halt();
      const goneMs = performance.now();
      await pause(outageMs);
      const backMs = performance.now();
      await resume();
      await pause(1_000);
      await stop();

      const during = tried.filter(({ sentMs }) => sentMs > goneMs && sentMs < backMs - requestTimeoutMs - slackMs);
      expectNoneDurable(during);
      // What was under way when the store went is among them: later ones may be shed at once.
      expect(
        tried.some(({ client, outcome }) => client.durable && outcome.kind === "refused" && outcome.status === 408),
      ).toBe(true);
      const standard = during.filter(({ client }) => !client.durable);
      const refused = standard.filter(({ outcome }) => outcome.kind !== "acknowledged");
      expect(standard.length - refused.length, "standard writes go on").toBeGreaterThan(20);
      expect(refused.length, "up to the bound").toBeGreaterThan(0);
      for (const { outcome } of refused) {
        if (outcome.kind !== "refused") throw new Error("no answer");
        expect(outcome.status, outcome.text).toBe(429);
        expect(Number(outcome.retryAfter)).toBeGreaterThanOrEqual(1);
      }
      const readsDuring = reads.filter(({ sentMs }) => sentMs > goneMs && sentMs < backMs);
      expect(readsDuring.flatMap(({ failure }) => failure ?? [])).toEqual([]);
      expect(readsDuring.length, "reads go on").toBeGreaterThan(clients.length * 10);
      expect(Math.max(...readsDuring.map(({ tookMs }) => tookMs)), "and wait for nothing").toBeLessThan(slackMs);

      await syncCounting(node.call);
      for (const client of clients)
        expect(await client.advance(node.call), client.name).toMatchObject({ kind: "acknowledged" });
      await syncCounting(node.call);
      await expectEverything(node, clients);
      await node.end("SIGKILL");
      rmSync(directory, { recursive: true });
      node = await start();
      await expectEverything(node, clients);
    });
  }

  test("F02: a node killed in an outage ships at its next start what it had acknowledged", async () => {
    const { directory, start } = starter({});
    let node = await start();
    const clients = countingClients();
    await prepareCounting(node.call, clients);
    const { tried, stop } = load(node, clients);
    await pause(500);
    await server.stop();
    const goneMs = performance.now();
    await pause(1_500);
    await node.end("SIGKILL");
    await stop();
    expect(
      tried.filter(({ sentMs, outcome }) => sentMs > goneMs && outcome.kind === "acknowledged").length,
    ).toBeGreaterThan(20);
    await server.start();
    node = await start();
    await expectEverything(node, clients);
    await node.end("SIGKILL");
    rmSync(directory, { recursive: true });
    node = await start();
    await expectEverything(node, clients);
  });
});
