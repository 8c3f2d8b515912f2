/** The life of the process that runs a node's own model, with a stand-in for the model and real processes. */
import { expect, onTestFinished, test } from "vitest";
import { LocalEmbedder, modelIdleMs, type LocalEmbedderOptions } from "../../../src/ai/local-embedder.ts";
import { startModelProcess, type ModelProcess } from "../../../src/ai/local-process.ts";
import type { Log } from "../../../src/base/log.ts";
import { silentLog } from "../../../src/base/log.ts";
import { realWorld, type World } from "../../../src/base/world.ts";

const real = realWorld();
const model = { name: "stand-in@0", entry: new URL("../../support/stand-in-model.ts", import.meta.url).href };

interface Opened {
  readonly embedder: LocalEmbedder;
  /** Every process that was started. */
  readonly started: ModelProcess[];
  readonly warned: string[];
}

function openEmbedder(given: Partial<LocalEmbedderOptions> = {}): Opened {
  const started: ModelProcess[] = [];
  const warned: string[] = [];
  const log: Log = {
    ...silentLog,
    warn: (message, fields) => void warned.push(`${message}: ${JSON.stringify(fields)}`),
  };
  const start = (): ModelProcess => {
    const process = startModelProcess({});
    started.push(process);
    return process;
  };
  const embedder = new LocalEmbedder({ model, threads: 1, start, world: real, log, ...given });
  onTestFinished(() => embedder.close());
  return { embedder, started, warned };
}

/** Timers of at least `fromMs` fire `times` sooner. */
function fasterWorld(fromMs: number, times: number): World {
  return { ...real, after: (delayMs, act) => real.after(delayMs >= fromMs ? delayMs / times : delayMs, act) };
}

const soon = (ms = 60_000): number => real.monotonicMs() + ms;

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

test("it starts no process before the first text; then vectors come in the order of the texts", async () => {
  const { embedder, started } = openEmbedder();
  expect(embedder).toMatchObject({ provider: "local", name: "local/stand-in@0", endpointHost: undefined });
  expect([started.length, embedder.isAwake, embedder.measures.isRunning]).toEqual([0, true, false]);
  const texts = Array.from({ length: 20 }, (_, at) => "x".repeat(at));
  const answer = await embedder.embed(texts, "document", soon());
  expect(answer.vectors.map((vector) => vector![1])).toEqual(texts.map(({ length }) => length));
  expect(answer).toMatchObject({ failure: undefined, sentItems: 0, sentBytes: 0 });
  expect(embedder.measures).toMatchObject({ isRunning: true, starts: 1, losses: 0, waitingTexts: 0 });
  expect(embedder.measures.texts).toEqual({ document: 20, query: 0 });
  expect(embedder.measures.residentBytes).toBeGreaterThan(1e6);
  expect(embedder.measures.cpuMs).toBeGreaterThan(0);
});

test("a question is answered before writes that came earlier", async () => {
  const { embedder } = openEmbedder();
  await embedder.embed(["warm"], "query", soon());
  const bulk = embedder.embed(
    Array.from({ length: 200 }, () => "written"),
    "document",
    soon(),
  );
  const question = await embedder.embed(["asked"], "query", soon());
  expect(question.vectors[0]![0]).toBeLessThan(20);
  expect((await bulk).vectors).not.toContain(undefined);
});

test("what is not done by the deadline is missing, and is not done for nothing later", async () => {
  const { embedder } = openEmbedder();
  await embedder.embed(["warm"], "query", soon());
  const answer = await embedder.embed(
    Array.from({ length: 40 }, () => "slow"),
    "document",
    soon(1_500),
  );
  expect(answer.failure).toBe("crowded");
  const done = answer.vectors.filter((vector) => vector !== undefined).length;
  expect(done).toBeGreaterThan(0);
  expect(done).toBeLessThan(40);
  await expect.poll(() => embedder.measures.waitingTexts, { timeout: 10_000 }).toBe(0);
  expect(embedder.measures.texts.document).toBeLessThan(40);
});

test("a text that the model fails at has no vector, and costs no other its own", async () => {
  const { embedder } = openEmbedder();
  const { vectors, failure } = await embedder.embed(["one", "fail", "two"], "document", soon());
  expect([vectors.map((vector) => vector?.[1]), failure]).toEqual([[3, undefined, 3], undefined]);
});

