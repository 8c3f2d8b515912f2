/**
 * Nodes that die and lose their disks, on a real server that speaks S3: what was acknowledged as durable is never lost,
 * and whatever else is lost is the end of history and nothing out of its middle.
 *
 * `PALIMPSEST_ROUNDS` sets how often; the first seed is fixed, so that the schedule of a run can be had again.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import {
  countingClients,
  expectSound,
  prepareCounting,
  syncCounting,
  type CountingClient,
} from "../support/counting-clients.ts";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { seeded } from "../support/random.ts";
import { hasS3Server, s3ServerNeed, startS3Server, type S3Server } from "../support/s3-server.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const rounds = Number(process.env["PALIMPSEST_ROUNDS"] ?? 12);
const seed = Number(process.env["PALIMPSEST_SEED"] ?? 1);
/** Databases begin anew after so many rounds, so that one run also sees many beginnings. */
const roundsOfStore = 25;

/** What goes with the process. */
type Loss = "nothing" | "databases" | "everything";

function drawLoss(random: () => number): Loss {
  const draw = random();
  return draw < 0.2 ? "nothing" : draw < 0.6 ? "databases" : "everything";
}

interface Histogram {
  kills: number;
  killsOfStarts: number;
  acknowledged: number;
  lost: number;
  readonly losses: Record<Loss, number>;
}

describe.skipIf(!hasS3Server)(`node loss on a real S3 server${s3ServerNeed}`, () => {
  let server: S3Server;
  beforeAll(async () => {
    server = await startS3Server();
  });
  afterAll(() => server.end());

  async function writeUntilKilled(node: NodeProcess, client: CountingClient): Promise<void> {
    for (;;) {
      const outcome = await client.advance(node.call);
      if (outcome.kind === "no answer") return;
      expect(outcome, client.name).toMatchObject({ kind: "acknowledged" });
    }
  }

  /** A lost transaction id that somebody was given is told from one that never was. */
  async function expectLost(node: NodeProcess, client: CountingClient, txid: number): Promise<void> {
    const read = await node.call(
      "POST",
      `/v1/db/${client.databaseName}/sql`,
      { stmts: [{ q: "SELECT 1" }] },
      { "service-min-txid": String(txid) },
    );
    expect(read.status, `${client.name}: ${read.text}`).toBe(409);
    expect(read.json.code).toBe("conflict");
  }

  async function inspect(
    node: NodeProcess,
    clients: readonly CountingClient[],
    loss: Loss,
    tally: Histogram,
  ): Promise<void> {
    const lost = await Promise.all(
      clients.map(async (client) => {
        if (loss === "nothing") await client.expectAll(node.call);
        return { client, txid: loss === "nothing" ? undefined : await client.expectCut(node.call) };
      }),
    );
    const given = lost.flatMap(({ client, txid }) => (txid === undefined ? [] : [{ client, txid }]));
    tally.lost += given.length;
    for (const { client, txid } of given) await expectLost(node, client, txid);
    // The claim that a write makes goes beyond what was lost, and remembers it.
    for (const { client, txid } of given) {
      const outcome = await client.advance(node.call);
      if (outcome.kind !== "acknowledged") throw new Error(JSON.stringify(outcome));
      expect(outcome.txid, `${client.name}: no transaction id is given twice`).toBeGreaterThan(txid);
      await expectLost(node, client, txid);
    }
    await expectSound(node.call);
  }

  /** So many rounds of one store: start, write, die at some moment, lose something. */
  async function runStore(prefix: string, random: () => number, wanted: number, tally: Histogram): Promise<void> {
    const directory = join(temporaryDirectory(), "data");
    const variables = {
      ...server.variables,
      SERVICE_OBJECT_STORE: server.buildUrl(prefix),
      SERVICE_GC_GRACE_SECS: "1",
      SERVICE_LOG_LEVEL: "warn",
    };
    const start = (): Promise<NodeProcess> => startNodeProcess(directory, variables);
    const clients = countingClients();
    let node = await start();
    onTestFinished(() => node.end("SIGKILL"));
    await prepareCounting(node.call, clients);
    for (let round = 0; round < wanted; round++) {
      const before = clients.reduce((sum, { acknowledged }) => sum + acknowledged, 0);
      const writing = Promise.all(clients.map((client) => writeUntilKilled(node, client)));
      await new Promise((resolve) => setTimeout(resolve, 30 + random() ** 2 * 1_500));
      await node.end("SIGKILL");
      await writing;
      tally.kills++;
      tally.acknowledged += clients.reduce((sum, { acknowledged }) => sum + acknowledged, 0) - before;
      const loss = drawLoss(random);
      tally.losses[loss]++;
      if (loss !== "nothing") rmSync(loss === "everything" ? directory : join(directory, "db"), { recursive: true });
      node = await start();
      if (random() < 0.2) {
        // It dies once more while it brings its databases back.
        const reading = Promise.allSettled(clients.map((client) => client.inspect(node.call)));
        await new Promise((resolve) => setTimeout(resolve, random() * 60));
        await node.end("SIGKILL");
        await reading;
        tally.killsOfStarts++;
        node = await start();
      }
      await inspect(node, clients, loss, tally);
    }
    await syncCounting(node.call);
    await node.end("SIGTERM");
    rmSync(directory, { recursive: true });
    node = await start();
    for (const client of clients) await client.expectAll(node.call);
    await node.end("SIGTERM");
  }

  test(
    `F02, F03, F04, F05, F60: ${rounds} rounds of kill -9 with and without the disk (seed ${seed})`,
    { timeout: 60_000 + rounds * 15_000 },
    async () => {
      const random = seeded(seed);
      const tally: Histogram = {
        kills: 0,
        killsOfStarts: 0,
        acknowledged: 0,
        lost: 0,
        losses: { nothing: 0, databases: 0, everything: 0 },
      };
      for (let store = 0; tally.kills < rounds; store++) {
        await runStore(`loss-${store}/objects`, random, Math.min(roundsOfStore, rounds - tally.kills), tally);
        console.log(JSON.stringify(tally));
      }
      expect(tally.acknowledged, "something was written in each round").toBeGreaterThan(rounds);
      // With fewer rounds chance may spare every standard write.
      if (rounds >= 12) expect(tally.lost, "the loss of a disk shows").toBeGreaterThan(0);
    },
  );
});
