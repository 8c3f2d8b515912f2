/** Turns over REST: a hundred in one call beside a hundred calls of one, on the same node, in turn. */
import { join } from "node:path";
import { startNodeProcess } from "../support/node-process.ts";
import { median, openClient, type Request } from "./raw-client.ts";
import { report } from "./report.ts";
import { buildSentences } from "./writes.ts";

const rounds = 9;
const turnsPerRound = 100;

export async function benchTurns(directory: string): Promise<void> {
  const sentences = buildSentences(turnsPerRound);
  const node = await startNodeProcess(join(directory, "turns"));
  await node.call("POST", "/v1/databases", { name: "turns" });
  const client = await openClient("raw", node.port);
  const turn = (at: number): object => ({ role: "user", content: { text: sentences[at % turnsPerRound] } });
  const single = (at: number): Request => ["POST", "/v1/db/turns/memory/single/turns", JSON.stringify(turn(at))];
  const turns = Array.from({ length: turnsPerRound }, (_, at) => turn(at));
  const batch: Request = ["POST", "/v1/db/turns/memory/batch/turns/batch", JSON.stringify({ turns })];
  const send = async (request: Request): Promise<void> => {
    const { status, body } = await client.send(...request);
    if (status >= 300) throw new Error(`status ${status}: ${body}`);
  };
  const timed = async (act: () => Promise<void>): Promise<number> => {
    const start = performance.now();
    await act();
    return performance.now() - start;
  };
  const singles: number[] = [];
  const batches: number[] = [];
  for (let round = 0; round < rounds + 2; round++) {
    const singlesMs = await timed(async () => {
      for (let at = 0; at < turnsPerRound; at++) await send(single(at));
    });
    const batchMs = await timed(() => send(batch));
    // The first rounds warm the node up.
    if (round < 2) continue;
    singles.push(singlesMs);
    batches.push(batchMs);
  }
  client.close();
  await node.end("SIGTERM");
  const share = median(batches) / median(singles);
  report("turns", [
    { what: "100 turns, 100 calls", p50Ms: median(singles) },
    { what: "100 turns, one call", p50Ms: median(batches), note: `${share.toFixed(3)} of the calls of one; aim 0.25` },
  ]);
}