test.each(["crash", "exit"])("a process that ends by itself (%s) is a failure, and is replaced", async (order) => {
  const { embedder, started, warned } = openEmbedder();
  await embedder.embed(["warm"], "query", soon());
  const calls = ["document", "query"] as const;
  const answers = await Promise.all(calls.map((use) => embedder.embed([order, "x"], use, soon())));
  expect(answers.map(({ failure, vectors }) => [failure, vectors])).toEqual(
    calls.map(() => ["unavailable", [undefined, undefined]]),
  );
  expect(warned.join()).toMatch(order === "crash" ? /SIGSEGV/ : /exit code 3/);
  expect([embedder.isAwake, embedder.measures.isRunning, embedder.measures.losses]).toEqual([false, false, 1]);
  expect((await embedder.embed(["x"], "document", soon())).failure, "left alone for a while").toBe("resting");
  expect(started).toHaveLength(1);
  await expect.poll(() => embedder.isAwake, { timeout: 20_000 }).toBe(true);
  expect((await embedder.embed(["x"], "document", soon())).failure).toBeUndefined();
  expect(started).toHaveLength(2);
});

test("a process that is killed from outside is replaced", async () => {
  const { embedder, started } = openEmbedder();
  await embedder.embed(["warm"], "query", soon());
  process.kill(started[0]!.pid!, "SIGKILL");
  await expect.poll(() => embedder.measures.losses, { timeout: 20_000 }).toBe(1);
  await expect.poll(() => embedder.isAwake, { timeout: 20_000 }).toBe(true);
  expect((await embedder.embed(["x"], "query", soon())).vectors[0]).toHaveLength(3);
});

test("a process that hangs is killed, and what waits for it fails", async () => {
  const { embedder, started } = openEmbedder({ world: fasterWorld(5_000, 10) });
  await embedder.embed(["warm"], "query", soon(4_000));
  const answers = await Promise.all([
    embedder.embed(["hang"], "document", real.monotonicMs() + 600_000),
    embedder.embed(["behind it"], "document", real.monotonicMs() + 600_000),
  ]);
  expect(answers.map(({ failure }) => failure)).toEqual(["unavailable", "unavailable"]);
  await expect.poll(() => isAlive(started[0]!.pid!), { timeout: 20_000 }).toBe(false);
});

test("a model that cannot be loaded is said once for each try, with its reason, and fails the calls", async () => {
  const { embedder, warned } = openEmbedder({ threads: 9 });
  expect((await embedder.embed(["x"], "document", soon())).failure).toBe("unavailable");
  expect(warned.filter((line) => line.includes("SHA256SUMS names no such file"))).toHaveLength(1);
});

test("a model whose module is not there is a failure like any other", async () => {
  const { embedder } = openEmbedder({ model: { name: "none", entry: "file:///nowhere/model.js" } });
  expect((await embedder.embed(["x"], "document", soon())).failure).toBe("unavailable");
});

test("a system that has no room for a process fails the call, and is asked again later", async () => {
  let isFull = true;
  const start = (): ModelProcess => {
    if (isFull) throw new Error("spawn ENOMEM");
    return startModelProcess({});
  };
  const { embedder, warned } = openEmbedder({ start });
  expect((await embedder.embed(["x"], "document", soon())).failure).toBe("unavailable");
  expect(warned).toEqual([expect.stringContaining("spawn ENOMEM")]);
  isFull = false;
  await expect.poll(() => embedder.isAwake, { timeout: 20_000 }).toBe(true);
  expect((await embedder.embed(["x"], "document", soon())).failure).toBeUndefined();
});

test("a process without work is ended, and its memory given back; the next text starts another", async () => {
  const { embedder, started } = openEmbedder({ world: fasterWorld(modelIdleMs, 1_000) });
  await embedder.embed(["x"], "query", soon());
  await expect
    .poll(() => embedder.measures, { timeout: 20_000 })
    .toMatchObject({
      isRunning: false,
      residentBytes: 0,
      losses: 0,
    });
  await expect.poll(() => isAlive(started[0]!.pid!), { timeout: 20_000 }).toBe(false);
  expect((await embedder.embed(["x"], "query", soon())).failure).toBeUndefined();
  expect([started.length, embedder.measures.starts]).toEqual([2, 2]);
});

test("a process that has grown too large is ended between two groups, which is no failure", async () => {
  const { embedder, started, warned } = openEmbedder();
  expect((await embedder.embed(["grow"], "document", soon())).failure).toBeUndefined();
  await expect.poll(() => isAlive(started[0]!.pid!), { timeout: 20_000 }).toBe(false);
  expect(embedder.measures).toMatchObject({ isRunning: false, losses: 0 });
  expect(warned.join()).toContain("has grown");
  expect((await embedder.embed(["x"], "query", soon())).failure).toBeUndefined();
});

test("closing ends the process and every call", async () => {
  const { embedder, started } = openEmbedder();
  const waiting = embedder.embed(["hang"], "document", soon());
  embedder.close();
  expect((await waiting).failure).toBe("unavailable");
  expect((await embedder.embed(["x"], "query", soon())).failure).toBe("resting");
  await expect.poll(() => isAlive(started[0]!.pid!), { timeout: 20_000 }).toBe(false);
});
