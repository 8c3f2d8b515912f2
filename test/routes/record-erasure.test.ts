/** Erasure of records by their names, over both wires: a turn, files, a key, a document, a vector. */
import { expect, test } from "vitest";
import { verifyReceipt } from "../../src/control/access/receipts.ts";
import type { BranchedDatabase } from "../support/branched-database.ts";
import { palimpsest } from "../support/command-runs.ts";
import { createErasingProfile, type ErasingProfile } from "../support/erasing-profile.ts";
import { ok, startService, type Service } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { wireNames } from "../support/wires.ts";

/** A word that stands in one record and nowhere else. */
const wordOf = (kind: string): string => `zqsecretof${kind}zq`;

/** One record of each kind, and how it is written, erased and read. */
interface RecordKind {
  readonly target: object;
  readonly write: (db: BranchedDatabase, text: string) => Promise<unknown>;
  /** What it says; undefined when there is no such record. */
  readonly read: (db: BranchedDatabase) => Promise<string | undefined>;
}

async function readOrNone(call: Promise<{ code: string; body?: any }>, said: (body: any) => string | undefined) {
  const { code, body } = await call;
  if (code === "not_found") return undefined;
  expect(code).toBe("ok");
  return said(body);
}

const kinds: { readonly [name: string]: RecordKind } = {
  turn: {
    target: { session_id: "talk", seq: 2 },
    write: async (db, text) => {
      for (const content of ["before", text, "after"])
        await ok(db.call("DataService.AppendTurn", { session: "talk", role: "user", content }));
    },
    read: (db) =>
      readOrNone(
        db.call("DataService.ListTurns", { session: "talk" }),
        ({ turns }) => turns.find(({ seq }: { seq: number }) => Number(seq) === 2)?.content,
      ),
  },
  path: {
    target: { path: "notes" },
    write: async (db, text) => {
      await ok(db.call("FileService.PutFile", { path: "notes/one.md", text: `first ${text}` }));
      await ok(db.call("FileService.PutFile", { path: "notes/one.md", text: `then ${text}` }));
      await ok(db.call("FileService.PutFile", { path: "notes/deep/two.md", text }));
      await ok(db.call("FileService.PutFile", { path: "notebook.md", text: "stays" }));
    },
    read: (db) => readOrNone(db.call("FileService.GetFile", { path: "notes/one.md" }), ({ text }) => text),
  },
  key: {
    target: { kv_ns: "n", key: "k" },
    write: (db, text) => ok(db.call("DataService.PutValue", { ns: "n", key: "k", value: Buffer.from(text) })),
    read: async (db) =>
      readOrNone(db.call("DataService.GetValue", { ns: "n", key: "k" }), (body) =>
        Buffer.from(body.data ?? body, "base64").toString(),
      ),
  },
  document: {
    target: { collection: "c", doc_id: "d" },
    write: (db, text) => ok(db.call("DataService.InsertDocs", { coll: "c", docs: [{ _id: "d", text }, { _id: "e" }] })),
    read: (db) =>
      readOrNone(db.call("DataService.FindDocs", { coll: "c", filter: { _id: "d" } }), ({ docs }) => docs[0]?.text),
  },
  vector: {
    target: { vector_collection: "v", vector_id: "x" },
    write: (db, text) =>
      ok(db.call("DataService.UpsertVector", { coll: "v", id: "x", embedding: [0.25, 1, 3, 7], metadata: { text } })),
    read: (db) => readOrNone(db.call("DataService.GetVector", { coll: "v", id: "x" }), (body) => body.metadata?.text),
  },
};

async function servedFrom(directory: string): Promise<Service> {
  return startService({ SERVICE_GC_GRACE_SECS: "0" }, directory);
}

/** Whether any of the words stands in a file of the directory, whatever it is pressed into. */
async function wordsFound(directory: string, words: readonly string[]): Promise<string> {
  const run = await palimpsest(["scan", directory, ...words.flatMap((word) => ["--for", word])]);
  return run.code === 0 ? "" : run.out + run.error;
}

test.each(wireNames)(
  "over %s: a record of each kind is gone at once, blocked by a branch, and then proven gone",
  async (name) => {
    const directory = temporaryDirectory();
    const service = await servedFrom(directory);
    const profile: ErasingProfile = await createErasingProfile(service.wire(name), 0);
    await profile.add({ summary: "a bystander" });
    const db = profile.database;
    for (const [kind, { write }] of Object.entries(kinds)) await write(db, wordOf(kind));
    await ok(db.call("DataService.Sync"));
    for (const [kind, { read }] of Object.entries(kinds)) expect(await read(db), kind).toContain(wordOf(kind));
    const words = Object.keys(kinds).map(wordOf);
    expect(await wordsFound(directory, words)).not.toBe("");
    await ok(db.fork("side"));

    const ids = new Map<string, string>();
    for (const [kind, { target, read }] of Object.entries(kinds)) {
      const { body, txid, durableTxid } = await ok(profile.erase(target));
      expect(body, kind).toMatchObject({ status: "pending", target, memory_ids: [], erased_txid: { main: txid } });
      expect(durableTxid).toBeGreaterThanOrEqual(txid!);
      expect(await read(db), kind).toBeUndefined();
      expect(await read(db.at("side")), kind).toContain(wordOf(kind));
      expect((await profile.erase(target)).body, "asked again, it is the same").toMatchObject({ id: body.id });
      ids.set(kind, body.id);
    }
    for (const [kind, id] of ids)
      expect((await profile.until(id, "blocked")).blocked_by, kind).toMatchObject({ branches: ["side"] });

    await ok(db.call("BranchService.DeleteBranch", { branch: "side" }));
    const keys = (await service.call("GET", "/.well-known/jwks.json")).json as object;
    for (const [kind, id] of ids) {
      const { receipt, records } = await profile.until(id, "completed");
      expect(records, kind).toBe(kind === "path" ? 3 : 1);
      expect(receipt.payload, kind).toMatchObject({ target: kinds[kind]!.target, evidence: { traces: { hits: 0 } } });
      expect(verifyReceipt(receipt, keys), kind).toMatchObject({ isValid: true });
    }
    await expect.poll(() => wordsFound(directory, words), { timeout: 60_000, interval: 1_000 }).toBe("");
    expect(await profile.summaries("bystander")).toEqual(["a bystander"]);
    expect((await ok(db.call("DataService.ListTurns", { session: "talk" }))).body.turns).toHaveLength(2);
    expect((await ok(db.call("FileService.GetFile", { path: "notebook.md" }))).body.text).toBe("stays");
    expect(await db.integrity()).toBe("ok");

    // Another value under an erased name is nothing that was erased.
    for (const [kind, { write, read }] of Object.entries(kinds)) {
      if (kind !== "key" && kind !== "vector") continue;
      await write(db, "another");
      expect(await read(db), kind).toBe("another");
    }
    await service.close();
  },
);
