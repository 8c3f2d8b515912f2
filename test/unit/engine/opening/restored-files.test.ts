/**
 * A file that is restored or rolled forward: what is on disk before it counts, and which transaction ids its node may
 * give.
 */
import { copyFileSync, cpSync, existsSync, fstatSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { realDisk, type Disk } from "../../../../src/base/disk.ts";
import { limits } from "../../../../src/base/limits.ts";
import {
  allowAll,
  getFilePath,
  keysInStore,
  listKeys,
  kill,
  putAll,
  refusePuts,
  start,
} from "../../../support/mortal-node.ts";
import { soundDisk } from "../../../support/sound-disk.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import { noise, TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";
import { idleCloseMs } from "../../../../src/server/config/settings.ts";

interface Deed {
  readonly what: "write" | "fdatasync" | "syncDirectory";
  readonly path: string;
  /** Of the file that was written or synced: it keeps it through renames. */
  readonly inode: number | undefined;
  /** What stood in the directory then. */
  readonly names: readonly string[];
}

/** A disk that notes what is asked of it, in order. */
class LedgerDisk implements Disk {
  readonly deeds: Deed[] = [];
  /** Called after each. */
  after: () => void = () => {};

  write(descriptor: number, path: string, bytes: Uint8Array, position: number): number {
    this.#note("write", path, fstatSync(descriptor).ino, dirname(path));
    return realDisk.write(descriptor, path, bytes, position);
  }

  async fdatasync(descriptor: number, path: string): Promise<void> {
    this.#note("fdatasync", path, fstatSync(descriptor).ino, dirname(path));
  }

  async syncDirectory(path: string): Promise<void> {
    this.#note("syncDirectory", path, undefined, path);
  }

  #note(what: Deed["what"], path: string, inode: number | undefined, directory: string): void {
    this.deeds.push({ what, path, inode, names: readdirSync(directory) });
    this.after();
  }

  /** Where in the order the file was last written, and first synced after that; -1 where never. */
  findLast(inode: number): { readonly written: number; readonly synced: number } {
    const written = this.deeds.findLastIndex((deed) => deed.what === "write" && deed.inode === inode);
    return {
      written,
      synced: this.deeds.findIndex(
        (deed, index) => index > written && deed.what === "fdatasync" && deed.inode === inode,
      ),
    };
  }

  /** The first sync of the folder that had the name, and the first that lacked it after it had it. */
  entry(name: string): { readonly came: number; readonly went: number } {
    const isSynced = (has: boolean, from: number): number =>
      this.deeds.findIndex(
        (deed, index) =>
          index > from &&
          deed.what === "syncDirectory" &&
          basename(deed.path) !== "db" &&
          !deed.path.includes("quarantine") &&
          deed.names.includes(name) === has,
      );
    const came = isSynced(true, -1);
    return { came, went: isSynced(false, came) };
  }
}

/** A node that has written so much that there are objects, and the directory as it was in the middle of that. */
async function written(): Promise<{ time: VirtualTime; node: TimedEngine; older: string }> {
  const time = new VirtualTime();
  const node = start(time);
  await putAll(node, listKeys(1, 3));
  await node.sync();
  await time.pass(60_000);
  const older = temporaryDirectory();
  cpSync(node.directory, older, { recursive: true });
  await putAll(node, listKeys(4, 6));
  await time.of(node.putting("bulk", "main", {}, noise(100_000)));
  await node.sync();
  return { time, node, older };
}

const ledgered = (
  time: VirtualTime,
  directory: string,
  nodeId = "test-node",
): { node: TimedEngine; disk: LedgerDisk } => {
  const disk = new LedgerDisk();
  return { disk, node: new TimedEngine(time, { nodeId }, directory, time.store, disk) };
};

