/** An erasure on an open branch: durable, gone from this node's disk, and safe to ask for again. */
import { cpSync, existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { realWorld, type CrashPoint } from "../../../../src/base/world.ts";
import type { BranchResults, EngineOptions } from "../../../../src/engine/api/protocol.ts";
import type { MemoryInput } from "../../../../src/model/memory/memory-ingest.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { MemoryStore } from "../../../../src/store/memory-store.ts";
import type { ObjectStore } from "../../../../src/store/port/object-store.ts";
import type { ErasureTarget } from "../../../../src/format/erasure/erasure-receipt.ts";
import { openInlineEngine, uuidOf, type InlineEngine } from "../../../support/inline-engine.ts";
import { seeded } from "../../../support/random.ts";
import { canary, residueBelow, type Secrets } from "../../../support/residue.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import { TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";

const uuid = uuidOf(1);
const traceKey = Buffer.alloc(32, 3);

interface Said {
  readonly id: string;
  readonly secrets: Secrets;
}

/** A node with one database, as its clients drive it. */
class Node {
  readonly directory: string;
  readonly engine: InlineEngine;
  readonly random = seeded(11);

  constructor(
    store: ObjectStore = new MemoryStore(),
    directory = temporaryDirectory(),
    options: Partial<EngineOptions> = {},
    crashPoint: (point: CrashPoint) => void = () => {},
  ) {
    this.directory = directory;
    this.engine = openInlineEngine(directory, { store, options, world: realWorld(crashPoint) });
  }

  get path(): string {
    return join(this.directory, "db", uuid, "main.db");
  }

  async ingest(count: number, branch = "main"): Promise<Said[]> {
    const words = Array.from({ length: count }, () => Array.from({ length: 4 }, () => canary(this.random)));
    const vectors = words.map(() => Float32Array.from({ length: 100 }, () => this.random() - 0.5));
    const memories = words.map(([summary, content, keywords, topicKey], at): MemoryInput => ({
      type: "fact",
      summary: `says ${summary}`,
      content: JSON.stringify(content),
      keywords: keywords!,
      topicKey: topicKey!,
      sessionId: "s",
      source: "somebody",
      embedding: vectors[at]!,
    }));
    const { value } = await this.engine.client.write(
      { uuid, branch },
      "memory.ingest",
      { memories },
      this.engine.soon(),
    );
    return value.results.map(({ id }, at) => ({ id, secrets: { words: words[at]!, vectors: [vectors[at]!] } }));
  }

  async erase(
    target: ErasureTarget,
    couponId: string,
    branch = "main",
    deadlineMs = this.engine.soon().deadlineMs,
  ): Promise<BranchResults["erase"] & { readonly txid: number; readonly durableTxid: number }> {
    const { value, txid, durableTxid } = await this.engine.client.branch(
      { uuid, branch },
      { act: "erase", couponId, erase: target, traceKey },
      { deadlineMs },
    );
    return { ...(value as BranchResults["erase"]), txid, durableTxid };
  }

  async held(ids: readonly string[], branch = "main"): Promise<readonly string[]> {
    return (await this.engine.client.read({ uuid, branch }, "memory.held", { memoryIds: ids }, this.engine.soon()))
      .value.held;
  }

  async recalled(query: string): Promise<number> {
    return (await this.engine.client.read({ uuid, branch: "main" }, "memory.recall", { query }, this.engine.soon()))
      .value.memories.length;
  }

  /**
   * Inserts words and deletes most of them again: cells that were moved meanwhile leave copies. Gives the deleted ones.
   */
  async churnWords(): Promise<Said> {
    const live = Array.from({ length: 4_000 }, () => canary(this.random));
    const gone: string[] = [];
    const rows = live.map((word) => `('${word}', '${word}${"x".repeat(Math.floor(this.random() * 200))}')`);
    await this.sql([
      "CREATE TABLE words (word TEXT PRIMARY KEY, padded TEXT)",
      ...Array.from({ length: 200 }, (_, at) => `INSERT INTO words VALUES ${rows.slice(20 * at, 20 * at + 20).join()}`),
    ]);
    for (let batch = 0; batch < 12; batch++) {
      const some = Array.from({ length: 250 }, () => live.splice(Math.floor(this.random() * live.length), 1)[0]!);
      await this.sql(some.map((word) => `DELETE FROM words WHERE word = '${word}'`));
      gone.push(...some);
    }
    return { id: "", secrets: { words: gone, vectors: [] } };
  }

  sql(statements: readonly string[]): Promise<unknown> {
    const batch = {
      statements: statements.map((text) => ({ text, paramsJson: undefined })),
      atomic: true,
      mayWrite: true,
    };
    return this.engine.client.sqlWrite({ uuid, branch: "main" }, batch, this.engine.soon());
  }

  /** In the files of databases; the scratch folder holds states only while a job works on them. */
  residue(of: readonly Said[]): Record<string, number> {
    return residueBelow(join(this.directory, "db"), {
      words: of.flatMap(({ secrets }) => secrets.words),
      vectors: of.flatMap(({ secrets }) => secrets.vectors),
    });
  }
}

/** A third of what was said. */
function pickSome(said: readonly Said[]): { readonly gone: readonly Said[]; readonly stays: readonly Said[] } {
  return { gone: said.filter((_, at) => at % 3 === 0), stays: said.filter((_, at) => at % 3 !== 0) };
}

async function churned(node: Node): Promise<Said[]> {
  const said: Said[] = [];
  for (let round = 0; round < 12; round++) {
    said.push(...(await node.ingest(15)));
    const [forgotten] = said.splice(Math.floor(node.random() * said.length), 1) as [Said];
    await node.engine.client.write({ uuid, branch: "main" }, "memory.forget", { id: forgotten.id }, node.engine.soon());
  }
  return said;
}

test("F95: what was erased is in no file of the node, and later writes do not bring it back", async () => {
  const node = new Node(undefined, undefined, { logCheckpointBytes: 256 * 1024 });
  const said = await churned(node);
  const { gone, stays } = pickSome(said);
  await node.engine.client.branch({ uuid, branch: "main" }, { act: "fork", name: "side" }, node.engine.soon());
  expect(await node.held([said[0]!.id], "side")).toEqual([said[0]!.id]);
  expect(Object.keys(node.residue(gone)).length).toBeGreaterThan(1);
  for (const branch of ["main", "side"]) {
    for (const [at, { id }] of gone.entries()) {
      const answer = await node.erase({ kind: "memory", memoryId: id }, `ers_${at}`, branch);
      expect(answer).toMatchObject({ found: true, memoryIds: [id], traces: { key: new Uint8Array(traceKey) } });
      expect(answer.durableTxid).toBeGreaterThanOrEqual(answer.txid);
    }
    expect(
      await node.held(
        said.map(({ id }) => id),
        branch,
      ),
    ).toEqual(stays.map(({ id }) => id));
  }
  expect(node.residue(gone)).toEqual({});
  await node.ingest(20);
  await node.engine.client.write(
    { uuid, branch: "main" },
    "session.end",
    { sessionId: "s", turns: true },
    node.engine.soon(),
  );
  for (const { id } of stays.slice(0, 40))
    await node.engine.client.write({ uuid, branch: "main" }, "memory.forget", { id }, node.engine.soon());
  expect(node.residue(gone)).toEqual({});
  expect(await node.recalled(gone[0]!.secrets.words[0]!)).toBe(0);
  await node.engine.client.close();
  expect(node.residue(gone)).toEqual({});
  const database = new Connection(node.path, { readonly: false, pageCacheKiB: 256 });
  database.exec("INSERT INTO __service_memory_text (__service_memory_text, rank) VALUES ('integrity-check', 1)");
  expect(database.raw.pragma("integrity_check", { simple: true })).toBe("ok");
  database.close();
});

test("a close in order leaves no slack, and no log that says otherwise", async () => {
  const node = new Node();
  const gone = [await node.churnWords()];
  await node.engine.client.close();
  expect([node.residue(gone), existsSync(`${node.path}-wal`)]).toEqual([{}, false]);
});

test("the same coupon again gives the same answer and a later state; an unknown target changes nothing", async () => {
  const node = new Node();
  const [one, other] = await node.ingest(2);
  const target = { kind: "memory", memoryId: one!.id } as const;
  const first = await node.erase(target, "ers_1");
  await node.ingest(1);
  const again = await node.erase(target, "ers_1");
  expect({ ...again, txid: first.txid, durableTxid: first.durableTxid }).toEqual(first);
  expect(again.txid).toBe(first.txid + 1);
  const unknown = await node.erase(target, "ers_2");
  expect(unknown).toMatchObject({ found: false, memoryIds: [], txid: again.txid, branchId: first.branchId });
  expect(await node.held([one!.id, other!.id])).toEqual([other!.id]);
  await node.engine.client.close();
});

test("a read that needs the log holds the answer back until the time is over; a repeat succeeds", async () => {
  const node = new Node();
  const said = await node.ingest(30);
  const reader = new Connection(node.path, { readonly: true, pageCacheKiB: 64 });
  reader.run("BEGIN");
  reader.get("SELECT count(*) FROM __service_memory");
  const target = { kind: "memory", memoryId: said[3]!.id } as const;
  const refused = node.erase(target, "ers_1", "main", node.engine.world.monotonicMs() + 1_500);
  await expect(refused).rejects.toMatchObject({ code: "unavailable", detail: { retryAfterSecs: 1 } });
  // The rows are gone all the same, and writers were not stopped.
  expect(await node.held([said[3]!.id])).toEqual([]);
  await node.ingest(1);
  expect(Object.keys(node.residue([said[3]!]))).not.toEqual([]);
  setTimeout(() => reader.close(), 200);
  expect(await node.erase(target, "ers_1")).toMatchObject({ found: true, memoryIds: [said[3]!.id] });
  expect(node.residue([said[3]!])).toEqual({});
  await node.engine.client.close();
});

test("many writers do not keep an erasure from its moment, nor are they kept from theirs", async () => {
  const node = new Node();
  const said = await node.ingest(20);
  let writing = true;
  let written = 0;
  const writers = Array.from({ length: 8 }, async () => {
    for (; writing; written++) await node.ingest(1);
  });
  for (const { id } of said.slice(0, 3)) await node.erase({ kind: "memory", memoryId: id }, `ers_${id}`);
  writing = false;
  await Promise.all(writers);
  expect(written).toBeGreaterThan(8);
  expect(node.residue(said.slice(0, 3))).toEqual({});
  await node.engine.client.close();
});

test.each(["before the slack is zeroed", "with the log whole"])(
  "F85: after a crash %s the next erasure goes through the whole file",
  async (when) => {
    const store = new MemoryStore();
    const copy = join(temporaryDirectory(), "copy");
    let copies = false;
    const node: Node = new Node(store, undefined, { logCheckpointBytes: 2 ** 24 }, (point) => {
      if (copies && point === "folded" && !existsSync(copy)) cpSync(node.directory, copy, { recursive: true });
    });
    const said = await node.ingest(10);
    const gone = [said[0]!, await node.churnWords()];
    await node.engine.client.sync({ uuid, branch: "main" }, node.engine.soon());
    copies = when.startsWith("before");
    if (copies) await node.erase({ kind: "memory", memoryId: said[0]!.id }, "ers_1");
    else cpSync(node.directory, copy, { recursive: true });
    await node.engine.client.close();
    const next = new Node(store, copy);
    expect(Object.keys(next.residue(gone))).toContain(
      when.startsWith("before") ? `${uuid}/main.db` : `${uuid}/main.db-wal`,
    );
    expect((await next.erase({ kind: "memory", memoryId: said[0]!.id }, "ers_1")).found).toBe(true);
    expect(next.residue(gone)).toEqual({});
    expect(await next.held(said.map(({ id }) => id))).toEqual(said.slice(1).map(({ id }) => id));
    await next.engine.client.close();
    expect([next.residue(gone), existsSync(`${next.path}-wal`)]).toEqual([{}, false]);
  },
);

test("a file whose slack is not known keeps its log's file at a close, as the sign of that", async () => {
  const store = new MemoryStore();
  const node = new Node(store);
  const [said] = await node.ingest(10);
  const gone = [said!, await node.churnWords()];
  await node.engine.client.sync({ uuid, branch: "main" }, node.engine.soon());
  const copy = join(temporaryDirectory(), "copy");
  cpSync(node.directory, copy, { recursive: true });
  await node.engine.client.close();
  for (let run = 0; run < 2; run++) {
    const next = new Node(store, copy);
    await next.held([]);
    await next.engine.client.close();
    expect([existsSync(`${next.path}-wal`), Object.keys(next.residue(gone.slice(1)))]).toEqual([
      true,
      [`${uuid}/main.db`],
    ]);
  }
  const last = new Node(store, copy);
  await last.erase({ kind: "memory", memoryId: said!.id }, "ers_1");
  await last.engine.client.close();
  expect([last.residue(gone), existsSync(`${last.path}-wal`)]).toEqual([{}, false]);
});

test("F96: an erasure is not answered while object storage is away; asked again it is one erasure", async () => {
  const time = new VirtualTime();
  const node = new TimedEngine(time);
  const memories: MemoryInput[] = [
    { type: "fact", summary: "to be erased", content: "{}" },
    { type: "fact", summary: "stays", content: "{}" },
  ];
  const { value } = await time.of(node.client.write(node.at("main"), "memory.ingest", { memories }, node.soon()));
  await node.sync();
  time.store.decideFate = () => "refused";
  const act = {
    act: "erase",
    couponId: "ers_1",
    erase: { kind: "memory", memoryId: value.results[0]!.id },
    traceKey,
  } as const;
  const first = node.client.branch(node.at("main"), act, { deadlineMs: node.world.monotonicMs() + 20_000 });
  await expect(time.of(first)).rejects.toMatchObject({ code: expect.stringMatching(/unavailable|request_timeout/) });
  time.store.decideFate = () => "fine";
  const again = await time.of(node.client.branch(node.at("main"), act, node.soon()));
  expect(again.value).toMatchObject({ found: true, memoryIds: [value.results[0]!.id] });
  expect(again.durableTxid).toBe(2);
  expect(again.txid).toBe(2);
});
