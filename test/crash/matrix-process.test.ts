/**
 * The failure matrix of the local side where it takes a process of its own: kills, exits, a full disk, a lost thread.
 */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Worker } from "node:worker_threads";
import { describe, expect, onTestFinished, test } from "vitest";
import { silentLog } from "../../src/base/log.ts";
import { realWorld } from "../../src/base/world.ts";
import { EngineClient } from "../../src/engine/threads/client.ts";
import type { EngineLane } from "../../src/engine/threads/engine-lanes.ts";
import type { FromEngine } from "../../src/engine/api/protocol.ts";
import { startThread } from "../../src/engine/threads/threads.ts";
import { FileStore } from "../../src/store/file/file-store.ts";
import { inGate } from "../support/gate.ts";
import { inlineOptions, openInlineEngine, uuidOf } from "../support/inline-engine.ts";
import { startNodeProcess } from "../support/node-process.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const minuteMs = 60_000;
const target = { uuid: uuidOf(1), branch: "main" };
const support = (name: string): string => join(import.meta.dirname, "../support", name);

/** The largest log below the folder. */
function logBytes(directory: string): number {
  const logs = readdirSync(directory, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".db-wal"));
  return Math.max(0, ...logs.map((name) => statSync(join(directory, name)).size));
}

test(
  "F01: a kill in the middle of a transaction leaves nothing of it, though its pages were in the log",
  { timeout: 5 * minuteMs },
  async () => {
    const directory = join(temporaryDirectory(), "data");
    let node = await startNodeProcess(directory);
    await node.call("POST", "/v1/databases", { name: "d" });
    const sql = (...stmts: string[]): Promise<{ status: number; json: any }> =>
      node.call("POST", "/v1/db/d/sql", { stmts: stmts.map((q) => ({ q })) });
    expect(
      (await sql("CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB)", "INSERT INTO t VALUES (-1, 'before')")).status,
    ).toBe(200);
    const large = sql(
      "INSERT INTO t WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 300000) SELECT " +
        "n, randomblob(500) FROM c",
    ).then(
      ({ status }) => status,
      () => "no answer",
    );
    let isAnswered = false;
    void large.then(() => (isAnswered = true));
    while (!isAnswered && logBytes(directory) < 4 * 1024 * 1024) await pause(5);
    await node.end("SIGKILL");
    expect(await large).toBe("no answer");
    expect(logBytes(directory)).toBeGreaterThan(4 * 1024 * 1024);
    node = await startNodeProcess(directory);
    const { json } = await sql("SELECT n, body FROM t", "PRAGMA integrity_check");
    expect(json.results.map(({ rows }: { rows: unknown }) => rows)).toEqual([[[-1, "before"]], [["ok"]]]);
    expect((await sql("INSERT INTO t VALUES (1, 'after')")).status).toBe(200);
    await node.end("SIGTERM");
  },
);

test.each(["exit", "drained"])(
  "F12: a process that ends by itself (%s) with open files loses nothing that it acknowledged",
  { timeout: 5 * minuteMs },
  async (how) => {
    const [directory, stored] = [temporaryDirectory(), temporaryDirectory()];
    const told = execFileSync(process.execPath, [support("exiting-engine.ts"), directory, stored, how], {
      encoding: "utf8",
    });
    const acknowledged = JSON.parse(told) as string[];
    expect(acknowledged).toHaveLength(8);
    const store = await FileStore.open(stored, realWorld());
    const next = openInlineEngine(directory, { store });
    const keys = async ({ client, soon }: typeof next): Promise<readonly string[]> =>
      (await client.read(target, "kv.list", { ns: "n" }, soon())).value.keys;
    expect(await keys(next)).toEqual(acknowledged);
    await next.client.write(
      target,
      "kv.put",
      { ns: "n", key: "k9", value: Buffer.from("k9") },
      { ...next.soon(), durable: true },
    );
    await next.client.close();
    const other = openInlineEngine(temporaryDirectory(), { store, options: { nodeId: "other" } });
    expect(await keys(other)).toEqual([...acknowledged, "k9"]);
    await other.client.close();
  },
);

