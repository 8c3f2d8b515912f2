/** `palimpsest inspect` of single files: what it tells of every kind, of damage and wrong commands, and what never. */
import { readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, test } from "vitest";
import { encodeAuditEvent } from "../../../../src/format/audit/audit-event.ts";
import { auditLinkTo, encodeAuditObject } from "../../../../src/format/audit/audit-object.ts";
import { encodeBackupManifest } from "../../../../src/format/records/backup-manifest.ts";
import { encodeCatalog } from "../../../../src/format/history/catalog.ts";
import { encodeNameClaim } from "../../../../src/format/records/name-claim.ts";
import { encodeSegment } from "../../../../src/format/history/segment.ts";
import { inlinePress } from "../../../../src/format/core/compression.ts";
import { sampleAuditEvents, sampleCatalog, sampleImage, sampleManifest } from "../../../support/format-samples.ts";
import { goldenFormatPath, goldenPath } from "../../../support/make-golden.ts";
import { palimpsest } from "../../../support/command-runs.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import { run, document, golden } from "../../../support/inspections.ts";

/** A file of these bytes. */
function fileOf(bytes: Uint8Array, name = "object"): string {
  const path = join(temporaryDirectory(), name);
  writeFileSync(path, bytes);
  return path;
}

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

describe("a file", () => {
  test("a manifest: fields aligned, times as people and machines write them, references as a table", async () => {
    const path = goldenFormatPath("head");
    const { code, out, error } = await run([path]);
    expect({ code, error }).toEqual({ code: 0, error: "" });
    expect(out.split("\n")[0]).toBe(`manifest ${path}`);
    expect(out).toContain("committed at        2023-11-14T22:13:20.000Z (1700000000000)\n");
    expect(out).toContain("database bytes      28672 B (28.0 KiB)\n");
    expect(out).toMatch(/^references: 2\nkind +first txid +last txid +epoch +bytes +raw bytes +cut +last at .*\n/m);
    expect(out).toMatch(/^delta +10 +9007199254740991 +9007199254740991 +2000 B \(2\.0 KiB\) .* yes /m);
    expect(await document([path])).toMatchObject({
      v: 1,
      kind: "manifest",
      where: path,
      format_version: 1,
      database: sampleManifest.uuid,
      branch_id: sampleManifest.branchId,
      writer_epoch: 3,
      previous_sha256: hexOf(sampleManifest.prevHash),
      committed_at: sampleManifest.committedAtMs,
      history_key: `db/${sampleManifest.uuid}/hist/${sampleManifest.history!.id}`,
      references: [
        { kind: "image", epoch: 1, cut: false, sha256: hexOf(sampleManifest.refs[0]!.sha256) },
        { kind: "delta", first_txid: 10, last_txid: 2 ** 53 - 1, cut: true, id: sampleManifest.refs[1]!.id },
      ],
      tail: [{ first_txid: 41, last_txid: 43, bytes: 40 }],
      writer_epochs: [{ last_txid: 30 }, { first_txid: 41, last_txid: null }],
      lost: [{ first_txid: 31, last_txid: 40 }],
      left_out: { references: 0, tail: 0, writer_epochs: 0, lost: 0 },
      damage: [],
    });
  });

  test("a segment: groups with times and page numbers, never pages", async () => {
    const path = goldenFormatPath("segment");
    expect(await document([path])).toMatchObject({
      kind: "segment",
      page_images: 5,
      segments: [
        { segment: 0, offset: 0, kind: "delta", first_txid: 41, last_txid: 43, epoch: 3, frames: 1 },
        { segment: 1, kind: "image", first_txid: 9, branch_id: "main" },
      ],
      groups: [
        {
          txid: 41,
          committed_at: 1_700_000_000_000,
          pages: 300_000,
          page_numbers: {
            ranges: [
              [1, 1],
              [300_000, 300_000],
            ],
          },
        },
        { txid: 42, page_images: 0, page_numbers: { ranges: [], left_out: 0 } },
        { txid: 43 },
        { segment: 1, txid: 9, page_numbers: { ranges: [[1, 2]] } },
      ],
    });
    expect((await run([path])).out).toMatch(/^ +0 +41 +2023-11-14T22:13:20\.000Z \(1700000000000\) .* 1, 300000$/m);
  });

  test.each([
    [
      "history",
      1,
      { kind: "history", timelines: [{ references: 2, from_txid: 9 }, {}], references: [{ timeline: 0 }, {}] },
    ],
    ["catalog", 1, { kind: "catalog", seq: 12, branches: [{ name: "main" }, { fork_txid: 17, parent: "main" }, {}] }],
    ["copy", 1, { kind: "copy_record", node: "db-2.übung", files_removed: 3 }],
    ["coupon", 1, { kind: "coupon", status: "blocked", traces: 3, traces_total: 70, target: "topic" }],
    ["coupon", 2, { kind: "coupon", status: "pending", awaited_copies: [{}, { node_id: "node_b" }] }],
    ["receipt", 1, { kind: "receipt", alg: "EdDSA", pages_scanned: 345 }],
    ["receipt", 2, { kind: "receipt", unattested_nodes: [{ node_id: "01HF7YAT00000000000000000N" }] }],
  ])("a %s of version %s, in both forms", async (name, version, told) => {
    const path = goldenFormatPath(name, version);
    expect(await document([path])).toMatchObject({ ...told, damage: [] });
    const { code, out } = await run([path]);
    expect(code).toBe(0);
    expect(out.split("\n")[0]).toBe(`${told.kind.replace("_", " ")} ${path}`);
  });

  test("records in JSON: a claim, a backup, a store's layout, audit events that follow from each other", async () => {
    const atMs = 1_700_000_000_000;
    const claim = fileOf(
      encodeNameClaim({ uuid: sampleManifest.uuid, createdAtMs: atMs, deletedAtMs: atMs + 1, deletion: 7 }),
    );
    expect(await document([claim])).toMatchObject({
      kind: "name_claim",
      is_deleted: true,
      deleted_at: atMs + 1,
      freed_at: null,
      deletion: 7,
    });
    const backup = encodeBackupManifest({
      id: "01HF7YAT000000000000000001",
      state: "copying",
      from: "s3://bucket",
      scope: ["one"],
      startedAtMs: atMs,
      signingKey: false,
    });
    expect(await document([fileOf(backup)])).toMatchObject({
      kind: "backup",
      state: "copying",
      scope: [{ database: "one" }],
    });
    const layout = Buffer.from(JSON.stringify({ v: 1, layout: 1, written_by: "0.1.0" }));
    expect(await document([fileOf(layout)])).toMatchObject({ kind: "layout", layout: 1, written_by: "0.1.0" });
    const [first, second] = sampleAuditEvents;
    const line = encodeAuditEvent(first!);
    const audit = encodeAuditObject([line, encodeAuditEvent({ ...second!, prev: auditLinkTo(line) })]);
    expect(await document([fileOf(audit)])).toMatchObject({
      kind: "audit",
      namespace: "acme",
      events: [
        { line: 1, action: "memory.ingest", txid: 7 },
        { line: 2, action: "ai.embed" },
      ],
    });
    // The events of the golden file do not follow from each other.
    const { damage } = await document([goldenFormatPath("audit")], 1);
    expect(damage).toHaveLength(2);
  });

  test("a SQLite file without a log", async () => {
    expect(await document([goldenPath])).toMatchObject({
      kind: "database_file",
      txid: 10,
      committed_at: 1_700_000_009_000,
      pages: 41,
      page_bytes: 4096,
      log: false,
    });
  });

  test("what it is not: the kinds are named", async () => {
    for (const bytes of [Buffer.from("hello"), Buffer.from("{}"), Buffer.from("[1]"), Buffer.of(), Buffer.of(1, 2)]) {
      const { code, out, error } = await run([fileOf(bytes)]);
      expect({ code, out }).toEqual({ code: 1, out: "" });
      expect(error).toContain("nothing that can be told of: manifest, segment, history, catalog, name_claim");
    }
    expect(await run([temporaryDirectory()])).toMatchObject({ code: 1, error: expect.stringContaining("a folder") });
    expect(await run(["/nowhere/at/all"])).toMatchObject({
      code: 1,
      error: expect.stringContaining("there is no file"),
    });
  });
});

