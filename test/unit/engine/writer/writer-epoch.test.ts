/** What a file has beyond its manifest when its log is gone reaches object storage, whoever's claim it is of. */
import { cpSync, existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { realWorld } from "../../../../src/base/world.ts";
import { ManifestWriter } from "../../../../src/engine/history/manifest-writer.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { MemoryStore } from "../../../../src/store/memory-store.ts";
import { openInlineEngine, uuidOf } from "../../../support/inline-engine.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

const uuid = uuidOf(1);
const target = { uuid, branch: "main" };
const put = (key: string) => ({ ns: "n", key, value: Buffer.from(key) });

test(
  "F11: a log lost between a claim and its first commit costs neither what the file has nor the " + "branch",
  async () => {
    const [store, world] = [new MemoryStore(), realWorld()];
    const directory = join(temporaryDirectory(), "first");
    const first = openInlineEngine(directory, { store });
    await first.client.write(target, "kv.put", put("shipped"), { ...first.soon(), durable: true });
    await first.client.write(target, "kv.put", put("logged"), first.soon());
    const copy = join(temporaryDirectory(), "copy");
    cpSync(directory, copy, { recursive: true });
    const before = new MemoryStore();
    for (const { key } of (await store.list("", { limit: 1_000 })).objects)
      await before.put(key, (await store.get(key))!.bytes, { kind: "absent" });
    await first.client.close();

    // The node comes back, claims, and dies; then its log goes, folded into the file by somebody else's connection.
    const manifest = await ManifestWriter.read({ store: before, world, nodeId: "test-node", uuid, branchId: "main" });
    expect(manifest.now.txid).toBe(1);
    await manifest.claim(2, true);
    const path = join(copy, "db", uuid, "main.db");
    new Connection(path, { readonly: false, pageCacheKiB: 256 }).close();
    expect(existsSync(`${path}-wal`)).toBe(false);

    const keys = ["logged", "shipped"];
    const second = openInlineEngine(copy, { store: before });
    expect((await second.client.read(target, "kv.list", { ns: "n" }, second.soon())).value.keys).toEqual(keys);
    expect(await second.client.sync(target, second.soon())).toMatchObject({ txid: 2, durableTxid: 2 });
    await second.client.close();
    const third = openInlineEngine(temporaryDirectory(), { store: before });
    expect(await third.client.read(target, "kv.list", { ns: "n" }, third.soon())).toMatchObject({
      value: { keys },
      txid: 2,
    });
    await third.client.close();
  },
);