describe("what is on disk, and in which order", () => {
  test("a restored file is synced before its name is, and its marker stands before it", async () => {
    const { time, node } = await written();
    await node.close();
    const { node: next, disk } = ledgered(time, temporaryDirectory(), "other");
    expect(await next.keys()).toHaveLength(7);
    const { written: at, synced } = disk.findLast(statSync(getFilePath(next)).ino);
    expect(at).toBeGreaterThanOrEqual(0);
    expect(synced).toBeGreaterThan(at);
    const named = disk.entry("main.db").came;
    expect(named).toBeGreaterThan(synced);
    expect(disk.entry("main.db.restored").came).toBeGreaterThanOrEqual(0);
    expect(disk.entry("main.db.restored").came).toBeLessThan(named);
    expect(disk.entry("main.db.restored")).toMatchObject({ went: -1 });
  });

  test("a file that is rolled forward is written behind its markers and synced before they go", async () => {
    const { time, node, older } = await written();
    kill(node);
    const { node: next, disk } = ledgered(time, older);
    expect(await next.keys()).toHaveLength(7);
    const { ino } = statSync(getFilePath(next));
    const first = disk.deeds.findIndex((deed) => deed.what === "write" && deed.inode === ino);
    const { synced } = disk.findLast(ino);
    expect(first).toBeGreaterThan(0);
    const [patching, restored] = [disk.entry("main.db.patching"), disk.entry("main.db.restored")];
    for (const { came } of [patching, restored]) {
      expect(came).toBeGreaterThanOrEqual(0);
      expect(came).toBeLessThan(first);
    }
    expect(synced).toBeGreaterThan(first);
    expect(patching.went).toBeGreaterThan(synced);
    expect(restored.went).toBe(-1);
  });

  test("a first file is synced before its name is", async () => {
    const time = new VirtualTime();
    const { node, disk } = ledgered(time, temporaryDirectory());
    expect(await node.keys()).toEqual([]);
    const { written: at, synced } = disk.findLast(statSync(getFilePath(node)).ino);
    expect(at).toBeGreaterThanOrEqual(0);
    expect(synced).toBeGreaterThan(at);
    expect(disk.entry("main.db").came).toBeGreaterThan(synced);
  });
});

describe("transaction ids of a file that was not written here", () => {
  /** The node has acknowledged two more, and they are lost with its disk. */
  async function bereft(): Promise<{ time: VirtualTime; older: string; lastTxid: number }> {
    const { time, node, older } = await written();
    time.store.decideFate = (verb) => (verb === "put" ? "refused" : "fine");
    const lastTxid = await putAll(node, ["lost1", "lost2"]);
    kill(node);
    time.store.decideFate = () => "fine";
    return { time, older, lastTxid };
  }

  test.each([
    "rolled forward",
    "restored",
    "rolled forward, closed and opened again",
    "restored, closed and opened again",
  ])("are none that were given before: %s", async (how) => {
    const { time, older, lastTxid } = await bereft();
    if (how.startsWith("restored")) rmSync(getFilePath(new TimedEngine(time, {}, older)));
    let node = new TimedEngine(time, {}, older);
    expect(await node.keys()).toHaveLength(7);
    if (how.endsWith("again")) {
      node.kill();
      node = new TimedEngine(time, {}, older);
      expect(await node.keys()).toHaveLength(7);
    }
    // Whoever has seen what is lost is told so, and not answered from a state without it.
    for (const minTxid of [lastTxid - 1, lastTxid]) {
      await expect(
        time.of(node.client.read(node.at("main"), "kv.list", { ns: "n" }, node.soon({ minTxid }))),
      ).rejects.toMatchObject({ code: "conflict" });
    }
    const { txid } = await node.put("next", "main", { durable: true });
    expect(txid).toBeGreaterThan(limits.txidReserve);
    expect(time.manifest(node.uuid).lost).toMatchObject([{ firstTxid: lastTxid - 1, lastTxid: txid - 1 }]);
    // From its claim on the file is its node's own: nothing is given up when it is opened again.
    node.kill();
    const again = new TimedEngine(time, {}, older);
    expect((await again.put("after")).txid).toBe(txid + 1);
  });
});

