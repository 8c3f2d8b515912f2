/** Small files of our own: whole and durable in their place, or what was there before. */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { markFile, placeFile, realDisk, type Disk } from "../../../src/base/disk.ts";
import { proveLog } from "../../../src/sqlite/wal/wal.ts";
import { temporaryDirectory } from "../../support/temporary.ts";

/** The machine's disk, which tells what was done in which order, and may be short of room. */
function toldDisk(room = Infinity, atOnce = 3): { readonly disk: Disk; readonly told: string[] } {
  const told: string[] = [];
  const left = { bytes: room };
  const disk: Disk = {
    write(descriptor, path, bytes, position) {
      if (left.bytes <= 0) throw Object.assign(new Error("no room"), { code: "ENOSPC" });
      const written = realDisk.write(descriptor, path, bytes.subarray(0, Math.min(atOnce, left.bytes)), position);
      left.bytes -= written;
      return written;
    },
    fdatasync: async (_descriptor, path) => void told.push(`file ${path}, ${statSync(path).size} bytes`),
    syncDirectory: async (path) => void told.push(`folder ${path} with ${readdirSync(path).toSorted().join()}`),
  };
  return { disk, told };
}

describe("a small file", () => {
  test("is written whole however little the disk takes at a time, synced, renamed, and its folder synced", async () => {
    const directory = temporaryDirectory();
    const { disk, told } = toldDisk();
    await placeFile(disk, join(directory, "node-id"), Buffer.from("an identity"));
    expect(readFileSync(join(directory, "node-id"), "utf8")).toBe("an identity");
    expect(statSync(join(directory, "node-id")).mode & 0o777).toBe(0o600);
    expect(told).toEqual([`file ${join(directory, "node-id.new")}, 11 bytes`, `folder ${directory} with node-id`]);
  });

  test("on a full disk stays what it was, and nothing takes the room that is missing", async () => {
    const directory = temporaryDirectory();
    await placeFile(realDisk, join(directory, "node-id"), Buffer.from("before"));
    await expect(
      placeFile(toldDisk(7).disk, join(directory, "node-id"), Buffer.from("afterwards")),
    ).rejects.toMatchObject({ code: "ENOSPC" });
    expect(readdirSync(directory)).toEqual(["node-id"]);
    expect(readFileSync(join(directory, "node-id"), "utf8")).toBe("before");
  });

  test("takes the place of what a crash has left half written, with the mode that it must have", async () => {
    const directory = temporaryDirectory();
    writeFileSync(join(directory, "key.new"), "a longer text than the new one", { mode: 0o644 });
    await placeFile(realDisk, join(directory, "key"), Buffer.from("key"));
    expect(readFileSync(join(directory, "key"), "utf8")).toBe("key");
    expect(statSync(join(directory, "key")).mode & 0o777).toBe(0o600);
    markFile(join(directory, "key"));
    expect(readFileSync(join(directory, "key"), "utf8")).toBe("key");
  });
});

describe("a log that is proven after a failed fsync", () => {
  test("is another file with the same bytes, synced before it takes the place, and its folder after", async () => {
    const directory = temporaryDirectory();
    const path = join(directory, "main.db");
    mkdirSync(directory, { recursive: true });
    writeFileSync(`${path}-wal`, "frames");
    const before = statSync(`${path}-wal`).ino;
    const { disk, told } = toldDisk();
    await proveLog(path, disk);
    expect(readFileSync(`${path}-wal`, "utf8")).toBe("frames");
    expect(statSync(`${path}-wal`).ino).not.toBe(before);
    expect(told).toEqual([`file ${path}-wal.new, 6 bytes`, `folder ${directory} with main.db-wal`]);
    await expect(proveLog(path, { ...disk, fdatasync: () => Promise.reject(new Error("i/o error")) })).rejects.toThrow(
      "i/o error",
    );
    expect(readFileSync(`${path}-wal`, "utf8")).toBe("frames");
    await proveLog(join(directory, "other.db"), disk);
    expect(existsSync(join(directory, "other.db-wal"))).toBe(false);
  });
});
