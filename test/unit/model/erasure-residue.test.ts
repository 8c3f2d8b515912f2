/** Nothing of what was erased is left in the bytes of the database file, and traces find all of it wherever it is. */
import { readFileSync } from "node:fs";
import { ulid } from "ulid";
import { expect, test } from "vitest";
import { pageBytes } from "../../../src/format/history/pages.ts";
import { traceBytes, TraceSearch } from "../../../src/format/erasure/traces.ts";
import { erase, type Erased } from "../../../src/model/erasure.ts";
import { ingest, type MemoryInput } from "../../../src/model/memory/memory-ingest.ts";
import { deleteMemory } from "../../../src/model/memory/stored-memories.ts";
import { appendTurns } from "../../../src/model/transcript/turn-batches.ts";
import { realDisk } from "../../../src/base/disk.ts";
import { WalFile } from "../../../src/sqlite/wal/wal.ts";
import { Slack } from "../../../src/sqlite/pages/slack.ts";
import type { ErasureTarget } from "../../../src/format/erasure/erasure-receipt.ts";
import { ModelDatabase } from "../../support/model-database.ts";
import { seeded } from "../../support/random.ts";
import { canary, residueIn, type Secrets } from "../../support/residue.ts";

interface Written {
  readonly id: string;
  readonly row: MemoryInput;
}

/** A database under much churn: memories of every kind, superseded, forgotten and swept; and turns. */
class Churned {
  readonly database = new ModelDatabase();
  readonly random: () => number;
  readonly path = `${this.database.directory}/main.db`;
  readonly #wal = new WalFile(this.path, realDisk);
  readonly #slack = new Slack(this.path, realDisk);
  readonly live: Written[] = [];
  /** Sessions that memories say they were derived from, and nothing else tells of. */
  readonly talks: readonly string[];
  readonly turns: {
    readonly session: string;
    readonly content: string;
    readonly turnId: string;
    readonly metadata: string;
    readonly operationId: string;
    readonly embedding: Float32Array;
  }[] = [];
  readonly #zeroes: boolean;

  constructor(seed: number, options: { readonly secureDelete: boolean; readonly zeroes: boolean }) {
    this.random = seeded(seed);
    this.talks = Array.from({ length: 6 }, () => canary(this.random));
    this.#zeroes = options.zeroes;
    this.database.connection.raw.pragma(`secure_delete = ${options.secureDelete ? 1 : 0}`);
  }

  vector(dimension: number): Float32Array {
    return Float32Array.from({ length: dimension }, () => this.random() - 0.5);
  }

  memory(): MemoryInput {
    const type = ["fact", "event", "instruction", "task"][Math.floor(this.random() * 4)]!;
    const word = (): string => canary(this.random);
    const topic =
      type === "fact" || type === "instruction"
        ? { topicKey: this.random() < 0.5 ? `topic${Math.floor(this.random() * 30)}` : word() }
        : {};
    const content = JSON.stringify({
      said: `${word()} ${"filler ".repeat(Math.floor(this.random() * (this.random() < 0.05 ? 2_000 : 30)))}${word()}`,
    });
    return {
      type,
      summary: `about ${word()} and more`,
      content,
      keywords: word(),
      source: word(),
      metadata: JSON.stringify({ tag: word() }),
      sessionId: `session-${Math.floor(this.random() * 10)}`,
      embedding: this.vector(300),
      pinned: this.live.length % 3 === 0,
      validUntilMs: Math.floor(this.random() * 2 ** 45),
      derivedFrom: [{ sessionId: this.talks[this.live.length % this.talks.length]!, seq: 1 + (this.live.length % 9) }],
      ...topic,
    };
  }

  run(operations: number): void {
    const { database, live } = this;
    for (let operation = 0; operation < operations; operation++) {
      database.nowMs += 1_000;
      const dice = this.random();
      if (dice < 0.15 && live.length > 0) {
        const [{ id }] = live.splice(Math.floor(this.random() * live.length), 1) as [Written];
        database.write((tx) => deleteMemory(tx, { id }));
      } else if (dice < 0.3) {
        const turn = {
          session: `session-${Math.floor(this.random() * 10)}`,
          content: canary(this.random),
          turnId: canary(this.random),
          metadata: canary(this.random),
          operationId: canary(this.random),
          embedding: this.vector(20),
        };
        database.write((tx) =>
          appendTurns(
            { ...tx, newId: () => ulid(database.nowMs) },
            {
              sessionId: turn.session,
              operationId: turn.operationId,
              turns: [
                {
                  role: "user",
                  content: JSON.stringify(turn.content),
                  turnId: turn.turnId,
                  metadata: JSON.stringify({ tag: turn.metadata }),
                  embedding: turn.embedding,
                },
              ],
            },
          ),
        );
        this.turns.push(turn);
      } else {
        const row = this.memory();
        const { results } = database.write((tx) =>
          ingest({ ...tx, newId: () => ulid(database.nowMs) }, { memories: [row] }),
        );
        live.push({ id: results[0]!.id, row });
      }
      if (operation % 150 === 149) this.fold();
    }
    this.fold();
  }

