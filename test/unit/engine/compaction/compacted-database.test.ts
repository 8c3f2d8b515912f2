/**
 * Packs and images of a real database: its log is read, shipped and restored, and every state is compared with SQLite's
 * own.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findRestorePlan, rebased } from "../../../../src/engine/history/timelines.ts";
import { pack, writeImages } from "../../../../src/engine/compaction/compaction.ts";
import { materialise, rollForward } from "../../../../src/engine/segments/restore.ts";
import { computeSha256, type Manifest } from "../../../../src/format/history/manifest.ts";
import { readState } from "../../../../src/model/schema.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { seeded } from "../../../support/random.ts";
import { ShippedDatabase, readContent } from "../../../support/shipped-database.ts";

/** What a restored file is like, if SQLite finds nothing wrong with it. */
function inspect(path: string): { readonly txid: number; readonly content: string; readonly canonical: string } {
  const canonical = Buffer.from(computeSha256(readFileSync(path))).toString("hex");
  const connection = new Connection(path, { readonly: false, pageCacheKiB: 1024 });
  try {
    expect(connection.raw.pragma("integrity_check", { simple: true })).toBe("ok");
    connection.exec("INSERT INTO words (words) VALUES ('integrity-check')");
    return { txid: readState(connection).txid, content: readContent(connection), canonical };
  } finally {
    connection.close();
  }
}

/** A random life of the database: rows come, change and go, and now and then most go at once. */
function randomChange(random: () => number): (connection: Connection) => void {
  const id = Math.floor(random() * 400);
  const body = `token${Math.floor(random() * 1e9)} ${"x".repeat(Math.floor(random() ** 3 * 9_000))}`;
  return (connection) => {
    if (random() < 0.65) {
      connection.run("INSERT OR REPLACE INTO items (id, body) VALUES (?, ?)", id, body);
      connection.run("INSERT OR REPLACE INTO words (rowid, body) VALUES (?, ?)", id, body);
    } else {
      const until = random() < 0.1 ? 1_000 : id + 10;
      connection.run("DELETE FROM items WHERE id BETWEEN ? AND ?", id, until);
      connection.run("DELETE FROM words WHERE rowid BETWEEN ? AND ?", id, until);
    }
  };
}

describe("a real database", () => {
  it.each([1, 2])(
    "F78: every state is restored as SQLite had it, through checkpoints, mass deletes, packs and new bases (seed %i)",
    async (seed) => {
      const random = seeded(seed);
      const database = new ShippedDatabase();
      await database.begin();
      const pasts: Manifest[] = [];
      for (let round = 0; round < 14; round++) {
        for (let count = 0; count < 6; count++) database.commit(randomChange(random));
        await database.ship();
        if (round % 4 === 1) database.checkpoint();
        if (round === 6) {
          // Most of the file is free pages then, which the log leaves as they were.
          database.commit(
            (connection) =>
              void connection.exec(
                "DELETE FROM items; DELETE FROM words; INSERT INTO words (words) VALUES ('optimize')",
              ),
          );
          await database.ship();
        }
        const { refs } = database.manifest;
        if (round === 5 || round === 11) {
          const inputs = refs.slice(-3);
          database.manifest = {
            ...database.manifest,
            refs: [...refs.slice(0, -3), await pack(database.source, inputs, database.makeId())],
          };
        }
        if (round === 8) {
          const { txid } = database.manifest;
          const scratch = join(database.directory, "scratch");
          mkdirSync(scratch);
          const images = await writeImages(
            database.source,
            findRestorePlan(database.manifest, undefined, txid)!,
            scratch,
            "main",
            database.makeId,
          );
          expect(images.pages).toBe(database.manifest.pages);
          expect(readdirSync(scratch)).toEqual([]);
          pasts.push(database.manifest);
          const next = rebased(database.manifest, images.refs, 0)!;
          database.manifest = { ...database.manifest, refs: next.refs, fromTxid: next.fromTxid };
        }
      }
      database.close();
      pasts.push(database.manifest);
      const path = join(database.directory, "restored.db");
      let restored = 0;
      for (const txid of database.contents.keys()) {
        for (const manifest of pasts) {
          const plan = findRestorePlan(manifest, undefined, txid);
          if (!plan) continue;
          rmSync(path, { force: true });
          await materialise(database.source, plan, path);
          expect(inspect(path)).toEqual({
            txid,
            content: database.contents.get(txid),
            canonical: database.canonical.get(txid),
          });
          restored++;
        }
      }
      expect(restored).toBeGreaterThan(database.contents.size);
    },
  );

  it("a file that stopped long ago is rolled forward to the newest state", async () => {
    const random = seeded(3);
    const database = new ShippedDatabase();
    await database.begin();
    for (let count = 0; count < 40; count++) {
      database.commit(randomChange(random));
      if (count % 7 === 0) await database.ship();
    }
    await database.ship();
    database.close();
    const path = join(database.directory, "old.db");
    for (const txid of [0, 11, 39]) {
      rmSync(path, { force: true });
      await materialise(database.source, findRestorePlan(database.manifest, undefined, txid)!, path);
      await rollForward(database.source, findRestorePlan(database.manifest, undefined, 40)!, txid, path);
      expect(inspect(path)).toEqual({
        txid: 40,
        content: database.contents.get(40),
        canonical: database.canonical.get(40),
      });
    }
  });
});
