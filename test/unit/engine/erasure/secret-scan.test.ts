/** The search for residue: every form, wherever it lies; and nothing where there is none. */
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Sqlite from "better-sqlite3";
import { describe, expect, test } from "vitest";
import { realWorld } from "../../../../src/base/world.ts";
import {
  scanDirectory,
  scanStore,
  type Residue,
  residuePieceBytes,
} from "../../../../src/engine/erasure/secret-scan.ts";
import { encodeManifest } from "../../../../src/format/history/manifest.ts";
import { manifestKey, segmentKey } from "../../../../src/format/keys/object-keys.ts";
import { pageBytes } from "../../../../src/format/history/pages.ts";
import { inlinePress } from "../../../../src/format/core/compression.ts";
import { encodeSegment, framePages } from "../../../../src/format/history/segment.ts";
import { FileStore } from "../../../../src/store/file/file-store.ts";
import { MemoryStore } from "../../../../src/store/memory-store.ts";
import { emptyManifest, modelUuid } from "../../../support/model-source.ts";
import { seeded } from "../../../support/random.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

const absent = { kind: "absent" } as const;
const found = ({ hits }: Residue): string[] =>
  hits.map(({ secret, form, isWhole, offset }) => `${secret} ${form}${isWhole ? "" : " part"} ${offset}`);

function noise(bytes: number, seed: number): Buffer {
  const random = seeded(seed);
  return Buffer.from(Array.from({ length: bytes }, () => Math.floor(random() * 256)));
}

function buildFile(...parts: readonly (string | Uint8Array)[]): string {
  const path = join(temporaryDirectory(), "file");
  writeFileSync(path, Buffer.concat(parts.map((part) => Buffer.from(part as string))));
  return path;
}

function floats(numbers: readonly number[]): Buffer {
  return Buffer.from(new Float32Array(numbers).buffer);
}

describe("forms", () => {
  const secret = 'Schöne "Grüße" 🐟\n';
  const escaped = JSON.stringify(secret).slice(1, -1);
  const units = (text: string, capital: boolean, which: RegExp): string =>
    text.replace(which, (unit) => {
      const hex = unit.charCodeAt(0).toString(16).padStart(4, "0");
      return `\\u${capital ? hex.toUpperCase() : hex}`;
    });
  const forms: readonly (readonly [string, string, Uint8Array | string])[] = [
    ["UTF-8", "text", secret],
    ["UTF-16LE", "utf-16", Buffer.from(secret, "utf16le")],
    ["UTF-16BE", "utf-16", Buffer.from(secret, "utf16le").swap16()],
    ["JSON", "json", JSON.stringify({ a: [secret] })],
    ["JSON in ASCII", "json", units(escaped, false, /[^\0-\x7f]/g)],
    ["JSON in ASCII, capitals", "json", units(escaped, true, /[^\0-\x7f]/g)],
    ["JSON, every character", "json", units(secret, false, /[^]/g)],
    ["JSON, every character, capitals", "json", units(secret, true, /[^]/g)],
    ...["", "x", "xy"].flatMap((before) => [
      [`Base64 after ${before.length}`, "base64", Buffer.from(`${before}${secret}!`).toString("base64")] as const,
      [
        `Base64url after ${before.length}`,
        "base64",
        Buffer.from(`${before}${secret}?>`).toString("base64url"),
      ] as const,
      [
        `a token's payload after ${before.length}`,
        "base64",
        Buffer.from(JSON.stringify({ [before]: secret })).toString("base64url"),
      ] as const,
    ]),
  ];

  test.each(forms)("%s", async (_, form, bytes) => {
    const path = buildFile("before ", bytes, " after");
    const { hits } = await scanDirectory(path, ["another one", secret]);
    expect(hits).toEqual([
      { where: path, secret: 1, form, isWhole: true, inPage: undefined, offset: expect.any(Number) },
    ]);
    expect((await scanDirectory(path, [`${secret}...`, `...${secret}`])).hitsTotal).toBe(0);
  });

  test("a vector, as given and of length 1, and its text", async () => {
    const numbers = [0.25, -3, 1e-3, 17.5];
    const length = Math.hypot(...numbers);
    const text = JSON.stringify(numbers);
    for (const [bytes, form] of [
      [floats(numbers), "float32"],
      [floats(numbers.map((number) => number / length)), "float32"],
      [text, "text"],
    ] as const) {
      expect(found(await scanDirectory(buildFile("x", bytes), [text]))).toEqual([`0 ${form} 1`]);
    }
    expect((await scanDirectory(buildFile(Buffer.alloc(100)), ["[0,0,0,0]", "[1,2", "[1e999]"])).hitsTotal).toBe(0);
  });

  test(
    "random bytes hold none of 2,000 secrets; planted ones are found, each where it is, pieces' ends " + "included",
    async () => {
      const secrets = Array.from({ length: 2_000 }, (_, index) => `secret-${noise(6, index).toString("hex")}`);
      const bytes = Buffer.concat(Array.from<Buffer>({ length: 9 }).fill(noise(2 ** 20, 7)));
      expect((await scanDirectory(buildFile(bytes), secrets)).hitsTotal).toBe(0);
      const places = [0, residuePieceBytes - 10, 2 * residuePieceBytes - 1, bytes.length - secrets[0]!.length];
      for (const [index, place] of places.entries()) bytes.write(secrets[index]!, place);
      expect(found(await scanDirectory(buildFile(bytes), secrets))).toEqual(
        places.map((place, index) => `${index} text ${place}`),
      );
    },
  );
});

