/**
 * A process that fills the small disk under a real node and its object store, while durable and standard clients write,
 * kills the node, takes its data away and starts it anew on what the store has: `node full-disk-node.ts <small disk>
 * <runs> <seed>`. Throws at the first promise that was broken; prints what was counted.
 */
import { mkdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { countingClients, expectSound, prepareCounting } from "./counting-clients.ts";
import { startNodeProcess } from "./node-process.ts";
import { seeded } from "./random.ts";

const [disk, runs, seed] = process.argv.slice(2) as [string, string, string];
const random = seeded(Number(seed));
const counts = { acknowledged: 0, durable: 0, refused: 0 };

/** Leaves about this much room on the disk. */
function fill(leftBytes: number): void {
  const { bavail, bsize } = statfsSync(disk);
  try {
    writeFileSync(join(disk, "filler"), Buffer.alloc(Math.max(0, bavail * bsize - leftBytes)));
  } catch (error) {
    // The node was faster with what was left: the disk is full, as it was to be.
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
  }
}

const directory = join(disk, "data");
const variables = { SERVICE_LOG_LEVEL: "error", SERVICE_OBJECT_STORE: `file://${join(disk, "objects")}` };
const clients = countingClients();
let node = await startNodeProcess(directory, variables);
await prepareCounting(node.call, clients);
for (let run = 0; run < Number(runs); run++) {
  let isOver = false;
  const writing = clients.map(async (client) => {
    while (!isOver) {
      const outcome = await client.advance(node.call);
      if (outcome.kind === "acknowledged") counts[client.durable ? "durable" : "acknowledged"]++;
      else {
        counts.refused++;
        await pause(20);
      }
    }
  });
  await pause(300 + random() * 300);
  // Room comes and goes, and is gone when the node is killed: what was put last is what the next node reads.
  for (let fills = 0; fills < 4; fills++) {
    if (fills > 0) rmSync(join(disk, "filler"));
    await pause(random() * 60);
    fill(Math.floor(random() * 150_000));
    await pause(100 + random() * 400);
  }
  isOver = true;
  await node.end("SIGKILL");
  await Promise.all(writing);
  rmSync(join(disk, "filler"));
  rmSync(directory, { recursive: true });
  mkdirSync(directory);
  node = await startNodeProcess(directory, variables);
  for (const client of clients) await client.expectCut(node.call);
  await expectSound(node.call);
}
await node.end("SIGKILL");
console.log(JSON.stringify(counts));