test("every member of the JSON documents stands in the documentation", async () => {
  const text = readFileSync(join(import.meta.dirname, "../../../../docs/storage-engine.md"), "utf8");
  const rows = new Map([...text.matchAll(/^\| `(\w+)` \|(.+)$/gm)].map(([, kind, row]) => [kind!, row!]));
  const common = ["v", "kind", "where", "bytes", "sha256", "format_version", "body_bytes", "left_out", "damage"];
  for (const name of ["head", "segment", "history", "catalog", "copy", "coupon", "receipt"]) {
    const told = await document([goldenFormatPath(name)]);
    const missing = Object.keys(told).filter(
      (member) =>
        !common.includes(member) && !member.startsWith("target_") && !rows.get(told["kind"])?.includes(`\`${member}\``),
    );
    expect(missing, name).toEqual([]);
  }
});

describe("tables are bounded", () => {
  test("what is left out is counted, and --limit shows it", async () => {
    const path = fileOf(
      encodeCatalog({
        ...sampleCatalog,
        condemned: Array.from({ length: 60 }, (_, atMs) => ({
          key: `seg/main-${atMs}-01HF7YAT000000000000000002`,
          atMs,
        })),
      }),
    );
    const short = await run(["--limit", "2", path]);
    expect(short.out).toContain("\nand 58 more; --limit 60 shows all\n");
    expect((await run([path])).out).toContain("\nand 10 more; --limit 60 shows all\n");
    expect((await run(["--limit", "60", path])).out).not.toContain(" more; ");
    const { condemned, branches, left_out: leftOut } = await document(["--limit", "2", path]);
    expect([condemned.length, branches.length, leftOut]).toEqual([2, 2, { condemned: 58, branches: 1 }]);
  });

  test("page numbers of a group that changed many", async () => {
    const bytes = new Uint8Array(4096);
    const images = Array.from({ length: 30 }, (_, at) => ({ page: 2 * at + 1, bytes }));
    const segment = { ...sampleImage, groups: [{ ...sampleImage.groups[0]!, pages: 60, images }] };
    const path = fileOf(await encodeSegment(segment, inlinePress));
    expect((await run([path])).out).toContain("1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, … and 18 more");
  });

  test("a name of somebody else does not steer a terminal", async () => {
    const path = fileOf(encodeCatalog({ ...sampleCatalog, condemned: [{ key: "seg/\u001b[2Jx", atMs: 1 }] }));
    expect((await run([path])).out).toContain("seg/\\u{1b}[2Jx");
  });
});