describe("what a node has acknowledged and not shipped", () => {
  test("is shipped, though a claim came in between that could not know all of it, and a death then", async () => {
    const { time, node } = await written();
    await node.close();
    node.wipe();
    const restored = start(time, {}, node.directory);
    expect(await restored.keys()).toHaveLength(7);
    const marker = `${getFilePath(restored)}.restored`;
    expect(existsSync(marker)).toBe(true);
    await restored.put("durable", "main", { durable: true });
    expect(existsSync(marker)).toBe(false);
    refusePuts(time.store);
    const { txid } = await restored.put("answered");
    kill(restored);
    // That the marker went was not synced: a loss of power brings it back.
    writeFileSync(marker, "");
    allowAll(time.store);
    const next = start(time, {}, node.directory);
    const dead = new Promise<void>((resolve) => {
      next.world.atCrashPoint = (name) => {
        if (name !== "claimed") return;
        kill(next);
        resolve();
      };
    });
    next.putting("another").catch(() => {});
    await time.of(dead);
    expect(time.manifest(node.uuid).lost).toContainEqual(expect.objectContaining({ firstTxid: txid + 1 }));
    const last = start(time, {}, node.directory);
    expect(await last.keys()).toContain("answered");
    await last.sync();
    expect(time.manifest(node.uuid).txid).toBe(txid);
    expect((await last.put("next")).txid).toBeGreaterThan(2 * limits.txidReserve);
    expect(await keysInStore(time)).toContain("answered");
    expect(existsSync(join(node.directory, "quarantine", node.uuid))).toBe(false);
  });

  test("is not taken for less than all by the next start, though restored under a claim of the node", async () => {
    const { time, node } = await written();
    await time.pass(idleCloseMs + 5_000);
    // As after a rewind whose file could not be folded together.
    rmSync(getFilePath(node));
    expect(await node.keys()).toHaveLength(7);
    expect(existsSync(`${getFilePath(node)}.restored`)).toBe(true);
    refusePuts(time.store);
    const { txid } = await node.put("answered");
    expect(existsSync(`${getFilePath(node)}.restored`)).toBe(false);
    kill(node);
    allowAll(time.store);
    const next = start(time, {}, node.directory);
    expect((await next.put("next")).txid).toBe(txid + 1);
  });
});

describe("a file that takes the place of another", () => {
  test("is whole after a death at any step; what was fetched once is not fetched again", async () => {
    const time = new VirtualTime();
    const node = start(time, { nodeId: "a" });
    await putAll(node, listKeys(1, 3));
    await node.branch({ act: "checkpoint", name: "c" });
    await putAll(node, listKeys(4, 5));
    const stale = temporaryDirectory();
    await node.sync();
    await time.pass(60_000);
    cpSync(node.directory, stale, { recursive: true });
    // The file is of a timeline that is no longer the manifest's.
    await node.branch({ act: "rewind", to: "c" });
    await node.put("k6", "main", { durable: true });
    await node.close();
    const copies: string[] = [];
    const { node: next, disk } = ledgered(time, stale, "a");
    disk.after = () => {
      const copy = temporaryDirectory();
      cpSync(stale, copy, { recursive: true });
      copies.push(copy);
    };
    next.world.atCrashPoint = (name) => {
      if (name === "restored") disk.after();
    };
    expect(await next.keys()).toEqual([...listKeys(1, 3), "k6"]);
    next.kill();
    expect(copies.length).toBeGreaterThan(5);
    let fetched = 0;
    for (const [step, copy] of copies.entries()) {
      const names = readdirSync(join(copy, "db", next.uuid));
      const before = time.store.count("get", "seg");
      const again = new TimedEngine(time, { nodeId: "a" }, copy, time.store, soundDisk);
      expect(await again.keys(), `step ${step}: ${names.join()}`).toEqual([...listKeys(1, 3), "k6"]);
      expect(readdirSync(join(copy, "db", next.uuid)).filter((name) => /tmp|next|patching/.test(name))).toEqual([]);
      expect(existsSync(join(copy, "quarantine"))).toBe(false);
      if (names.includes("main.db.next")) expect(time.store.count("get", "seg") - before, names.join()).toBe(0);
      fetched += time.store.count("get", "seg") - before > 0 ? 1 : 0;
      again.kill();
    }
    expect(fetched).toBeGreaterThan(0);
    expect(fetched).toBeLessThan(copies.length);
  });

  test("never stands beside a log that is not its own", async () => {
    const time = new VirtualTime();
    const node = start(time);
    await putAll(node, listKeys(1, 3));
    const log = temporaryDirectory();
    copyFileSync(`${getFilePath(node)}-wal`, join(log, "wal"));
    await node.close();
    // A removal that was cut short has left the log alone.
    rmSync(getFilePath(node));
    copyFileSync(join(log, "wal"), `${getFilePath(node)}-wal`);
    const next = start(time, {}, node.directory);
    expect(await next.keys()).toEqual(listKeys(1, 3));
    const fresh = new TimedEngine(new VirtualTime(), {});
    expect(await fresh.keys()).toEqual([]);
    await fresh.close();
    rmSync(getFilePath(fresh));
    copyFileSync(join(log, "wal"), `${getFilePath(fresh)}-wal`);
    const again = new TimedEngine(fresh.time, {}, fresh.directory);
    expect(await again.keys()).toEqual([]);
    expect((await again.put("k")).txid).toBe(1);
  });
});
