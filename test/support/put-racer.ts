/** A process that races others for versions of one key in a file store; prints how often it won, and how often it could not know. */
import { StoreError } from "../../src/base/errors.ts";
import { realWorld } from "../../src/base/world.ts";
import { FileStore } from "../../src/store/file-store.ts";

const [root, key, rounds] = process.argv.slice(2) as [string, string, string];
const store = await FileStore.open(root, realWorld());
let wins = 0;
let unknown = 0;
while (true) {
  const current = await store.get(key);
  const count = current ? Number(Buffer.from(current.bytes).toString()) : 0;
  if (count >= Number(rounds)) break;
  try {
    const outcome = await store.put(key, Buffer.from(String(count + 1)), current ? { kind: "version", version: current.version } : { kind: "absent" });
    if (outcome.kind === "stored") wins++;
  } catch (error) {
    if (!(error instanceof StoreError) || error.kind !== "unknown_outcome") throw error;
    unknown++;
  }
}
console.log(JSON.stringify({ wins, unknown }));
