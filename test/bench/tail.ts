/** How long one client's ingest takes at worst, with shipping and without, in turn; and what one ship is made of. */
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { limits } from "../../src/base/limits.ts";
import { realWorld } from "../../src/base/world.ts";
import { makeCanonical } from "../../src/format/history/pages.ts";
import { threadedPress } from "../../src/format/core/compression.ts";
import { encodeSegment } from "../../src/format/history/segment.ts";
import { WalReader } from "../../src/sqlite/wal/wal-reader.ts";
import { FileStore } from "../../src/store/file/file-store.ts";
import { putImmutable } from "../../src/store/port/sure-put.ts";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { RawIngests } from "./floors.ts";
import { median, openClient, quantile } from "./raw-client.ts";
import { report, type Row } from "./report.ts";
import { ingestRequest, buildSentences } from "./writes.ts";
import { shipLogBytes } from "../../src/engine/shipping/shipper.ts";

/** So many that the log has been folded in once: from then on it is written over. */
const warmCalls = 2_500;
const rounds = 8;
const callsPerRound = 1_000;
/** After this what a round has written is shipped, and does not meet the next one's. */
const settleMs = 1_500;

const unshipped = join(import.meta.dirname, "unshipped-node.ts");

interface Side {
  readonly what: string;
  readonly node: NodeProcess;
  readonly client: Awaited<ReturnType<typeof openClient>>;
  readonly rounds: number[][];
  step: number;
}

/**
 * One client, two nodes in turn, a thousand calls each; quantiles of all rounds together, and of each pair of rounds.
 */
async function turns(directory: string): Promise<void> {
  const sentences = buildSentences(4_096);
  const sides: Side[] = [];
  for (const [what, entry] of [
    ["shipping to the same disk", undefined],
    ["nothing is shipped", unshipped],
  ] as const) {
    const node = await startNodeProcess(join(directory, `tail-${sides.length}`), {}, entry);
    sides.push({ what, node, client: await openClient("node", node.port), rounds: [], step: 0 });
  }
  const round = async (side: Side, calls: number): Promise<number[]> => {
    const times: number[] = [];
    for (let call = 0; call < calls; call++) {
      const [method, path, body] = ingestRequest("one", sentences[side.step % sentences.length]!, String(side.step++));
      const sentAt = performance.now();
      const { status } = await side.client.send(method, path, body);
      if (status >= 300) throw new Error(`status ${status}`);
      times.push(performance.now() - sentAt);
    }
    await pause(settleMs);
    return times.sort((a, b) => a - b);
  };
  for (const side of sides) await round(side, warmCalls);
  for (let turn = 0; turn < rounds; turn++) {
    // Whoever goes first meets what the pause has let go.
    for (const side of turn % 2 === 0 ? sides : sides.toReversed()) side.rounds.push(await round(side, callsPerRound));
  }
  const rows = sides.map(({ what, rounds: all }): Row => {
    const times = all.flat().sort((a, b) => a - b);
    return {
      what: `ingest, 1 client, ${what}`,
      p50Ms: quantile(times, 0.5),
      p99Ms: quantile(times, 0.99),
      note: `p99.9 ${quantile(times, 0.999).toFixed(1)} ms, longest ${times.at(-1)!.toFixed(1)} ms`,
    };
  });
  for (const share of [0.5, 0.99]) {
    const ratios = sides[0]!.rounds.map(
      (times, turn) => quantile(times, share) / quantile(sides[1]!.rounds[turn]!, share),
    );
    rows[0]!.note += `; p${share * 100} ${median(ratios).toFixed(2)} times that without, median of ${rounds} pairs`;
  }
  for (const { node, client } of sides) {
    client.close();
    await node.end("SIGTERM");
  }
  report(`One client's ingest, two nodes in turn (${rounds} times ${callsPerRound} calls each)`, rows);
}

/** What `act` costs: how long it takes, and how long it holds the thread. */
async function cost<Value>(
  into: { tookMs: number[]; heldMs: number[] },
  act: () => Value | Promise<Value>,
): Promise<Value> {
  const [startedAt, busy] = [performance.now(), performance.eventLoopUtilization()];
  const value = await act();
  into.tookMs.push(performance.now() - startedAt);
  into.heldMs.push(performance.eventLoopUtilization(busy).active);
  return value;
}

/** The steps of one ship, of as much log as makes one due. */
async function steps(directory: string): Promise<void> {
  const own = mkdtempSync(join(directory, "steps-"));
  const world = realWorld();
  const store = await FileStore.open(join(own, "objects"), world);
  const raw = new RawIngests(own, buildSentences(4_096));
  const log = new WalReader(raw.path);
  const names = ["read the log", "make its pages canonical", "encode the segment", "hash it", "put it"] as const;
  const costs = Object.fromEntries(
    names.map((name) => [name, { tookMs: [] as number[], heldMs: [] as number[] }]),
  ) as Record<(typeof names)[number], { tookMs: number[]; heldMs: number[] }>;
  let bytes = 0;
  for (let ship = 0; ship < 24; ship++) {
    for (const start = log.offset; raw.logBytes - start < shipLogBytes;) raw.nextMs();
    const commits = await cost(costs["read the log"], () => log.read(limits.segmentGroupsMax, limits.segmentLogBytes));
    await cost(costs["make its pages canonical"], () => {
      for (const { images } of commits) for (const { page, bytes: image } of images) makeCanonical(image, page);
    });
    const groups = commits.map(({ pages, images }, index) => ({ txid: index + 1, committedAtMs: 1, pages, images }));
    const segment = await cost(costs["encode the segment"], () =>
      encodeSegment(
        { kind: "delta", uuid: "00000000-0000-4000-8000-000000000001", branchId: "main", epoch: 1, groups },
        threadedPress,
      ),
    );
    await cost(costs["hash it"], () => threadedPress.digest(segment));
    await cost(costs["put it"], () => putImmutable(store, `seg/${world.ulid()}`, segment));
    bytes = segment.length;
  }
  raw.close();
  const rows = names.map((name): Row => ({
    what: name,
    p50Ms: median(costs[name].tookMs),
    p99Ms: Math.max(...costs[name].tookMs),
    note: `of it on the thread ${median(costs[name].heldMs).toFixed(2)} ms`,
  }));
  report(
    `What a ship of ${shipLogBytes / 2 ** 20} MiB of log is made of (median and longest of ` +
      `24; ${(bytes / 2 ** 20).toFixed(2)} MiB of segment)`,
    rows,
  );
}

export async function benchTail(directory: string): Promise<void> {
  await steps(directory);
  await turns(directory);
}