describe("databases", () => {
  const stem = "erased-and-kept-alike-";
  const erased = `${stem}0001`;
  const kept = `${stem}0002`;

  /** A row of so many bytes keeps so many of them on its leaf and gives 4,092 to each further page. */
  const rowBytes = 13_000;
  const leafCut = 720;

  /**
   * What is found in a database of one row that has the text after so many bytes: in its file, or all of it in its log.
   */
  async function scanned(before: number, text: string, inLog: boolean): Promise<Residue> {
    const directory = temporaryDirectory();
    const db = new Sqlite(join(directory, "a.db"));
    db.pragma("synchronous = off");
    db.pragma("journal_mode = wal");
    db.pragma("wal_autocheckpoint = 0");
    db.exec("CREATE TABLE t (v)");
    db.prepare("INSERT INTO t VALUES (?)").run(`${"b".repeat(before)}${text}`.padEnd(rowBytes, "a"));
    if (!inLog) db.pragma("wal_checkpoint(TRUNCATE)");
    const residue = await scanDirectory(directory, [erased]);
    db.close();
    return residue;
  }

  test.each([
    ["its leaf and another page of the file", leafCut, false],
    ["its leaf and another page of the log", leafCut, true],
    ["two further pages of the file", leafCut + 4092, false],
    ["two further pages of the log", leafCut + 4092, true],
  ])(
    "a secret across %s is found wherever it is cut; one that begins alike and is not cut is not",
    async (_, cut, inLog) => {
      let parts = 0;
      for (let before = cut - 40; before <= cut + 10; before++) {
        const { hits } = await scanned(before, erased, inLog);
        expect(hits.length, `${before}`).toBeGreaterThan(0);
        if (!hits.some(({ isWhole }) => isWhole)) parts++;
      }
      expect(parts).toBe(erased.length - 1);
      for (const before of [cut - 60, cut - 42, cut + 12, cut + 60])
        expect(found(await scanned(before, kept, inLog))).toEqual([]);
    },
  );

  test("a vector longer than a page", async () => {
    const random = seeded(3);
    const vector = Array.from({ length: 1536 }, () => random() - 0.5);
    const directory = temporaryDirectory();
    const db = new Sqlite(join(directory, "a.db"));
    db.exec("CREATE TABLE t (v)");
    db.prepare("INSERT INTO t VALUES (?)").run(floats(vector));
    db.close();
    const { hits } = await scanDirectory(directory, [JSON.stringify(vector), JSON.stringify(vector.toReversed())]);
    expect(hits.length).toBeGreaterThan(0);
    expect(new Set(hits.map(({ secret, form }) => `${secret} ${form}`))).toEqual(new Set(["0 float32"]));
  });
});

