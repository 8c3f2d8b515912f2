/** A real database whose log is shipped into a store in memory, and what each of its states was like. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { uploadImages } from "../../src/engine/compaction/compaction.ts";
import { computeSha256, type Manifest } from "../../src/format/history/manifest.ts";
import { poolId, segmentKey } from "../../src/format/keys/object-keys.ts";
import { makeCanonical, pageBytes } from "../../src/format/history/pages.ts";
import { inlinePress } from "../../src/format/core/compression.ts";
import type { SegmentRef } from "../../src/format/history/refs.ts";
import { encodeSegment, type PageGroup } from "../../src/format/history/segment.ts";
import { createSchema, readState, decodeStatePage, stateRootPage, writeState } from "../../src/model/schema.ts";
import { Connection } from "../../src/sqlite/connection/connection.ts";
import { WalReader } from "../../src/sqlite/wal/wal-reader.ts";
import { emptyManifest, memorySource, Ulids } from "./model-source.ts";
import { temporaryDirectory } from "./temporary.ts";

/** A database that is written through SQLite and shipped from its log, with what each state was like. */
export class ShippedDatabase {
  readonly source = memorySource();
  readonly directory = temporaryDirectory();
  readonly path = join(this.directory, "main.db");
  readonly connection = new Connection(this.path, { readonly: false, pageCacheKiB: 1024 });
  readonly contents = new Map<number, string>();
  readonly canonical = new Map<number, string>();
  readonly #log: WalReader;
  readonly #statePage: number;
  readonly #ulids = new Ulids();
  readonly #writerEpoch = new Uint8Array(16).fill(9);
  #pages: Uint8Array[] = [];
  #txid = 0;
  manifest: Manifest = emptyManifest("main");

  constructor() {
    createSchema(this.connection);
    this.connection.exec(
      "CREATE TABLE items (id INTEGER PRIMARY KEY, body TEXT); CREATE INDEX by_body ON items (body); CREATE " +
        "VIRTUAL TABLE words USING fts5(body);",
    );
    this.connection.raw.pragma("wal_checkpoint(TRUNCATE)");
    this.#statePage = stateRootPage(this.connection);
    this.#log = new WalReader(this.path);
  }

  makeId = (): string => poolId("main", 1, this.#ulids.next());

  /** The images of the state that the database begins with. */
  async begin(): Promise<void> {
    const state = readState(this.connection);
    const { refs, pages } = await uploadImages(this.source, this.path, state, "main", this.makeId);
    const bytes = readFileSync(this.path);
    this.#pages = Array.from({ length: pages }, (_, index) => {
      const page = new Uint8Array(bytes.subarray(index * pageBytes, (index + 1) * pageBytes));
      makeCanonical(page, index + 1);
      return page;
    });
    this.#remember();
    this.manifest = { ...this.manifest, refs, pages, fromTxid: 0 };
  }

  /** One commit group with its state row. */
  commit(act: (connection: Connection) => void): void {
    this.connection.exec("BEGIN IMMEDIATE");
    act(this.connection);
    this.#txid++;
    writeState(this.connection, {
      txid: this.#txid,
      committedAtMs: this.#txid * 1_000,
      writerEpochId: this.#writerEpoch,
    });
    this.connection.exec("COMMIT");
    this.contents.set(this.#txid, readContent(this.connection));
  }

  #remember(): void {
    this.contents.set(this.#txid, readContent(this.connection));
    this.canonical.set(this.#txid, Buffer.from(computeSha256(Buffer.concat(this.#pages))).toString("hex"));
  }

  /** Ships everything in the log as one object. */
  async ship(): Promise<void> {
    const groups = this.#log
      .read(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)
      .map(({ pages, images }): PageGroup => {
        for (const { page, bytes } of images) makeCanonical(bytes, page);
        const { txid, committedAtMs } = decodeStatePage(images.find(({ page }) => page === this.#statePage)!.bytes);
        this.#pages.length = Math.min(this.#pages.length, pages);
        while (this.#pages.length < pages) this.#pages.push(new Uint8Array(pageBytes));
        for (const { page, bytes } of images) this.#pages[page - 1] = bytes;
        this.canonical.set(txid, Buffer.from(computeSha256(Buffer.concat(this.#pages))).toString("hex"));
        return { txid, committedAtMs, pages, images };
      });
    const last = groups.at(-1);
    if (!last) return;
    const bytes = await encodeSegment(
      { kind: "delta", uuid: this.source.uuid, branchId: "main", epoch: 1, groups },
      inlinePress,
    );
    const ref: SegmentRef = {
      kind: "delta",
      id: this.makeId(),
      firstTxid: groups[0]!.txid,
      lastTxid: last.txid,
      cut: false,
      lastAtMs: last.committedAtMs,
      bytes: bytes.length,
      rawBytes: groups.reduce((sum, { images }) => sum + images.length * pageBytes, 0),
      sha256: computeSha256(bytes),
    };
    await this.source.store.put(segmentKey(this.source.uuid, ref.id), bytes, { kind: "absent" });
    const writerEpochs = [{ epoch: 1, id: this.#writerEpoch, firstTxid: 1, lastTxid: last.txid }];
    this.manifest = {
      ...this.manifest,
      refs: [...this.manifest.refs, ref],
      writerEpochs,
      txid: last.txid,
      committedAtMs: last.committedAtMs,
      pages: last.pages,
    };
  }

  /** Folds the log in, as its owner does when all of it is shipped. */
  checkpoint(): void {
    this.connection.raw.pragma("wal_checkpoint(TRUNCATE)");
    this.#log.restarted();
  }

  close(): void {
    this.#log.close();
    this.connection.close();
  }
}

export function readContent(connection: Connection): string {
  const rows = [
    connection.all("SELECT id, body FROM items ORDER BY id"),
    connection.all("SELECT rowid, body FROM words ORDER BY rowid"),
  ];
  return Buffer.from(computeSha256(Buffer.from(JSON.stringify(rows)))).toString("hex");
}
