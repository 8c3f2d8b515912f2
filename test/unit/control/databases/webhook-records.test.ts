/** Webhooks in object storage: no more than there may be, no change lost, none back after its end. */
import { expect, test } from "vitest";
import { encodeUtf8 } from "../../../../src/base/bytes.ts";
import { silentLog } from "../../../../src/base/log.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { WebhookRecords, webhooksMax, type ListedWebhook } from "../../../../src/control/databases/webhook-records.ts";
import { webhookKey } from "../../../../src/format/keys/object-keys.ts";
import type { StoredWebhook } from "../../../../src/format/records/webhook.ts";
import { MemoryStore } from "../../../../src/store/memory-store.ts";

const world = realWorld();
const uuid = "00000000-0000-4000-8000-000000000001";
const otherUuid = "ffe00000-0000-4000-8000-000000000002";

function build(of = uuid): StoredWebhook {
  return {
    uuid: of,
    id: `whk_${world.ulid()}`,
    database: "one",
    branch: "main",
    url: "https://example.org/",
    kinds: undefined,
    description: undefined,
    createdAtMs: 1,
    paused: undefined,
    position: 0,
    trying: undefined,
    failures: [],
  };
}

function open(): { readonly store: MemoryStore; readonly records: WebhookRecords } {
  const store = new MemoryStore();
  return { store, records: new WebhookRecords({ store, world, log: silentLog }) };
}

async function all(records: WebhookRecords, owned?: number): Promise<readonly ListedWebhook[]> {
  const shards = owned === undefined ? undefined : { has: (one: number) => one === owned, from: () => owned };
  const found: ListedWebhook[] = [];
  for await (const page of records.all(shards)) found.push(...page);
  return found;
}

test("creations that race leave as many as there may be", async () => {
  const { records } = open();
  const made = await Promise.all(Array.from({ length: webhooksMax + 5 }, () => records.create(build())));
  expect(made.filter(Boolean).length).toBe((await records.list(uuid)).length);
  expect((await records.list(uuid)).length).toBeLessThanOrEqual(webhooksMax);
  while ((await records.list(uuid)).length < webhooksMax) expect(await records.create(build())).toBe(true);
  expect(await records.create(build())).toBe(false);
  expect((await records.list(uuid)).length).toBe(webhooksMax);
  expect(await records.create(build(otherUuid))).toBe(true);
});

test("changes that race are all made; one of what was deleted is not", async () => {
  const { records } = open();
  const webhook = build();
  await records.create(webhook);
  await Promise.all(
    Array.from({ length: 20 }, () => records.change(webhook, (now) => ({ ...now, position: now.position + 1 }))),
  );
  expect((await records.get(webhook))?.position).toBe(20);
  await records.remove(webhook);
  expect(await records.change(webhook, (now) => now)).toBeUndefined();
  expect(await records.get(webhook)).toBeUndefined();
});

test("one that is rotten hides no other, and a foreign object is none", async () => {
  const { store, records } = open();
  const webhook = build();
  await records.create(webhook);
  await store.put(webhookKey(uuid, `whk_${world.ulid()}`), encodeUtf8("{}"), { kind: "absent" });
  await store.put("hooks/foreign", encodeUtf8("x"), { kind: "absent" });
  expect((await records.list(uuid)).map(({ id }) => id)).toEqual([webhook.id]);
  expect((await all(records)).length).toBe(2);
});

test("those of some shards only are found", async () => {
  const { records } = open();
  const [mine, other] = [build(), build(otherUuid)];
  for (const one of [mine, other]) await records.create(one);
  expect((await all(records)).map(({ id }) => id)).toEqual([mine.id, other.id]);
  expect((await all(records, 0xffe)).map(({ id }) => id)).toEqual([other.id]);
});