describe("damage is told, with where it is", () => {
  test("cut, turned, of another kind and of another version", async () => {
    const bytes = golden("head");
    const flipped = bytes.with(100, bytes[100]! ^ 1);
    const cut = await document([fileOf(bytes.slice(0, 300))], 1);
    expect(cut).toMatchObject({ kind: "manifest", bytes: 300, format_version: 1, body_bytes: 535 });
    expect(cut["damage"]).toEqual([
      "a manifest cannot be read: it ends too early",
      "at byte 5: it says that its body has 535 bytes, and it ends at byte 300",
    ]);
    const turned = await run([fileOf(flipped)]);
    expect(turned).toMatchObject({ code: 1, error: "" });
    expect(turned.out).toContain("DAMAGED: a manifest cannot be read: its checksum is wrong\n");
    expect(turned.out).toContain("DAMAGED: bytes 0 to 543 do not have the checksum that stands at byte 544\n");
    expect((await document([fileOf(bytes.slice(0, 6))], 1))["damage"]).toContainEqual(
      "it ends at byte 6, before its magic, version and length are complete",
    );
    expect((await document([fileOf(Uint8Array.of(...bytes, 0))], 1))["damage"]).toEqual([
      "a manifest cannot be read: it goes on after its end",
    ]);
  });

  test("in the midst of a pack: what stands before it is told", async () => {
    const bytes = golden("segment");
    const [first, second] = (await document([goldenFormatPath("segment")]))["segments"];
    const inIndex = await document([fileOf(bytes.with(second.offset + 20, 0xff))], 1);
    expect(inIndex).toMatchObject({ segments: [first], groups: [{ txid: 41 }, { txid: 42 }, { txid: 43 }] });
    expect(inIndex["damage"][0]).toBe("from byte 396 on: a segment cannot be read: its checksum is wrong");
    expect(inIndex["damage"][1]).toMatch(/^bytes 396 to \d+ do not have the checksum that stands at byte \d+$/);
    const inFrame = await document([fileOf(bytes.with(bytes.length - 1, bytes.at(-1)! ^ 1))], 1);
    expect(inFrame["damage"]).toEqual([
      expect.stringMatching(/^frame 0 of segment 1 \(bytes \d+ to 745\) has another checksum than its index says$/),
    ]);
    expect((await document([fileOf(bytes.slice(0, 300))], 1))["damage"][0]).toMatch(/ends too early/);
  });

  test("records in JSON, of another version too, and nothing of them is quoted", async () => {
    const coupon = golden("coupon");
    expect((await document([fileOf(coupon.with(80, 0x7e))], 1))["damage"]).toEqual([
      "a coupon is cut or changed: its checksum is wrong",
    ]);
    const copy = Buffer.from(golden("copy")).toString();
    expect((await document([fileOf(Buffer.from(copy.replace('"v":1', '"v":99')))], 1))["damage"]).toEqual([
      expect.stringContaining("format version 99, written by a newer build; this build reads version 1"),
    ]);
    const lines = Buffer.from(golden("audit")).toString().split("\n");
    const broken = Buffer.from([lines[0], lines[1]!.replace("ai.embed", "ai.dream"), lines[2], ""].join("\n"));
    expect((await document([fileOf(broken)], 1))["damage"]).toEqual(["line 2: an audit event has an unknown form"]);
  });

  test("a SQLite file that is cut, or whose state row is gone", async () => {
    const bytes = new Uint8Array(readFileSync(goldenPath));
    expect((await document([fileOf(bytes.slice(0, 9_000))], 1))["damage"]).toEqual([
      "it ends at byte 9000, within a page of 4096 bytes",
      "at byte 28: it says that it has 41 pages, and it ends at byte 9000",
    ]);
    const { damage, txid } = await document([fileOf(bytes.map((byte, at) => (at >= 4096 && at < 8192 ? 0 : byte)))], 1);
    expect([damage.length, txid]).toEqual([1, undefined]);
    expect(await run([fileOf(bytes.slice(0, 50))])).toMatchObject({
      code: 1,
      error: expect.stringContaining("byte 50"),
    });
  });
});

