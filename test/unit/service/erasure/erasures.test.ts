/**
 * Erasures from their request on, over a real engine on virtual time: what becomes of those that are turned away on
 * their way.
 */
import { generateKeyPairSync } from "node:crypto";
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { silentLog } from "../../../../src/base/log.ts";
import { AuditLog } from "../../../../src/control/audit/audit-log.ts";
import { ErasureCoupons } from "../../../../src/control/databases/erasure-coupons.ts";
import { Receipts } from "../../../../src/control/access/receipts.ts";
import { buildSigningKey } from "../../../../src/control/access/signing-key.ts";
import { encodeCopyRecord } from "../../../../src/format/records/copy-record.ts";
import { copyKey } from "../../../../src/format/keys/node-keys.ts";
import { erasureCouponKey } from "../../../../src/format/keys/object-keys.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { Erasures, type Requested } from "../../../../src/service/erasure/erasures.ts";
import { ErasingNode } from "../../../support/erasing-node.ts";
import { erasureWaitMsMax, erasureBlockedLookMs } from "../../../../src/service/erasure/erasure-queue.ts";

const noAudit = { enabled: false, includeReads: false, retentionSecs: undefined };

interface Serving {
  readonly node: ErasingNode;
  readonly erasures: Erasures;
  erase(memoryId: string, graceSecs?: number): Promise<Requested>;
  /** Of the unfinished coupons that can be read. */
  statuses(): Promise<readonly string[]>;
}

async function serving(options = {}): Promise<Serving> {
  const node = new ErasingNode(options);
  const { world, client: engine } = node.node;
  const { store } = node.time;
  const log = silentLog;
  const coupons = new ErasureCoupons({ store, world, log });
  const audit = new AuditLog({ store, world, log, node: world.ulid(), flushMs: 1e9, readPolicy: async () => noAudit });
  const receipts = new Receipts(await buildSigningKey(generateKeyPairSync("ed25519").privateKey));
  const erasures = new Erasures({ world, log, engine, coupons, receipts, audit, gcGraceMs: 0 });
  const target = node.node.at("main");
  return {
    node,
    erasures,
    erase: (memoryId, graceSecs = 0) =>
      node.time.of(
        erasures.request({
          database: "acme--alice",
          target,
          erase: { kind: "memory", memoryId },
          graceSecs,
          options: { deadlineMs: world.monotonicMs() + 5_000 },
        }),
      ),
    async statuses() {
      const found: string[] = [];
      for await (const { status } of coupons.unfinished({ uuid: node.uuid })) found.push(status);
      return found;
    },
  };
}

describe("an erasure that was carried out and not answered", () => {
  test("is not given up because a later try is turned away for want of room", async () => {
    const { node, erasures, erase, statuses } = await serving({ writeQueueDepth: 1 });
    const secret = await node.remember("the zyxwvutsecret of it");
    // A long read keeps the log from being folded in: the rows are gone, their bytes are not.
    const long = new Connection(`${node.node.directory}/db/${node.uuid}/main.db`, { readonly: true, pageCacheKiB: 64 });
    long.run("BEGIN");
    long.get("SELECT count(*) FROM __service_memory");
    await expect(erase(secret)).rejects.toMatchObject({ code: "unavailable" });
    expect(await node.holds(secret)).toBe(false);
    expect(await statuses()).toEqual(["begun"]);
    // The queue has room for one.
    const others = [1, 2, 3].map((n) => node.node.putting(`k${n}`).catch(() => {}));
    await expect(erase(secret)).rejects.toMatchObject({ code: "overloaded" });
    await node.time.of(Promise.all(others));
    long.close();
    expect(await statuses()).toEqual(["begun"]);
    expect((await erase(secret)).value.status).toBe("pending");
    await node.time.of(erasures.close());
  });
});

describe("an erasure whose coupon cannot be read any more", () => {
  test("keeps no other one of its database from its end", async () => {
    const { node, erasures, erase, statuses } = await serving({ gcGraceMs: 0 });
    const ids = [await node.remember("one"), await node.remember("two")];
    const [rotten, other] = [await erase(ids[0]!, 100), await erase(ids[1]!, 100)];
    node.time.store.spoil(erasureCouponKey(node.uuid, rotten.value.id), (bytes) => bytes.slice(0, -1));
    erasures.start();
    await node.time.pass(300_000);
    expect(await statuses()).toEqual([]);
    expect((await node.time.of(erasures.get(node.uuid, other.value.id, undefined))).status).toBe("completed");
    await node.time.of(erasures.close());
  });
});

