/**
 * The undo of a transaction over random histories: of the last one it is the state before it, of an earlier one the
 * history without it where nothing else had to do with it, and otherwise all or nothing.
 */
import { copyFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { ServiceError } from "../../../../src/base/faults/errors.ts";
import { limits } from "../../../../src/base/limits.ts";
import { runRead, runWrite, type WriteInput, type WriteKind } from "../../../../src/model/commands.ts";
import { sealTransaction } from "../../../../src/model/core/change-log.ts";
import { straySubjects } from "../../../../src/model/core/subjects.ts";
import type { Tx, View } from "../../../../src/model/core/transaction.ts";
import { strayMetadata } from "../../../../src/model/docs/memory-metadata.ts";
import { strayFiles } from "../../../../src/model/files/file-store.ts";
import { VectorCache } from "../../../../src/model/index/vector-index.ts";
import { findDuplicate } from "../../../../src/model/memory/duplicates.ts";
import { strayFingerprint } from "../../../../src/model/memory/fingerprint-index.ts";
import { strayMemoryText } from "../../../../src/model/memory/keyword.ts";
import { strayPins } from "../../../../src/model/memory/memory-pins.ts";
import { strayTurnDetails } from "../../../../src/model/transcript/turn-details.ts";
import { strayTurnText } from "../../../../src/model/transcript/turn-text.ts";
import type { Undoable, UndoneThing } from "../../../../src/model/undo/undo-reads.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { runGroup } from "../../../../src/sqlite/group.ts";
import { ModelDatabase } from "../../../support/model-database.ts";

/** One write, with what it has to do with. */
interface Step {
  readonly command: WriteKind;
  readonly input: unknown;
  readonly names: readonly string[];
}

const memoryId = (at: number): string => `mem_${String(at).padStart(4, "0")}-0`;

/** A database whose every state stays readable. */
class History {
  readonly database = new ModelDatabase();
  readonly #states = new Map<number, Connection>();

  constructor() {
    this.#keep(0);
  }

  /** Runs the command as the transaction of this id, which also says when, and which ids it gives. */
  run(txid: number, command: WriteKind, input: unknown): unknown {
    const { database } = this;
    database.nowMs = 1_700_000_000_000 + txid * 1_000;
    let ids = 0;
    const view = database.view();
    const { outcomes, afterCommit } = runGroup(
      database.connection,
      [
        ({ notes, atGroupEnd, afterCommit: after }) =>
          runWrite(
            command,
            {
              ...view,
              notes,
              txid,
              newId: () => `${String(txid).padStart(4, "0")}-${ids++}`,
              atGroupEnd: (act) => atGroupEnd.push(act),
              afterCommit: (act) => after.push(act),
            } satisfies Tx,
            input,
          ),
      ],
      (notes) =>
        sealTransaction(
          database.connection,
          { txid, committedAtMs: database.nowMs, writerEpochId: undefined, changesKeptMs: 1e12 },
          notes,
        ),
    );
    for (const act of afterCommit) act();
    if (outcomes[0]!.kind === "failed") throw outcomes[0]!.error;
    this.#keep(txid);
    return outcomes[0]!.result;
  }

  /** Undoes the transaction with another. */
  undo(txid: number, as: number): void {
    const read = (at: number, command: "undo.changes" | "undo.before", input: object): unknown =>
      runRead(command, this.#viewAt(at), input);
    const { afterTxid, left } = read(txid, "undo.changes", { txid }) as Undoable;
    const { things } = read(afterTxid, "undo.before", { txid, left }) as { things: readonly UndoneThing[] };
    this.run(as, "undo.apply", { txid, things } satisfies WriteInput<"undo.apply">);
  }

  #viewAt(txid: number): View {
    // A transaction that changed nothing has no state of its own.
    return { ...this.database.view(), connection: this.#states.get(txid)!, vectors: new VectorCache() };
  }

  #keep(txid: number): void {
    const path = join(this.database.directory, `state-${txid}.db`);
    this.database.connection.raw.pragma("wal_checkpoint(TRUNCATE)");
    copyFileSync(this.database.connection.path, path);
    this.#states.set(txid, new Connection(path, { readonly: true, pageCacheKiB: limits.pageCacheKiB }));
  }

  close(): void {
    for (const state of this.#states.values()) state.close();
    this.database.close();
    rmSync(this.database.directory, { recursive: true, force: true });
  }
}

const memoryParts = { provenance: "memory", metadata: "memory", pin: "memory", validity: "memory", link: "memory" };

/** All rows of all kinds by names and ids: without the numbers of rows, and what is never given back. */
function dump({ connection }: ModelDatabase): unknown {
  const told = (table: string, select: string): unknown[] =>
    connection.hasTable(table)
      ? connection
          .all<Record<string, unknown>>(select)
          .map(({ row: _, memory: __, turn: ___, owner: ____, n: _____, ...rest }) => JSON.stringify(rest))
          .sort()
      : [];
  const parts = Object.entries(memoryParts).map(([name, column]) => {
    const table = `__service_memory_${name}`;
    return told(
      table,
      `SELECT m.id AS of, p.* FROM ${table} AS p LEFT JOIN __service_memory AS m ON m.row = p.${column}`,
    );
  });
  const collections = connection.all<{ collection: number }>("SELECT collection FROM __service_doc_collections");
  return {
    memories: told("__service_memory", "SELECT * FROM __service_memory"),
    parts,
    embedded: told(
      "__service_vector",
      `SELECT m.id AS of, hex(v.embedding) AS v FROM __service_vector AS v CROSS JOIN __service_vector_space AS s
         ON s.space = v.space AND s.kind = 'memory' LEFT JOIN __service_memory AS m ON m.row = v.owner`,
    ),
    vectors: told(
      "__service_vector_item",
      `SELECT i.id, hex(v.embedding) AS v FROM __service_vector_item AS i CROSS JOIN __service_vector AS v
         ON v.space = i.space AND v.owner = i.owner`,
    ),
    details: told("__service_vector_detail", "SELECT length, metadata FROM __service_vector_detail"),
    sessions: told("__service_session", "SELECT * FROM __service_session"),
    turns: told("__service_turn", "SELECT * FROM __service_turn"),
    turnDetails: told("__service_turn_detail", "SELECT session_id, turn_id, metadata FROM __service_turn_detail"),
    keys: told("__service_kv", "SELECT row, ns, key, expires_at, hex(value) AS v FROM __service_kv"),
    docs: collections.flatMap(({ collection }) =>
      told(`__service_doc_${collection}`, `SELECT * FROM __service_doc_${collection}`),
    ),
    files: told(
      "__service_file",
      `SELECT f.path, t.text FROM __service_file AS f CROSS JOIN __service_file_version AS v ON v.row = f.row
         CROSS JOIN __service_file_text AS t ON t.row = v.text`,
    ),
    subjects: told("__service_subject", "SELECT kind, subject FROM __service_subject WHERE kind <> 'file'"),
  };
}

/** What must hold of every state. */
function checkSound(database: ModelDatabase): void {
  const { connection } = database;
  const strays = [
    strayMemoryText(connection),
    strayTurnText(connection),
    strayFingerprint,
    strayMetadata(connection),
    strayPins(connection),
    strayFiles(connection),
    strayTurnDetails(connection),
    straySubjects(connection),
  ];
  for (const sql of strays) if (sql !== undefined) expect(connection.get(sql), sql).toBeUndefined();
  const view = database.view();
  const active = connection.all<{ id: string; fingerprint: Uint8Array; summary: string }>(
    "SELECT id, fingerprint, summary FROM __service_memory WHERE superseded_by IS NULL",
  );
  for (const { id, fingerprint, summary } of active) {
    expect(findDuplicate(view, fingerprint)?.id).toBe(id);
    const { memories } = runRead("memory.recall", view, { query: summary }) as { memories: readonly { id: string }[] };
    expect(memories.map((memory) => memory.id)).toContain(id);
  }
}

const few = fc.integer({ min: 0, max: 2 });

/** A write of some kind, given which transaction it will be. */
const stepArbitrary: fc.Arbitrary<(at: number) => Step> = fc.oneof(
  fc.tuple(few, few, fc.boolean()).map(([topic, session, rich]) => (at: number): Step => {
    const memory = {
      type: "fact",
      topicKey: `t${topic}`,
      summary: `word${at}`,
      content: "{}",
      ...(rich && {
        sessionId: `s${session}`,
        metadata: `{"at":${at}}`,
        pinned: true,
        subject: "u",
        embedding: Float32Array.of(at, 1),
        validFromMs: 1,
        derivedFrom: [{ sessionId: "s0", seq: 1 }],
      }),
    };
    const names = [`m${at}`, `topic t${topic}`, ...(rich ? [`session s${session}`] : [])];
    return { command: "memory.ingest", input: { memories: [memory] }, names };
  }),
  fc.tuple(fc.nat(30), few).map(([of, topic]) => (at: number): Step => {
    const id = memoryId(of % at);
    // Which topic it has is not known here: it has to do with all of them.
    const names = [`m${of % at}`, "topic t0", "topic t1", "topic t2"];
    if (topic === 0) return { command: "memory.forget", input: { id }, names };
    if (topic === 1) return { command: "memory.update", input: { id, metadata: `{"x":${at}}`, pinned: true }, names };
    return { command: "memory.update", input: { id, keywords: `key${at}`, pinned: false }, names };
  }),
  fc.tuple(few, fc.boolean()).map(([session, many]) => (at: number): Step => {
    const turn = { role: "user", content: `said${at}`, turnId: `id${at}`, metadata: "{}", subject: "u" };
    const turns = many ? [turn, { role: "user", content: `more${at}` }] : [turn];
    const sessionId = `s${session}`;
    return { command: "turn.append_many", input: { sessionId, turns }, names: [`session ${sessionId}`] };
  }),
  fc.tuple(few, few).map(([session, last]) => (): Step => {
    const sessionId = `s${session}`;
    const names = [`session ${sessionId}`];
    if (last === 0) return { command: "session.end", input: { sessionId, turns: true }, names };
    return { command: "turn.delete", input: { sessionId, last }, names };
  }),
  fc.tuple(few, fc.boolean()).map(([key, put]) => (at: number): Step => {
    const named = { ns: "n", key: `k${key}` };
    const names = [`key ${key}`];
    if (!put) return { command: "kv.delete", input: named, names };
    return { command: "kv.put", input: { ...named, value: Buffer.from(`${at}`), subject: `u${at}` }, names };
  }),
  fc.tuple(few, fc.boolean()).map(([doc, put]) => (at: number): Step => {
    const named = { collection: "c", id: `d${doc}` };
    const names = [`doc ${doc}`];
    if (!put) return { command: "docs.remove", input: named, names };
    return { command: "docs.put", input: { ...named, doc: `{"at":${at}}`, subject: `u${at}` }, names };
  }),
  fc.tuple(few, fc.boolean()).map(([vector, put]) => (at: number): Step => {
    const named = { collection: "v", id: `v${vector}` };
    const names = [`vector ${vector}`];
    if (!put) return { command: "vector.delete", input: named, names };
    return { command: "vector.upsert", input: { ...named, embedding: Float32Array.of(at, 2), metadata: "{}" }, names };
  }),
  fc.tuple(few, few).map(([file, how]) => (at: number): Step => {
    const path = `f${file}.md`;
    const [to, names] = [`f${(file + 1) % 3}.md`, [`file ${file}`, `file ${(file + 1) % 3}`]];
    if (how === 0) return { command: "file.delete", input: { path, recursive: false, purge: false }, names };
    if (how === 1) return { command: "file.move", input: { path, to, overwrite: true }, names };
    return { command: "file.put", input: { path, text: `text${at}\n`, subject: "u" }, names };
  }),
);

/** Runs the steps, numbered from 1; those that are refused are no transaction. */
function play(history: History, steps: readonly Step[], without?: number): Set<number> {
  const done = new Set<number>();
  steps.forEach(({ command, input }, index) => {
    const at = index + 1;
    if (at === without) return;
    const before = history.database.connection.get<{ txid: number }>("SELECT txid FROM __service_state")!.txid;
    try {
      history.run(at, command, input);
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
    }
    const { txid } = history.database.connection.get<{ txid: number }>("SELECT txid FROM __service_state")!;
    if (txid !== before) done.add(at);
  });
  return done;
}

function withHistory(act: (history: History) => void): void {
  const history = new History();
  try {
    act(history);
  } finally {
    history.close();
  }
}

test("of random histories, any transaction is undone whole or not at all", { timeout: 120_000 }, () => {
  let disjoint = 0;
  fc.assert(
    fc.property(fc.array(stepArbitrary, { minLength: 2, maxLength: 40 }), fc.nat(39), (makers, chosen) =>
      withHistory((history) => {
        const steps = makers.map((make, index) => make(index + 1));
        const done = [...play(history, steps)];
        const txid = done[chosen % Math.max(1, done.length)];
        if (txid === undefined) return;
        const before = dump(history.database);
        const later = new Set(
          steps.slice(txid).flatMap(({ names }, at) => (done.includes(txid + at + 1) ? names : [])),
        );
        const isDisjoint = steps[txid - 1]!.names.every((name) => !later.has(name));
        let refusal: unknown;
        try {
          history.undo(txid, steps.length + 1);
        } catch (error) {
          refusal = error;
        }
        checkSound(history.database);
        if (refusal) {
          expect(refusal).toMatchObject({ code: "conflict" });
          expect(dump(history.database)).toEqual(before);
          expect(isDisjoint, String((refusal as Error).message)).toBe(false);
          return;
        }
        if (isDisjoint) {
          disjoint++;
          withHistory((other) => {
            play(other, steps, txid);
            expect(dump(history.database)).toEqual(dump(other.database));
          });
        }
        history.undo(steps.length + 1, steps.length + 2);
        expect(dump(history.database)).toEqual(before);
        checkSound(history.database);
      }),
    ),
    { numRuns: 40 },
  );
  expect(disjoint).toBeGreaterThan(5);
});
