/** Erasures as a node carries them out: in its audit stream, beside writes, and over its restarts. */
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { silentLog } from "../../src/base/log.ts";
import { realWorld } from "../../src/base/world.ts";
import { ErasureCoupons } from "../../src/control/databases/erasure-coupons.ts";
import { FileStore } from "../../src/store/file/file-store.ts";
import { createErasingProfile, ErasingProfile } from "../support/erasing-profile.ts";
import { ok, startService, useService } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { type WireName } from "../support/wires.ts";
import { erasureBegunMs } from "../../src/service/erasure/erasure-queue.ts";

/** Old objects go at once: what is tested here is the order of things, not how long they take. */
const hasty = { SERVICE_GC_GRACE_SECS: "0" };
const service = useService(hasty);

const createProfile = (name: WireName, graceSecs = 0, policy: object = {}, from = service()): Promise<ErasingProfile> =>
  createErasingProfile(from.wire(name), graceSecs, policy);

test("erasures and their completion are in the audit stream, by the coupon's id alone", async () => {
  const profile = await createProfile("rest", 0, { audit: { enabled: true } });
  const [id] = await profile.add({ summary: "told of", topic_key: "whispered-topic" });
  const { id: erasure, txid } = await profile.erased({ topic_key: "whispered-topic", type: "fact" });
  await profile.until(erasure, "completed");
  // Events are written down some at a time.
  const { events, text } = await vi.waitFor(
    async () => {
      const answer = await service().call("GET", `/v1/namespaces/${profile.ns}/audit`);
      const found = (answer.json as { events: any[] }).events.filter(({ action }) => action.startsWith("erasure."));
      expect(found.map(({ action }) => action)).toContain("erasure.completed");
      return { events: found, text: answer.text };
    },
    { timeout: 60_000, interval: 100 },
  );
  expect(events).toMatchObject([
    { action: "erasure.requested", resource: erasure, outcome: "ok", txid, count: 1, actor: { kind: "anonymous" } },
    { action: "erasure.completed", resource: erasure, outcome: "ok", count: 1, actor: { kind: "internal" } },
  ]);
  expect(text).not.toContain("whispered-topic");
  expect(text).not.toContain(id);
});

test("an erasure is completed while a client writes without a pause", { timeout: 120_000 }, async () => {
  const node = await startService({ SERVICE_GC_GRACE_SECS: "1" });
  onTestFinished(() => node.close());
  const profile = await createProfile("rest", 0, {}, node);
  const filler = (n: number): object[] =>
    Array.from({ length: 100 }, (_, at) => ({
      summary: `filler ${n}-${at}`,
      content: { text: "and so on ".repeat(50) },
    }));
  for (let n = 0; n < 20; n++) await profile.add(...filler(n));
  const [id] = await profile.add({ summary: "in the midst of it" });
  let writing = true;
  let written = 0;
  const writer = (async () => {
    while (writing)
      await ok(
        profile.call("MemoryService.Ingest", {
          memories: [{ type: "event", summary: `busy ${++written}`, content: {} }],
        }),
      );
  })();
  try {
    await profile.until((await profile.erased({ memory_id: id })).id, "completed");
  } finally {
    writing = false;
    await writer;
  }
  expect(written).toBeGreaterThan(10);
});

test("an erasure of an earlier run is taken up again, and the receipt outlives the disk", async () => {
  const directory = temporaryDirectory();
  const before = await startService(hasty, directory);
  const profile = await createProfile("rest", 4, {}, before);
  const [id] = await profile.add({ summary: "interrupted" });
  const { id: erasure } = await profile.erased({ memory_id: id });
  await before.close();
  const after = await startService(hasty, directory);
  onTestFinished(() => after.close());
  const again = new ErasingProfile(after.wire("rest"), profile.ns, profile.profile);
  expect((await again.coupon(erasure)).status).toBe("pending");
  await again.until(erasure, "completed");
});

test("F85: an erasure that died between its coupon and its deed is carried out by the next run", async () => {
  const directory = temporaryDirectory();
  const before = await startService(hasty, directory);
  const profile = await createProfile("rest", 0, {}, before);
  const [id] = await profile.add({ summary: "almost erased" });
  const { json } = await before.call("GET", "/v1/databases");
  const { uuid, name: database } = (json as { databases: { uuid: string; name: string }[] }).databases[0]!;
  await before.close();
  const coupons = new ErasureCoupons({
    store: await FileStore.open(join(directory, "objects"), realWorld()),
    world: realWorld(),
    log: silentLog,
  });
  const requestedAtMs = Date.now() - 2 * erasureBegunMs;
  await coupons.begin({
    id: "ers_01J00000000000000000000000",
    uuid,
    database,
    branch: "main",
    target: { kind: "memory", memoryId: id! },
    status: "begun",
    memoryIds: [],
    points: [],
    requestedAtMs,
    graceUntilMs: requestedAtMs,
    traces: { key: new Uint8Array(32).fill(7), windows: new Uint8Array(0), windowsTotal: 0 },
  });
  const after = await startService(hasty, directory);
  onTestFinished(() => after.close());
  const again = new ErasingProfile(after.wire("rest"), profile.ns, profile.profile);
  expect(await again.coupons()).toEqual([]);
  const lastMs = performance.now() + 30_000;
  while ((await again.coupons()).length === 0 && performance.now() < lastMs)
    await new Promise((resolve) => setTimeout(resolve, 100));
  expect(await again.until("ers_01J00000000000000000000000", "completed")).toMatchObject({ memory_ids: [id] });
  expect(await again.summaries("erased")).toEqual([]);
});
