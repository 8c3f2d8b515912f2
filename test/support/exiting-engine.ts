/**
 * A process that writes through an engine and ends without closing it: `node exiting-engine.ts <data> <store> <how>`.
 *
 * It prints the keys that were acknowledged. The last ones cannot be in object storage yet when it ends.
 */
import { realWorld } from "../../src/base/world.ts";
import { FileStore } from "../../src/store/file/file-store.ts";
import { openInlineEngine, uuidOf } from "./inline-engine.ts";

const [directory, storeDirectory, how] = process.argv.slice(2) as [string, string, "exit" | "drained"];
const target = { uuid: uuidOf(1), branch: "main" };
const { client, soon } = openInlineEngine(directory, { store: await FileStore.open(storeDirectory, realWorld()) });
const acknowledged: string[] = [];
const put = async (key: string): Promise<void> => {
  await client.write(target, "kv.put", { ns: "n", key, value: Buffer.from(key) }, soon());
  acknowledged.push(key);
};
for (let step = 1; step <= 3; step++) await put(`k${step}`);
await client.sync(target, soon());
for (let step = 4; step <= 8; step++) await put(`k${step}`);
console.log(JSON.stringify(acknowledged));
if (how === "exit") process.exit(0);