describe("a full disk", () => {
  // A disk of its own in a mount namespace of its own, which goes with the process; as root or with user namespaces.
  const onSmallDisk = ["-rm", "sh", "-c", 'mount -t tmpfs -o size=24m tmpfs "$1" && shift && exec "$@"', "sh"];
  const canMount = spawnSync("unshare", [...onSmallDisk, "/mnt", "true"]).status === 0;

  test.skipIf(!canMount && !inGate)(
    "F17, F18: what does not fit is refused and did not happen; with the store away too, nothing acknowledged is lost",
    { timeout: 5 * minuteMs },
    () => {
      const [disk, elsewhere] = [temporaryDirectory(), temporaryDirectory()];
      const told = execFileSync(
        "unshare",
        [...onSmallDisk, disk, process.execPath, support("full-disk.ts"), disk, elsewhere],
        { encoding: "utf8" },
      );
      const seen = JSON.parse(told) as Record<string, string[]> & { integrity: string };
      // The object store is on that disk too: what it could not take is no durable write, and what it took is there for
      // others.
      const durableOutcomes = seen["fullAndDurable"]!;
      expect(durableOutcomes.filter((outcome) => outcome === "ok").length).toBeGreaterThan(0);
      for (const outcome of durableOutcomes)
        expect(outcome).toMatch(
          /^(?:ok$|request_timeout: |unavailable: the node's disk is full; nothing was written$)/,
        );
      expect(seen["heldFromFull"]).toEqual(expect.arrayContaining(seen["durableWhenFull"]!));
      for (const outcomes of [seen["full"]!, seen["fullAndAway"]!]) {
        expect(outcomes.filter((outcome) => outcome === "ok").length).toBeGreaterThan(0);
        expect([...new Set(outcomes)]).toEqual(["ok", "unavailable: the node's disk is full; nothing was written"]);
      }
      expect(seen["whileFull"]).toEqual(seen["acknowledgedWhenFull"]);
      expect(seen["afterwards"]).toEqual(["ok", "ok"]);
      expect(seen["whileAway"]).toEqual(expect.arrayContaining(seen["acknowledgedWhenAway"]!));
      expect(seen["atTheEnd"]).toEqual(["ok", "ok"]);
      expect(seen.integrity).toBe('[["ok"]]');
      // What ran out of time may have happened; nothing else that was refused did.
      expect(seen["last"]).toEqual(expect.arrayContaining(seen["acknowledged"]!));
      expect(seen["last"]!.length - seen["acknowledged"]!.length).toBeLessThanOrEqual(
        durableOutcomes.filter((outcome) => outcome.startsWith("request_timeout")).length,
      );
      expect(seen["restored"]).toEqual(seen["last"]);
      expect(seen["refused"]!.length).toBeGreaterThan(0);
    },
  );

  test.skipIf(!canMount && !inGate)(
    "F17: object storage on it keeps whole every durable write acknowledged while it filled",
    { timeout: 3 * minuteMs },
    () => {
      const disk = temporaryDirectory();
      const told = execFileSync(
        "unshare",
        [...onSmallDisk, disk, process.execPath, support("full-disk-node.ts"), disk, "8", "1"],
        { encoding: "utf8" },
      );
      const { acknowledged, durable, refused } = JSON.parse(told) as Record<string, number>;
      expect(acknowledged).toBeGreaterThan(20);
      expect(durable).toBeGreaterThan(20);
      expect(refused).toBeGreaterThan(10);
    },
  );
});

test(
  "F27: an engine thread lost in the middle of its groups answers none and loses nothing",
  { timeout: 5 * minuteMs },
  async () => {
    const [directory, stored] = [temporaryDirectory(), temporaryDirectory()];
    const options = inlineOptions(directory, { store: { kind: "file", directory: stored } });
    for (const path of [options.databasesDirectory, options.scratchDirectory]) mkdirSync(path, { recursive: true });
    const workers: Worker[] = [];
    const spawn = (): EngineLane => {
      const worker = startThread(new URL("../../src/engine/thread.ts", import.meta.url), { workerData: options });
      workers.push(worker);
      let ended = false;
      return {
        send: (message) => worker.postMessage(message),
        listen(hear, lost) {
          worker.on("message", (message: FromEngine) => {
            if (message.kind === "closed") ended = true;
            hear(message);
          });
          worker.on("exit", (code) => {
            if (!ended) lost(new Error(`ended with ${code}`));
          });
        },
      };
    };
    const world = realWorld();
    const client = new EngineClient(1, spawn, undefined, world, silentLog);
    onTestFinished(async () => void (await client.close()));
    const soon = (): { deadlineMs: number } => ({ deadlineMs: world.monotonicMs() + 20_000 });
    const acknowledged = new Set<string>();
    let refused = 0;
    for (let life = 0; life < 3; life++) {
      let writing = true;
      const writer = async (name: number): Promise<void> => {
        for (let step = 0; writing; step++) {
          const id = `${life}-${name}-${step}`;
          try {
            await client.write(
              target,
              "docs.insert",
              { collection: "c", docs: [JSON.stringify({ _id: id }), JSON.stringify({ _id: `${id}b` })] },
              { ...soon(), durable: step % 7 === 0 },
            );
            acknowledged.add(id);
          } catch (error) {
            expect(error).toMatchObject({ code: "unavailable" });
            refused++;
            await pause(20);
          }
        }
      };
      const before = acknowledged.size;
      const writers = Array.from({ length: 8 }, (_, name) => writer(name));
      while (acknowledged.size < before + 200) await pause(1);
      await workers.at(-1)!.terminate();
      writing = false;
      await Promise.all(writers);
    }
    expect(refused).toBeGreaterThan(0);
    const found = new Set<string>();
    for (let skip = 0; ; skip += 1000) {
      const { value } = await again(() =>
        client.read(target, "docs.find", { collection: "c", limit: 1000, skip, filter: "{}" }, soon()),
      );
      for (const doc of value.docs) found.add((JSON.parse(doc) as { _id: string })._id);
      if (value.docs.length < 1000) break;
    }
    for (const id of found) expect(found.has(id.endsWith("b") ? id.slice(0, -1) : `${id}b`), id).toBe(true);
    expect([...acknowledged].filter((id) => !found.has(id))).toEqual([]);
  },
);

/** Calls until the thread is there again. */
async function again<Value>(act: () => Promise<Value>): Promise<Value> {
  for (let tries = 0; ; tries++) {
    try {
      return await act();
    } catch (error) {
      if (tries === 100) throw error;
      await pause(50);
    }
  }
}

/** Runs the script, kills it so long after its first line, and gives the number on its last line. */
async function runUntilKilled(script: string, killAfterMs: number): Promise<number> {
  const child = spawn(process.execPath, [script], { stdio: ["ignore", "pipe", "inherit"] });
  let told = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    if (told === "") setTimeout(() => child.kill("SIGKILL"), killAfterMs);
    told += text;
  });
  await new Promise((resolve) => child.once("close", resolve));
  // The last line may be cut.
  return Number(told.slice(0, told.lastIndexOf("\n")).split("\n").at(-1));
}