  /** As the engine folds: what the log had written has no slack afterwards. */
  fold(): Buffer {
    this.#slack.note(this.#wal.pageNumbers(0, this.#wal.extent(this.database.connection).frames));
    expect(this.#wal.checkpoint(this.database.connection, "truncate")).toBe(true);
    if (this.#zeroes) this.#slack.zeroNoted();
    return readFileSync(this.path);
  }

  erase(target: ErasureTarget, n: number): Erased {
    return this.database.write((tx) => erase(tx, { couponId: `ers_${n}`, target, traceKey: Buffer.alloc(32, n) }));
  }

  close(): void {
    this.#wal.close();
    this.database.close();
  }
}

/** Erases a third of the memories, by every kind of target, and a transcript. */
function eraseMany(churned: Churned): {
  readonly before: Buffer;
  readonly after: Buffer;
  readonly erased: readonly Erased[];
  readonly secrets: Secrets;
} {
  const before = churned.fold();
  const targets: ErasureTarget[] = churned.live
    .filter(() => churned.random() < 0.3)
    .map(({ id }) => ({ kind: "memory", memoryId: id }));
  for (let topic = 0; topic < 8; topic++) targets.push({ kind: "topic", topicKey: `topic${topic}`, type: "fact" });
  targets.push(
    { kind: "session", sessionId: "session-3", turns: true },
    { kind: "session", sessionId: "session-4", turns: true },
    ...churned.talks.slice(0, 2).map((sessionId): ErasureTarget => ({ kind: "session", sessionId, turns: false })),
  );
  const erased = targets.map((target, n) => churned.erase(target, n));
  const gone = new Set(erased.flatMap(({ memoryIds }) => memoryIds));
  const rows = churned.live.filter(({ id }) => gone.has(id)).map(({ row }) => row);
  const turns = churned.turns.filter(({ session }) => session === "session-3" || session === "session-4");
  const splitWords = (row: MemoryInput): string[] =>
    `${row.summary} ${row.content} ${row.keywords} ${row.source} ${row.metadata} ${row.topicKey ?? ""}`.match(
      /\b[b-z2-8]{16}\b/g,
    ) ?? [];
  const secrets = {
    words: [
      ...rows.flatMap(splitWords),
      ...churned.talks.slice(0, 2),
      ...turns.flatMap(({ content, turnId, metadata, operationId }) => [content, turnId, metadata, operationId]),
    ],
    vectors: [...rows.map(({ embedding }) => embedding!), ...turns.map(({ embedding }) => embedding)],
  };
  expect(secrets.words.length).toBeGreaterThan(250);
  return { before, after: churned.fold(), erased, secrets };
}

/** For each set of traces, how many of its windows stand in the file. */
function windowsFound(file: Buffer, erased: readonly Erased[]): number[] {
  const counts = erased.map(() => 0);
  const search = new TraceSearch(erased.map(({ traces }) => traces));
  const seen = new Set<string>();
  for (let at = 0; at < file.length; at += pageBytes) {
    const page = file.subarray(at, at + pageBytes);
    search.search(page, (set, offset) => {
      const name = `${set} ${page.toString("hex", offset, offset + 32)}`;
      if (!seen.has(name)) counts[set]!++;
      seen.add(name);
    });
  }
  return counts;
}

test("F95: nothing of erased memories and turns is in the file, and every trace was", () => {
  const churned = new Churned(2, { secureDelete: true, zeroes: true });
  churned.run(500);
  const { before, after, erased, secrets } = eraseMany(churned);
  expect(residueIn(before, secrets)).toBeGreaterThan(secrets.words.length);
  expect(residueIn(after, secrets)).toBe(0);
  const kept = erased.map(({ traces }) => traces.windows.length / traceBytes);
  // A window that lies across two overflow pages is in no page as a whole: a vector of 1,200 bytes has one such at
  // most.
  const found = windowsFound(before, erased);
  found.forEach((count, set) => expect(kept[set]! - count).toBeLessThanOrEqual(erased[set]!.memoryIds.length));
  expect(found.reduce((a, b) => a + b)).toBeGreaterThan(0.98 * kept.reduce((a, b) => a + b));
  expect(windowsFound(after, erased)).toEqual(erased.map(() => 0));
  expect(
    erased.slice(-2).map(({ derived }) => derived! > 10),
    "memories stay that were derived from them",
  ).toEqual([true, true]);
  for (const text of ["__service_memory_text", "__service_turn_text"])
    churned.database.connection.exec(`INSERT INTO ${text} (${text}, rank) VALUES ('integrity-check', 1)`);
  expect(churned.database.connection.raw.pragma("integrity_check", { simple: true })).toBe("ok");
  churned.close();
});

test.each([
  { secureDelete: true, zeroes: false },
  { secureDelete: false, zeroes: true },
])("the same search finds some of it without either measure: %o", (options) => {
  const churned = new Churned(3, options);
  churned.run(900);
  const { after, secrets } = eraseMany(churned);
  expect(residueIn(after, secrets)).toBeGreaterThan(0);
  churned.close();
});
