/** Reads that the main thread does by itself, of files of a real engine thread: which, what they see, when they end. */
import { mkdirSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { silentLog } from "../../../../src/base/log.ts";
import { realWorld } from "../../../../src/base/world.ts";
import type { EngineLane } from "../../../../src/engine/threads/engine-lanes.ts";
import { EngineClient } from "../../../../src/engine/threads/client.ts";
import { engineLane } from "../../../../src/engine/threads/thread-spawner.ts";
import type { EngineOptions, Target } from "../../../../src/engine/api/protocol.ts";
import { inlineOptions, uuidOf } from "../../../support/inline-engine.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

const world = realWorld();
const soon = (): { deadlineMs: number } => ({ deadlineMs: world.monotonicMs() + 60_000 });
const main: Target = { uuid: uuidOf(1), branch: "main" };
const branch = (name: string): Target => ({ ...main, branch: name });

let client: EngineClient;
/** Reads that the engine thread was sent. */
let sent = 0;

function open(options: Partial<EngineOptions> = {}): void {
  const settings = inlineOptions(temporaryDirectory(), options);
  mkdirSync(settings.databasesDirectory, { recursive: true });
  const counted = (): EngineLane => {
    const lane = engineLane(settings);
    return {
      listen: (hear, lost) => lane.listen(hear, lost),
      send(message) {
        if (message.kind === "calls") sent += message.calls.filter(({ work }) => work.kind === "read").length;
        lane.send(message);
      },
    };
  };
  client = new EngineClient(1, counted, undefined, world, silentLog);
}

beforeEach(() => {
  sent = 0;
});

afterEach(() => client.close());

const put = (value: string, target = main) =>
  client.write(target, "kv.put", { ns: "n", key: "k", value: Buffer.from(value) }, soon());
const get = async (target = main, minTxid = 0) => {
  const { value, txid } = await client.read(target, "kv.get", { ns: "n", key: "k" }, { ...soon(), minTxid });
  return { text: value && Buffer.from(value.value).toString(), txid };
};
/** Reads until the main thread does so by itself. */
async function warm(target = main): Promise<void> {
  for (let round = 0; round < 1_000; round++) {
    const before = sent;
    await get(target);
    if (sent === before) return;
  }
  throw new Error("the main thread has not read by itself");
}
const code = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "done",
    (error: { code?: string }) => error.code ?? String(error),
  );

describe("the main thread", () => {
  test("reads what is read often, and tells the engine once a second that it is in use", async () => {
    open();
    await put("one");
    await warm();
    sent = 0;
    const untilMs = world.monotonicMs() + 2_500;
    let reads = 0;
    for (; world.monotonicMs() < untilMs; reads++) expect((await get()).text).toBe("one");
    expect(reads).toBeGreaterThan(100);
    expect(sent).toBeGreaterThan(0);
    expect(sent).toBeLessThan(10);
  });

  test("sees each write that was answered, with its transaction id, and believes no other", async () => {
    open();
    await put("first");
    await warm();
    for (let step = 0; step < 300; step++) {
      const { txid } = await put(`step ${step}`);
      expect(await get(main, txid)).toEqual({ text: `step ${step}`, txid });
    }
    const { txid } = await get();
    expect(await code(get(main, txid + 1))).toBe("invalid_request");
  });

  test("leaves what is not on disk yet to the engine: no answer runs ahead of the write's own", async () => {
    open();
    await put("0");
    await warm();
    let answered = 0;
    let done = false;
    const writing = (async () => {
      for (let step = 1; step <= 300; step++) {
        await put(String(step));
        answered = step;
      }
      done = true;
    })();
    let newest = 0;
    while (!done) {
      // What is read directly is answered without a turn of the loop, in which writes are answered.
      await new Promise(setImmediate);
      const least = answered;
      const seen = Number((await get()).text);
      expect(seen).toBeGreaterThanOrEqual(Math.max(least, newest));
      newest = seen;
    }
    await writing;
    expect((await get()).text).toBe("300");
  });
});

describe("the end of a permit", () => {
  test("a branch that is deleted is gone at once, one of its name is another", async () => {
    open();
    await put("main");
    await client.branch(main, { act: "fork", name: "side" }, soon());
    await put("side", branch("side"));
    await warm(branch("side"));
    await client.branch(main, { act: "delete", name: "side" }, soon());
    expect(await code(get(branch("side")))).toBe("branch_not_found");
    await client.branch(main, { act: "fork", name: "side" }, soon());
    for (let round = 0; round < 30; round++) expect((await get(branch("side"))).text).toBe("main");
  });

  test("after a rewind the older state is read", async () => {
    open();
    const { txid } = await put("old");
    await put("new");
    await client.sync(main, soon());
    await warm();
    await client.branch(main, { act: "rewind", to: String(txid) }, soon());
    for (let round = 0; round < 30; round++) expect((await get()).text).toBe("old");
  });

  test("a branch whose time is over is gone at once", async () => {
    open();
    await put("main");
    await client.branch(main, { act: "fork", name: "brief", ttlSecs: 1 }, soon());
    await warm(branch("brief"));
    const untilMs = world.monotonicMs() + 30_000;
    while ((await code(get(branch("brief")))) === "done") expect(world.monotonicMs()).toBeLessThan(untilMs);
    expect(await code(get(branch("brief")))).toBe("branch_not_found");
  });

  test("files that give way to others are closed, read again, and lose nothing", async () => {
    open({ hotHandlesMax: 2 });
    const targets = [1, 2, 3, 4, 5].map((n): Target => ({ uuid: uuidOf(n), branch: "main" }));
    for (const target of targets) await put(`of ${target.uuid}`, target);
    for (let round = 0; round < 4; round++)
      for (const target of targets) {
        await warm(target);
        expect((await get(target)).text).toBe(`of ${target.uuid}`);
        await put(`of ${target.uuid}`, target);
      }
  });

  test("a database that is deleted is closed, though it is being read", async () => {
    open();
    await put("one");
    await warm();
    await client.deleteTarget(main, soon());
    expect((await get().catch(() => ({ text: undefined }))).text).toBeUndefined();
  });
});
