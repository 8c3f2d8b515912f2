/** Faults in what stands below the engine: SQLite's files, formats, stores. */
import type { Mutant } from "./mutant.ts";

export const storageMutants: readonly Mutant[] = [
  {
    name: "short-write-ignored",
    why: "A full disk takes a part of a file, and the rest is zeros.",
    file: "base/disk.ts",
    find: ["    done += written;"],
    replace: ["    done = bytes.length;"],
    suites: [{ file: "test/unit/base/disk.test.ts" }],
  },
  {
    name: "new-folder-not-synced",
    why: "A loss of power takes a new database's folder, with all that was answered from it.",
    file: "engine/local/database-files.ts",
    find: ["  await disk.syncDirectory(dirname(directory));"],
    replace: [],
    suites: [{ seeds: 40 }],
  },
  {
    name: "rolled-forward-not-synced",
    why: "A file that was rolled forward is torn by a loss of power, and nothing says so.",
    file: "engine/segments/restore.ts",
    find: ["    await source.disk.fdatasync(descriptor, path);"],
    replace: [],
    suites: [{ seeds: 40 }],
  },
  {
    name: "log-reader-ignores-checksums",
    why: "A torn or rolled-back frame is shipped as if it had been committed.",
    file: "sqlite/wal/wal-frames.ts",
    find: [
      "    if (chunk.readInt32BE(at + 16) !== this.#sums[0] || chunk.readInt32BE(at + 20) !== this.#sums[1]) " +
        "return false;",
    ],
    replace: [],
    suites: [{ file: "test/unit/sqlite/wal/wal-reader.test.ts" }],
  },
  {
    name: "seal-ignores-checksum",
    why: "A manifest with a flipped bit is believed.",
    file: "format/core/seal.ts",
    find: ['  prefix.require(sound, "its checksum is wrong");'],
    replace: [],
    suites: [{ file: "test/unit/format/core/seal.test.ts" }, { file: "test/unit/format/history/manifest.test.ts" }],
  },
  {
    name: "slack-left-in-the-file",
    why: "Deleted rows stay readable in the unused bytes of pages.",
    file: "sqlite/pages/slack.ts",
    find: ["      if (page.equals(before)) continue;"],
    replace: ["      if (page.length > 0) continue;"],
    suites: [{ file: "test/unit/sqlite/pages/slack.test.ts" }],
  },
  {
    name: "own-put-taken-for-anothers",
    why: "A put whose answer was lost has landed, and its writer takes it for somebody else's and gives the branch up.",
    file: "store/port/sure-put.ts",
    find: ['  if (current && sameBytes(current.bytes, bytes)) return { kind: "landed", version: current.version };'],
    replace: [],
    suites: [{ file: "test/unit/store/port/sure-put.test.ts" }, { seeds: 40 }],
  },
  {
    name: "cut-refusal-is-final",
    why: "A refusal whose reason was cut off is reported as a wrong configuration, for which nobody asks again.",
    file: "store/s3/s3-failure.ts",
    find: ['  if (status >= 300 && status < 500 && cutCodes.has(code)) return "busy";'],
    replace: [],
    suites: [{ file: "test/unit/store/s3/s3-store.test.ts" }],
  },
];
