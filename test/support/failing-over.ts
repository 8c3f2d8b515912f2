/**
 * A program on the TypeScript client at the address argv[2], while nodes die: it appends turns to the database argv[3],
 * each durable, reads each one back, and follows the change feed. test/clients/python/failing_over.py is the same in
 * Python.
 *
 * Writes `wrote N` for each turn, `resting` before it waits for a line, and at last what it found, as JSON.
 */
import { once } from "node:events";
import { Palimpsest } from "../../clients/typescript/src/index.ts";

const count = 60;
const restAt = 40;

const [url, name] = process.argv.slice(2) as [string, string];
const client = new Palimpsest({ url, timeoutMs: 60_000 });
const db = client.database(name);
const turns = db.turns("chat");

/** The transactions that were told, with the turns of each; what was told before a loss is in `lost`. */
type Told = readonly [afterTxid: number, txid: number, turns: readonly number[]];
let told: Told[] = [];
const lost: Told[][] = [];
let isOver = false;
let untilTxid = Number.MAX_SAFE_INTEGER;

async function follow(): Promise<void> {
  while (!isOver)
    try {
      for await (const { kind, afterTxid, txid, changes } of db.watch({ after: 0 })) {
        if (kind !== "position")
          told.push([afterTxid, txid, changes.flatMap(({ seq, op }) => (op === "created" ? [seq!] : []))]);
        if (txid >= untilTxid) isOver = true;
        if (isOver) break;
      }
    } catch (error) {
      if (!(error instanceof Palimpsest.Conflict)) throw error;
      lost.push(told);
      told = [];
    }
}

const following = follow();
const stale: number[] = [];
for (let n = 0; n < count; n++) {
  if (n === restAt) {
    console.log("resting");
    await once(process.stdin, "data");
  }
  const content = `turn ${n}`;
  await turns.append([{ role: "user", content }], {}, { durability: "durable" });
  const [last] = await turns.last(1);
  if (last?.content !== content) stale.push(n);
  console.log(`wrote ${n}`);
}
const kept: unknown[] = [];
for await (const { content } of turns.list()) kept.push(content);
untilTxid = Object.values(JSON.parse(client.token()) as Record<string, number>)[0]!;
// The one transaction more is told to whoever has been told all others already.
await db.kv("end").put("end", "", {}, { durability: "durable" });
await following;
console.log(JSON.stringify({ kept, stale, told, lost }));
process.exit(0);