describe("objects", () => {
  const secret = "the harbour master's name";

  function page(seed: number, text = ""): Uint8Array {
    // Sixteen kinds of bytes, so that nothing stays as it is when it is compressed.
    const bytes = Buffer.from(noise(pageBytes / 2, seed).toString("hex"));
    bytes.write(text, 1000);
    return bytes;
  }

  /** A delta of two commits: more images than a frame holds, the last of which has the text. */
  function segment(txid: number, text: string): Promise<Uint8Array> {
    const images = (count: number, last: string) =>
      Array.from({ length: count }, (_, index) => ({
        page: index + 1,
        bytes: page(index, index === count - 1 ? last : ""),
      }));
    const groups = [
      { txid, committedAtMs: 1, pages: 300, images: images(framePages - 10, "") },
      { txid: txid + 1, committedAtMs: 2, pages: 300, images: images(20, text) },
    ];
    return encodeSegment({ kind: "delta", uuid: modelUuid, branchId: "main", epoch: 1, groups }, inlinePress);
  }

  const id = (n: number): string => `main-1-0000000000000000000000000${n}`;

  test(
    "pages inside packed segments and inside the tail of a manifest, in any store, and beside one that is " + "broken",
    async () => {
      const directory = join(temporaryDirectory(), "objects");
      const [pack, broken] = [
        Buffer.concat([await segment(1, ""), await segment(3, secret)]),
        Buffer.from(await segment(5, secret)),
      ];
      broken[broken.length - 5]! ^= 1;
      const small = await encodeSegment(
        {
          kind: "delta",
          uuid: modelUuid,
          branchId: "main",
          epoch: 1,
          groups: [{ txid: 9, committedAtMs: 1, pages: 2, images: [{ page: 2, bytes: page(1, secret) }] }],
        },
        inlinePress,
      );
      const manifest = encodeManifest({
        ...emptyManifest("main"),
        tail: [{ firstTxid: 9, lastTxid: 9, lastAtMs: 1, rawBytes: pageBytes, bytes: small }],
      });
      expect(Buffer.concat([pack, manifest]).includes(secret)).toBe(false);

      for (const store of [new MemoryStore(), await FileStore.open(directory, realWorld())]) {
        await store.put(segmentKey(modelUuid, id(1)), pack, absent);
        await store.put(segmentKey(modelUuid, id(2)), broken, absent);
        await store.put(segmentKey(modelUuid, id(3)), pack.subarray(0, pack.length - 100), absent);
        await store.put(manifestKey(modelUuid, "main"), manifest, absent);
        await store.put("names/plain.json", Buffer.from(`{"x":"${secret}"}`), absent);
        const residue = await scanStore(store, ["somebody else", secret]);
        const hit = { secret: 1, form: "text", isWhole: true, offset: 1000 };
        expect(residue.hits).toEqual([
          { ...hit, where: manifestKey(modelUuid, "main"), inPage: { txid: 9, page: 2 } },
          { ...hit, where: segmentKey(modelUuid, id(1)), inPage: { txid: 4, page: 20 } },
          { ...hit, where: "names/plain.json", inPage: undefined, offset: 6 },
        ]);
        // Of the broken one the frame before was read; the one that was cut says so.
        expect(residue.unread).toEqual([
          { where: segmentKey(modelUuid, id(2)), why: expect.stringContaining("checksum") },
          { where: segmentKey(modelUuid, id(3)), why: expect.stringContaining("too early") },
        ]);
        expect(residue).toMatchObject({ places: 5, pages: 2 * (framePages + 10) + framePages + 1 });
      }

      const asFiles = await scanDirectory(directory, [secret]);
      expect(asFiles.hits.map(({ inPage }) => inPage)).toEqual(
        expect.arrayContaining([{ txid: 4, page: 20 }, { txid: 9, page: 2 }, undefined]),
      );
      expect(asFiles.hitsTotal).toBe(3);
      expect(asFiles.unread).toHaveLength(2);
    },
  );

  test("half a secret counts at a page's end and where a row goes on, and nowhere else", async () => {
    const [front, back] = [secret.slice(0, 16), secret.slice(-16)];
    const pages: readonly (readonly [text: string, at: number])[] = [
      [front, pageBytes - front.length],
      [back, 4],
      [front, 2000],
      [back, 5],
      ["", 0],
    ];
    const images = pages.map(([text, at], index) => {
      const bytes = new Uint8Array(pageBytes).fill(0x0d);
      bytes.set(Buffer.from(text), at);
      return { page: index + 1, bytes };
    });
    const store = new MemoryStore();
    const groups = [{ txid: 1, committedAtMs: 1, pages: pages.length, images }];
    await store.put(
      segmentKey(modelUuid, id(1)),
      await encodeSegment({ kind: "image", uuid: modelUuid, branchId: "main", epoch: 1, groups }, inlinePress),
      absent,
    );
    const { hits } = await scanStore(store, [secret]);
    expect(hits.map(({ inPage, isWhole, offset }) => [inPage?.page, isWhole, offset])).toEqual([
      [1, false, pageBytes - front.length],
      [2, false, 4 + back.length - Math.ceil(secret.length / 2)],
    ]);
  });

  test("a directory shows older versions of its store's objects too, until they are purged", async () => {
    const directory = join(temporaryDirectory(), "objects");
    const store = await FileStore.open(directory, realWorld());
    const first = await store.put("k", await segment(1, secret), absent);
    await store.put("k", await segment(1, ""), {
      kind: "version",
      version: first.kind === "stored" ? first.version : "",
    });
    expect((await scanStore(store, [secret])).hitsTotal).toBe(0);
    expect((await scanDirectory(directory, [secret])).hitsTotal).toBe(1);
    await store.purgeVersions("");
    expect(await scanDirectory(directory, [secret])).toMatchObject({ hits: [], hitsTotal: 0, unread: [] });
  });

  test("what cannot be read is told; links are not followed", async () => {
    const directory = temporaryDirectory();
    mkdirSync(join(directory, "below"));
    writeFileSync(join(directory, "below", "cut"), "PLHD and nothing more");
    symlinkSync(directory, join(directory, "round"));
    const residue = await scanDirectory(directory, [secret]);
    expect(residue).toMatchObject({ hitsTotal: 0, places: 1, unread: [{ where: join(directory, "below", "cut") }] });
  });
});
