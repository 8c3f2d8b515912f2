/**
 * The change feed of a node that is killed while several clients write: no gap, no repeat, in order, every
 * acknowledged write told; after the loss of its disk, a reader that saw what was lost is told so.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { freePort, startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { SteadyWriters } from "../support/steady-writers.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { SteadyReader, watches, Watching } from "../support/watchers.ts";

const text = { "content-type": "text/plain" };
const writers = 4;
const kills = 3;

async function start(directory: string, port: number): Promise<NodeProcess> {
  return startNodeProcess(directory, {}, undefined, port);
}

test("through kills, every transaction is told once, in order, and every acknowledged write with it", async () => {
  const directory = temporaryDirectory();
  const port = await freePort();
  let node = await start(directory, port);
  onTestFinished(() => node.end("SIGKILL"));
  expect((await node.call("POST", "/v1/databases", { name: "one" })).status).toBe(201);
  const reader = new SteadyReader([`http://127.0.0.1:${port}`], "one");
  const put = (key: string): ReturnType<NodeProcess["call"]> => node.call("PUT", `/v1/db/one/kv/n/${key}`, key, text);
  const writing = new SteadyWriters(Array<typeof put>(writers).fill(put), 2);
  const { acknowledged } = writing;
  for (let kill = 0; kill < kills; kill++) {
    const before = acknowledged.size;
    while (acknowledged.size < before + 50) await pause(10);
    await node.end("SIGKILL");
    node = await start(directory, port);
  }
  await writing.stop();
  while ((reader.told.at(-1)?.txid ?? 0) < writing.last) await pause(10);
  await reader.stop();
  const told = new Map<string, number>();
  let position = 0;
  for (const { txid, afterTxid, changes } of reader.told) {
    expect(afterTxid).toBe(position);
    expect(txid).toBeGreaterThan(position);
    position = txid;
    for (const { key } of changes) {
      expect(told.has(key as string), `${String(key)} is told twice`).toBe(false);
      told.set(key as string, txid);
    }
  }
  for (const [key, txid] of acknowledged) expect([key, told.get(key)]).toEqual([key, txid]);
  // What is told is what is there.
  for (const key of [...told.keys()].slice(-20))
    expect((await node.call("GET", `/v1/db/one/kv/n/${key}`)).status).toBe(200);
}, 180_000);

test("a reader that has seen what a lost disk took is answered conflict; another goes on", async () => {
  const directory = temporaryDirectory();
  const port = await freePort();
  let node = await start(directory, port);
  onTestFinished(() => node.end("SIGKILL"));
  const address = `http://127.0.0.1:${port}`;
  await node.call("POST", "/v1/databases", { name: "one" });
  const durable = { ...text, "service-durability": "durable" };
  expect((await node.call("PUT", "/v1/db/one/kv/n/kept", "x", durable)).status).toBe(200);
  // A second until it is shipped: a kill right after the answer comes before.
  for (let tries = 0; ; tries++) {
    const { json, headers } = await node.call("PUT", "/v1/db/one/kv/n/lost", `${tries}`, text);
    const lost = json.txid as number;
    const watching = new Watching(watches["rest"]!, address, { db: "one", after: lost - 1 });
    await watching.until(({ transactions }) => transactions.some(({ txid }) => txid === lost));
    await node.end("SIGKILL");
    watching.stop();
    rmSync(join(directory, "db"), { recursive: true });
    node = await start(directory, port);
    const kept = Number(headers.get("service-durable-txid"));
    expect((await node.call("PUT", "/v1/db/one/kv/n/later", `${tries}`, text)).status).toBe(200);
    const fresh = new Watching(watches["rest"]!, address, { db: "one", after: 0 });
    await fresh.until(({ transactions }) => transactions.at(-1)?.changes[0]?.["key"] === "later");
    fresh.stop();
    // Shipped in that instant after all: once more.
    if (fresh.transactions.some(({ txid }) => txid === lost) && tries < 10) continue;
    expect(fresh.transactions.at(-1)!.afterTxid).toBe(kept);
    for (const watch of Object.values(watches))
      expect(await new Watching(watch, address, { db: "one", after: lost }).end()).toMatchObject({ code: "conflict" });
    return;
  }
}, 180_000);
