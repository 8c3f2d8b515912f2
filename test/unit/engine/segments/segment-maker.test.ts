/** Segments made from a log: the same whoever makes them, in memory that does not grow with the transaction. */
import { closeSync, existsSync, openSync, readFileSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import type { Worker } from "node:worker_threads";
import { expect, onTestFinished, test } from "vitest";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { inlineMaker } from "../../../../src/engine/segments/inline-maker.ts";
import { fetchUnread } from "../../../../src/engine/segments/pool-objects.ts";
import type { FetchedObject, SegmentMaker, SegmentOrder } from "../../../../src/engine/segments/segment-maker.ts";
import { segmentWorker } from "../../../../src/engine/threads/thread-spawner.ts";
import { ThreadedMaker, segmentLogBytesHere } from "../../../../src/engine/segments/threaded-maker.ts";
import { makeCanonical, pageBytes } from "../../../../src/format/history/pages.ts";
import { inlinePress, threadedPress } from "../../../../src/format/core/compression.ts";
import { stretchImages } from "../../../../src/format/history/frame-order.ts";
import { decodeSegments, framePages, readSegmentIndexes } from "../../../../src/format/history/segment.ts";
import { computeSha256 } from "../../../../src/format/core/seal.ts";
import { stateRootPage, writeState } from "../../../../src/model/schema.ts";
import type { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { runAlone } from "../../../../src/sqlite/group.ts";
import { WalChanged, WalReader } from "../../../../src/sqlite/wal/wal-reader.ts";
import { BranchModel } from "../../../support/branch-model.ts";
import { seeded } from "../../../support/random.ts";
import { logPath, newDatabase, openConnection, put } from "../../../support/wal-log.ts";

const MiB = 2 ** 20;
const uuid = "00000000-0000-4000-8000-000000000001";
const writerEpoch = new Uint8Array(16).fill(7);

function setup() {
  const { path } = newDatabase();
  const connection = openConnection(path);
  onTestFinished(() => connection.close());
  let txid = 0;
  const commit = (act: (connection: Connection) => void): void =>
    void runAlone(
      connection,
      () => act(connection),
      () => writeState(connection, { txid: ++txid, committedAtMs: txid * 10, writerEpochId: writerEpoch }),
    );
  const buildOrder = (given: Partial<SegmentOrder> = {}): SegmentOrder => ({
    databasePath: path,
    from: { place: undefined, expected: "same" },
    logBytes: Infinity,
    firstTxid: 1,
    groupsMax: txid,
    logBytesMax: Infinity,
    logBytesMost: Infinity,
    statePage: stateRootPage(connection),
    uuid,
    branchId: "main",
    epoch: 3,
    before: undefined,
    isTail: false,
    ...given,
  });
  return { path, connection, commit, buildOrder };
}

function threaded(spawn = segmentWorker): ThreadedMaker {
  const maker = new ThreadedMaker(inlinePress, spawn);
  onTestFinished(() => maker.close());
  return maker;
}

/** Bytes that nothing presses, without a copy of them on this side. */
const noise = (connection: Connection, key: number, bytes: number): void =>
  void connection.run(`INSERT OR REPLACE INTO t (k, v) VALUES (?, randomblob(${bytes}))`, key);

test.each([1, 2])(
  "here and on a thread the same segments come of a log, one behind the other (v%s)",
  async (version) => {
    const { path, commit, buildOrder } = setup();
    for (let n = 0; n < 30; n++) commit((connection) => put(connection, n % 7, Buffer.alloc(3_000 * (n % 5) + 10, n)));
    commit((connection) => noise(connection, 100, 3 * MiB));
    const reader = new WalReader(path);
    const logged = reader.read(1_000, Infinity);
    reader.close();
    const makers: SegmentMaker[] = [inlineMaker(inlinePress), inlineMaker(threadedPress), threaded()];
    const runs = await Promise.all(
      makers.map(async (maker) => {
        const all = [];
        for (let next = buildOrder({ groupsMax: 10, version }); next.firstTxid <= 31;) {
          const made = (await maker.make(next))!;
          all.push(made);
          next = buildOrder({ groupsMax: 10, version, from: made.end, firstTxid: made.segment.lastTxid + 1 });
        }
        return all;
      }),
    );
    expect(runs[2]!.map(({ segment, sha256 }) => [computeSha256(segment.bytes), sha256])).toEqual(
      runs[0]!.map(({ sha256 }) => [sha256, sha256]),
    );
    for (const run of runs)
      expect(run.map(({ segment }) => [segment.firstTxid, segment.lastTxid, segment.lastAtMs])).toEqual([
        [1, 10, 100],
        [11, 20, 200],
        [21, 30, 300],
        [31, 31, 310],
      ]);
    for (const { images } of logged) for (const { page, bytes } of images) makeCanonical(bytes, page);
    for (const run of runs) {
      const groups = (await Promise.all(run.map(({ segment }) => decodeSegments(segment.bytes, inlinePress))))
        .flat()
        .flatMap((segment) => segment.groups);
      const hashed = (images: readonly { readonly page: number; readonly bytes: Uint8Array }[]) =>
        images.map(({ page, bytes }) => [page, computeSha256(bytes)]);
      expect(groups.map(({ images }) => hashed(images))).toEqual(logged.map(({ images }) => hashed(images)));
    }
    expect(
      runs[2]!.every(
        ({ writerEpochs, pages }, at) =>
          Buffer.compare(writerEpochs[0]!.id, writerEpoch) === 0 &&
          writerEpochs[0]!.lastTxid === runs[2]![at]!.segment.lastTxid &&
          pages > 0,
      ),
    ).toBe(true);
  },
);

test("a segment of several stretches holds each state of each page", async () => {
  const { path, commit, buildOrder } = setup();
  for (let n = 0; n < 12; n++) commit((connection) => noise(connection, n % 3, MiB));
  const reader = new WalReader(path);
  const logged = reader.read(1_000, Infinity);
  reader.close();
  for (const { images } of logged) for (const { page, bytes } of images) makeCanonical(bytes, page);
  const wanted = logged.map(({ images }) => images.map(({ page, bytes }) => [page, computeSha256(bytes)]));
  for (const version of [1, 2]) {
    const made = (await inlineMaker(inlinePress).make(buildOrder({ version })))!;
    expect(made.segment.rawBytes).toBeGreaterThan(2 * stretchImages * pageBytes);
    const [segment] = await decodeSegments(made.segment.bytes, inlinePress);
    expect(segment!.groups.map(({ images }) => images.map(({ page, bytes }) => [page, computeSha256(bytes)]))).toEqual(
      wanted,
    );
  }
});

test.each([1, 2])("a tail's segment takes the one before in while all is one frame (v%s)", async (version) => {
  const { commit, buildOrder: buildAny } = setup();
  const buildOrder = (given: Partial<SegmentOrder>): SegmentOrder => buildAny({ version, ...given });
  const maker = threaded();
  for (let n = 1; n <= 4; n++) commit((connection) => put(connection, n, Buffer.alloc(10, n)));
  const first = (await maker.make(buildOrder({ groupsMax: 2, isTail: true, logBytes: 0 })))!;
  const second = (await maker.make(
    buildOrder({ groupsMax: 2, isTail: true, from: first.end, firstTxid: 3, before: first.start, logBytes: 0 }),
  ))!;
  const whole = (await inlineMaker(inlinePress).make(buildOrder({ groupsMax: 4, isTail: true })))!;
  expect([second.segment, second.sha256]).toEqual([whole.segment, undefined]);
  expect(second.start!.images.length).toBe(second.segment.rawBytes);
  commit((connection) => noise(connection, 9, framePages * pageBytes));
  const large = (await maker.make(
    buildOrder({ groupsMax: 1, isTail: true, from: second.end, firstTxid: 5, before: second.start }),
  ))!;
  expect([large.segment.firstTxid, large.segment.lastTxid, large.start]).toEqual([5, 5, undefined]);
});

test("what is larger than asked for is not made, and nothing small is cut in two for being made here", async () => {
  const { commit, buildOrder } = setup();
  for (let n = 0; n < 40; n++) commit((connection) => noise(connection, n, 10_000));
  const maker = threaded();
  expect(await maker.make(buildOrder({ logBytesMost: 300_000 }))).toBeUndefined();
  // It was thought to be small.
  const made = await maker.make(buildOrder({ logBytes: 0 }));
  expect(made!.segment.lastTxid).toBe(40);
  expect(made!.logBytes).toBeGreaterThan(segmentLogBytesHere);
});

test("a log that is another one, ends too early or skips an id is refused alike", async () => {
  const { connection, commit, buildOrder } = setup();
  for (let n = 0; n < 20; n++) commit((own) => noise(own, n, 20_000));
  const refusals = async (order: SegmentOrder): Promise<unknown[]> =>
    Promise.all(
      [inlineMaker(inlinePress), threaded()].map((maker) =>
        maker.make(order).then(
          () => "made",
          (error: unknown) => [(error as Error).constructor.name, (error as Error).message],
        ),
      ),
    );
  const corrupt = [StoreError.name, "a group in the log has an unexpected transaction id"];
  expect(await refusals(buildOrder({ firstTxid: 2 }))).toEqual([corrupt, corrupt]);
  const { end } = (await inlineMaker(inlinePress).make(buildOrder({ groupsMax: 10 })))!;
  const none = [StoreError.name, "the log does not hold what was committed"];
  expect(
    await refusals(buildOrder({ from: { ...end, place: { ...end.place!, sums: [1, 2] } }, firstTxid: 11 })),
  ).toEqual([none, none]);
  connection.raw.pragma("wal_checkpoint(TRUNCATE)");
  const changed = [WalChanged.name, "the log was cut or begun anew"];
  expect(await refusals(buildOrder({ from: end, firstTxid: 11 }))).toEqual([changed, changed]);
});

test("a log that is exchanged while it is read is noticed", async () => {
  const { path, commit, buildOrder } = setup();
  commit((connection) => noise(connection, 1, 2 * MiB));
  const press = {
    ...inlinePress,
    compress: (raw: Uint8Array) => {
      const descriptor = openSync(logPath(path), "r+");
      writeSync(descriptor, Buffer.alloc(16, 1), 0, 16, 16);
      closeSync(descriptor);
      return inlinePress.compress(raw);
    },
  };
  await expect(inlineMaker(press).make(buildOrder())).rejects.toThrow(WalChanged);
  truncateSync(logPath(path), 0);
});

test("a file's images are the same here and on a thread; a file that is none is refused alike", async () => {
  const { path, connection, commit } = setup();
  for (let n = 0; n < 40; n++) commit((own) => noise(own, n, 30_000));
  connection.raw.pragma("wal_checkpoint(TRUNCATE)");
  const file = readFileSync(path);
  const pages = file.length / pageBytes;
  const order = {
    path,
    from: 3,
    to: pages - 2,
    pages,
    txid: 40,
    committedAtMs: 400,
    uuid,
    branchId: "main",
    epoch: 1,
  };
  const [here, there] = await Promise.all(
    [inlineMaker(inlinePress), threaded()].map(async (maker) => ({
      image: await maker.image(order),
      state: await maker.state(path, true),
    })),
  );
  expect([there!.image, there!.state]).toEqual([here!.image, here!.state]);
  expect(there!.state).toMatchObject({ txid: 40, committedAtMs: 400 });
  const [segment] = await decodeSegments(there!.image.bytes, inlinePress);
  expect(segment!.groups[0]!.images.map(({ page }) => page)).toEqual(
    Array.from({ length: pages - 4 }, (_, at) => at + 3),
  );
  for (const { page, bytes } of segment!.groups[0]!.images) {
    const own = new Uint8Array(file.subarray((page - 1) * pageBytes, page * pageBytes));
    makeCanonical(own, page);
    expect(Buffer.compare(bytes, own)).toBe(0);
  }
  const broken = `${path}.broken`;
  writeFileSync(broken, Buffer.alloc(pageBytes, 1));
  for (const maker of [inlineMaker(inlinePress), threaded()]) {
    await expect(maker.state(broken, true)).rejects.toMatchObject({ kind: "corrupt" });
    await expect(maker.image({ ...order, path: broken, from: 1, to: 4 })).rejects.toMatchObject({ kind: "corrupt" });
  }
});

test("a thread that is lost fails its orders as a store that is away; another takes the next", async () => {
  const { commit, buildOrder } = setup();
  commit((connection) => noise(connection, 1, 8 * MiB));
  const workers: Worker[] = [];
  const maker = threaded(() => {
    const worker = segmentWorker();
    workers.push(worker);
    return worker;
  });
  const lost = [maker.make(buildOrder()), maker.make(buildOrder())];
  void workers[0]!.terminate();
  for (const order of lost) await expect(order).rejects.toMatchObject({ kind: "unavailable" });
  expect((await maker.make(buildOrder()))!.segment.lastTxid).toBe(1);
  expect(workers).toHaveLength(2);
});

test(
  "a transaction of 300 MiB, as an older build could leave one, costs its compressed bytes once",
  { timeout: 120_000 },
  async () => {
    const { commit, buildOrder } = setup();
    const rows = 300;
    // A tenth of it is noise: what is pressed is about 30 MiB.
    commit((connection) => {
      for (let n = 0; n < rows; n++)
        connection.run("INSERT INTO t (k, v) VALUES (?, CAST(randomblob(100000) || zeroblob(948000) AS BLOB))", n);
    });
    await inlineMaker(inlinePress).make(buildOrder({ logBytesMost: 1 }));
    globalThis.gc?.();
    const before = process.memoryUsage().rss;
    let most = before;
    const press = {
      ...inlinePress,
      compress: (raw: Uint8Array) => {
        most = Math.max(most, process.memoryUsage().rss);
        return inlinePress.compress(raw);
      },
    };
    const made = (await inlineMaker(press).make(buildOrder()))!;
    expect(made.segment.rawBytes).toBeGreaterThan(rows * MiB);
    const pressed = made.segment.bytes.length;
    expect(pressed).toBeLessThan(0.2 * made.segment.rawBytes);
    expect(most - before).toBeLessThan(pressed + 100 * MiB);
    expect(readSegmentIndexes(made.segment.bytes)[0]!.groups[0]!.pageNumbers.length * pageBytes).toBe(
      made.segment.rawBytes,
    );
  },
);

async function shippedBranch(): Promise<BranchModel> {
  const branch = new BranchModel(seeded(7));
  for (let n = 0; n < 12; n++) {
    branch.commit();
    if (n % 3 === 0) await branch.ship(n === 9);
  }
  return branch;
}

async function* given(objects: readonly FetchedObject[], error?: Error): AsyncGenerator<FetchedObject> {
  yield* objects;
  if (error) throw error;
}

test("here and on a thread the same file is restored, and a fault of fetching comes back as it was", async () => {
  const branch = await shippedBranch();
  const plan = branch.findRestorePlan(branch.manifest.txid);
  const objects: FetchedObject[] = [];
  for await (const { ref, bytes } of fetchUnread(branch.source, [...plan.deltas.toReversed(), ...plan.images]))
    objects.push({ ref, bytes });
  const { commit, buildOrder } = setup();
  commit((connection) => noise(connection, 1, MiB));
  const elsewhere = threaded();
  const files: Buffer[] = [];
  for (const maker of [inlineMaker(inlinePress), elsewhere]) {
    const path = branch.path();
    const [pages, made] = await Promise.all([
      maker.restore({ uuid: branch.source.uuid, plan, path }, given(objects)),
      maker.make(buildOrder()),
    ]);
    expect(made?.segment.lastTxid).toBe(1);
    files.push(readFileSync(path));
    expect(pages * pageBytes).toBe(files[0]!.length);
    await maker.remove(path);
    expect(existsSync(path)).toBe(false);
    // What is thrown here is what was thrown there: the store's own word, with its cause.
    const fault = new StoreError("unavailable", "the store is away", { reason: "away" });
    await expect(
      maker.restore({ uuid: branch.source.uuid, plan, path }, given(objects.slice(0, 1), fault)),
    ).rejects.toBe(fault);
    await expect(
      maker.restore({ uuid: branch.source.uuid, plan, path }, given(objects.slice(1))),
    ).rejects.toMatchObject({ kind: "corrupt" });
    const rotten = objects.map(({ ref, bytes }) => ({ ref, bytes: bytes.slice(0, -1) }));
    await expect(maker.restore({ uuid: branch.source.uuid, plan, path }, given(rotten))).rejects.toMatchObject({
      kind: "corrupt",
    });
    expect(existsSync(path)).toBe(false);
  }
  expect(Buffer.compare(files[0]!, files[1]!)).toBe(0);
});

test("a restore whose thread is lost fails, and the next one has a new thread", async () => {
  const branch = await shippedBranch();
  const plan = branch.findRestorePlan(branch.manifest.txid);
  const workers: Worker[] = [];
  const maker = threaded(() => {
    const worker = segmentWorker();
    workers.push(worker);
    return worker;
  });
  const restoring = maker.restore(
    { uuid: branch.source.uuid, plan, path: branch.path() },
    hanging(() => void workers[0]!.terminate()),
  );
  await expect(restoring).rejects.toMatchObject({ kind: "unavailable" });
  await expect(
    maker.restore(
      { uuid: branch.source.uuid, plan, path: branch.path() },
      fetchUnread(branch.source, [...plan.deltas.toReversed(), ...plan.images]),
    ),
  ).resolves.toBeGreaterThan(0);
});

/** Calls `asked` when the first object is asked for, and takes a while. */
async function* hanging(asked: () => void): AsyncGenerator<FetchedObject> {
  asked();
  await new Promise((resolve) => setTimeout(resolve, 200));
  yield* [];
}