describe("an erasure whose attempts fail", () => {
  const waitingFor = async ({ node, erasures }: Serving, id: string): Promise<string | undefined> =>
    (await node.time.of(erasures.get(node.uuid, id, undefined))).waitingFor;

  test("says what its last attempt failed of, whatever came before, and completes once that is over", async () => {
    const served = await serving({ gcGraceMs: 100_000 });
    const { node, erasures, erase } = served;
    const secret = await node.remember("the zyxwvutsecret of it");
    await node.fill(3);
    const { value: coupon } = await erase(secret);
    erasures.start();
    await node.time.pass(20_000);
    expect(await waitingFor(served, coupon.id)).toBe("the collection of old objects");
    node.time.store.decideFate = (verb, key) => (verb === "list" && key.startsWith("db/") ? "refused" : "fine");
    await node.time.pass(180_000);
    expect(await waitingFor(served, coupon.id)).toMatch(/^the last attempt failed: storage did not answer/);
    const [key] = node.time.store.keys(`db/${node.uuid}/seg/`).slice(-1);
    const { bytes } = node.time.store.read(key!)!;
    node.time.store.decideFate = () => "fine";
    node.time.store.spoil(key!, (whole) => whole.map((byte, at) => (at === whole.length - 1 ? byte ^ 1 : byte)));
    await node.time.pass(180_000);
    expect(await waitingFor(served, coupon.id)).toMatch(
      /^the last attempt failed: stored data cannot be used: a segment's frame has a wrong checksum$/,
    );
    node.time.store.spoil(key!, () => bytes);
    await node.time.pass(1_200_000);
    const done = await node.time.of(erasures.get(node.uuid, coupon.id, undefined));
    expect(done).toMatchObject({ status: "completed", waitingFor: undefined });
    await node.time.of(erasures.close());
  });

  test("says of a branch that blocks it without having it as live content what the branch has of it", async () => {
    const served = await serving({ gcGraceMs: 0 });
    const { node, erasures, erase } = served;
    const secret = await node.remember("the zyxwvutsecret of it");
    await node.node.branch({ act: "fork", name: "side" });
    await node.forget(secret, "side");
    await node.time.of(node.node.putting("copied", "side", {}, `${secret}fact and more`));
    const { value: coupon } = await erase(secret);
    erasures.start();
    await node.time.pass(20_000);
    const blocked = await node.time.of(erasures.get(node.uuid, coupon.id, undefined));
    expect(blocked).toMatchObject({
      status: "blocked",
      blockedBy: { checkpoints: [], branches: ["side"] },
      waitingFor: expect.stringMatching(/^branch side: its state \d+ has the bytes/),
    });
    await node.time.of(node.node.putting("copied", "side", {}, "something else"));
    await node.time.pass(erasureBlockedLookMs + 60_000);
    expect((await node.time.of(erasures.get(node.uuid, coupon.id, undefined))).status).toBe("completed");
    await node.time.of(erasures.close());
  });

  test("says that there are more copies on record than can be looked through", async () => {
    const served = await serving({ gcGraceMs: 0 });
    const { node, erasures, erase } = served;
    const { value: coupon } = await erase(await node.remember("the zyxwvutsecret of it"));
    for (let count = 0; count <= limits.copiesMax; count++) {
      const record = {
        uuid: node.uuid,
        node: "01HF7YAT000000000000000001",
        name: "away",
        copy: node.node.world.ulid(),
        createdAtMs: 0,
        purged: undefined,
      };
      await node.time.store.calm.put(copyKey(record), encodeCopyRecord(record), { kind: "absent" });
    }
    erasures.start();
    await node.time.pass(120_000);
    expect(await waitingFor(served, coupon.id)).toContain(`more than ${limits.copiesMax} copies on record`);
    await node.time.of(erasures.close());
  });
});

describe("an erasure of a deleted database", () => {
  test("a failed look at a deleted database keeps what woke it: it is complete before its grace is over", async () => {
    const { node, erasures, erase, statuses } = await serving({ gcGraceMs: 0 });
    const secret = await node.remember("the zyxwvutsecret of it");
    const { value: coupon } = await erase(secret, 100_000);
    erasures.start();
    await node.time.of(node.node.client.deleteTarget(node.node.at("main"), node.node.soon()));
    // Nothing of the database can be read while the first look is made.
    node.time.store.decideFate = (_verb, key) => (key.startsWith("db/") ? "refused" : "fine");
    erasures.wake(node.uuid);
    await node.time.pass(10_000);
    expect(await statuses()).toEqual(["pending"]);
    node.time.store.decideFate = () => "fine";
    await node.time.pass(600_000);
    expect((await node.time.of(erasures.get(node.uuid, coupon.id, undefined))).status).toBe("completed");
    await node.time.of(erasures.close());
  });
});

describe("F42: the grace of an erasure", () => {
  const dayMs = 86_400_000;

  test("is not cut short by a clock that is ahead for a while", async () => {
    const { node, erasures, erase, statuses } = await serving({ gcGraceMs: 0 });
    await erase(await node.remember("one"), 2 * 86_400);
    erasures.start();
    node.node.world.skewMs = 4 * dayMs;
    await node.time.pass(120_000);
    expect(await statuses()).toEqual(["pending"]);
    node.node.world.skewMs = 0;
    await node.time.pass(dayMs);
    expect(await statuses()).toEqual(["pending"]);
    await node.time.pass(dayMs + 2 * erasureWaitMsMax);
    expect(await statuses()).toEqual([]);
    await node.time.of(erasures.close());
  });

  test("that began under a clock that was ahead is counted from when that was set right", async () => {
    const { node, erasures, erase, statuses } = await serving({ gcGraceMs: 0 });
    const secret = await node.remember("one");
    node.node.world.skewMs = 20 * dayMs;
    const { value } = await erase(secret, 86_400);
    expect(value.graceUntilMs - node.node.world.wallMs()).toBeGreaterThan(dayMs - 60_000);
    node.node.world.skewMs = 0;
    erasures.start();
    await node.time.pass(dayMs - 60_000);
    expect(await statuses()).toEqual(["pending"]);
    await node.time.pass(3 * erasureWaitMsMax);
    expect(await statuses()).toEqual([]);
    const { requestedAtMs, graceUntilMs } = await node.time.of(erasures.get(node.uuid, value.id, undefined));
    expect(graceUntilMs - requestedAtMs).toBe(dayMs);
    expect(graceUntilMs).toBeLessThan(node.node.world.nowMs());
    await node.time.of(erasures.close());
  });
});