describe("F44: the file store", () => {
  test("whose newest link never reached the disk shows the version before it, and goes on from there", async () => {
    const directory = temporaryDirectory();
    const store = await FileStore.open(directory, realWorld());
    const put = async (from: FileStore, text: string): Promise<void> => {
      const current = await from.get("head");
      const outcome = await from.put(
        "head",
        Buffer.from(text),
        current ? { kind: "version", version: current.version } : { kind: "absent" },
      );
      expect(outcome.kind).toBe("stored");
    };
    for (const text of ["one", "two", "three"]) await put(store, text);
    for (const isLinked of [true, false]) {
      const left = join(temporaryDirectory(), "left");
      cpSync(directory, left, { recursive: true });
      // Between the link and the directory's fsync: the temporary file is still there, the name may or may not be.
      const newest = readdirSync(join(left, "head~")).toSorted().at(-1)!;
      writeFileSync(join(left, ".tmp", "unfinished"), readFileSync(join(left, "head~", newest)));
      if (!isLinked) unlinkSync(join(left, "head~", newest));
      const after = await FileStore.open(left, realWorld());
      expect(Buffer.from((await after.get("head"))!.bytes).toString()).toBe(isLinked ? "three" : "two");
      expect((await after.list("", { limit: 10 })).objects.map(({ key }) => key)).toEqual(["head"]);
      await put(after, "four");
      expect(Buffer.from((await after.get("head"))!.bytes).toString()).toBe("four");
    }
  });

  test(
    "under kills at any moment has the manifest before or the manifest after, never none and never a part",
    { timeout: 5 * minuteMs },
    async () => {
      const directory = temporaryDirectory();
      const script = join(temporaryDirectory(), "putter.ts");
      writeFileSync(
        script,
        `import { FileStore } from ${JSON.stringify(join(import.meta.dirname, "../../src/store/file/file-store.ts"))};
import { realWorld } from ${JSON.stringify(join(import.meta.dirname, "../../src/base/world.ts"))};
const store = await FileStore.open(${JSON.stringify(directory)}, realWorld());
for (let current = await store.get("head"); ; current = await store.get("head")) {
  const number = current ? Number(Buffer.from(current.bytes).toString("latin1", 0, 10)) + 1 : 1;
  const bytes = Buffer.alloc(10 + 20_000, String(number % 10));
  bytes.write(String(number).padStart(10, "0"));
  await store.put("head", bytes, current ? { kind: "version", version: current.version } : { kind: "absent" });
  console.log(number);
}
`,
      );
      let newest = 0;
      for (let life = 0; life < 5; life++) {
        const acknowledged = await runUntilKilled(script, life * 17);
        const store = await FileStore.open(directory, realWorld());
        const bytes = Buffer.from((await store.get("head"))!.bytes);
        const number = Number(bytes.toString("latin1", 0, 10));
        expect(number).toBeGreaterThanOrEqual(Math.max(acknowledged, newest));
        expect(bytes.subarray(10).every((byte) => byte === String(number % 10).charCodeAt(0))).toBe(true);
        expect(bytes).toHaveLength(20_010);
        newest = number;
      }
      expect(newest).toBeGreaterThan(5);
      expect(existsSync(join(directory, "head~"))).toBe(true);
    },
  );
});