describe("a wrong command line is 2, and says what is allowed", () => {
  test.each([
    [[], "give a file, a key, or --database"],
    [["a", "--database", "one"], "give a file, a key, or --database"],
    [["--database", "one"], "give --object-store or set SERVICE_OBJECT_STORE"],
    [["--object-store", "gopher://x", "backup"], "SERVICE_OBJECT_STORE"],
    [["--object-store", "mem://", "backup"], "mem://"],
    [["--object-store", "file:///nowhere/at/all", "backup"], "there is no directory"],
  ])("%j", async (given, words) => {
    const { code, out, error } = await run(given);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(error).toContain(words);
  });

  test("keys that cannot be told of, the signing key among them", async () => {
    const url = `file://${temporaryDirectory()}`;
    for (const key of ["keys/signing", "policies/acme/namespace", "db/x/head/main", "seg/1", "../etc/passwd"]) {
      const { code, error } = await run(["--object-store", url, key]);
      expect(code, key).toBe(2);
      expect(error).toContain("db/<uuid>/head/<branch id>, db/<uuid>/seg/<id>");
    }
    expect((await run(["--object-store", url, "name/one.json"])).error).toContain("(did you mean names/…?)");
    expect((await run(["--object-store", url, "--database", "No Name"])).code).toBe(2);
  });

  test("a limit that is none", async () => {
    // A fault of the command line's form is commander's to tell; the program answers 2 then.
    for (const limit of ["0", "-1", "x", "1e3", "99999999999"])
      expect((await run([`--limit=${limit}`, basename(goldenPath)])).error).toContain(
        "a whole number from 1 to 10000000",
      );
  });

  test("the program has the command, and answers 2 for what its parser refuses", async () => {
    expect((await palimpsest(["--help"])).out).toMatch(/^ +inspect /m);
    expect(await palimpsest(["inspect", "--limit", "0", goldenPath])).toMatchObject({ code: 2, out: "" });
    expect(await palimpsest(["inspect", "--nonsense"])).toMatchObject({ code: 2, out: "" });
    expect(await palimpsest(["inspect", goldenPath])).toMatchObject({ code: 0, error: "" });
  });

  test("--help names the keys", async () => {
    expect((await run(["--help"])).out).toContain("  db/<uuid>/head/<branch id>\n");
  });
});
