/**
 * A process that races others for versions of one key of a store; prints how often it won, and how often it could not
 * know.
 */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { StoreError } from "../../src/base/faults/errors.ts";
import { realWorld } from "../../src/base/world.ts";
import { openStore, type StoreLocation } from "../../src/store/open-store.ts";

export interface RaceTotals {
  readonly wins: number;
  readonly unknown: number;
}

/** Lets several processes count one object of the store up to `steps`, and adds up what they tell. */
export async function racePuts(location: StoreLocation, processes: number, steps: number): Promise<RaceTotals> {
  const runs = await Promise.all(
    Array.from({ length: processes }, () =>
      promisify(execFile)(process.execPath, [import.meta.filename, JSON.stringify(location), "count", String(steps)]),
    ),
  );
  const totals = runs.map(({ stdout }) => JSON.parse(stdout) as RaceTotals);
  return {
    wins: totals.reduce((sum, one) => sum + one.wins, 0),
    unknown: totals.reduce((sum, one) => sum + one.unknown, 0),
  };
}

async function race(location: StoreLocation, key: string, steps: number): Promise<RaceTotals> {
  const store = await openStore(location, realWorld());
  let wins = 0;
  let unknown = 0;
  while (true) {
    const current = await store.get(key);
    const count = current ? Number(Buffer.from(current.bytes).toString()) : 0;
    if (count >= steps) return { wins, unknown };
    try {
      const outcome = await store.put(
        key,
        Buffer.from(String(count + 1)),
        current ? { kind: "version", version: current.version } : { kind: "absent" },
      );
      if (outcome.kind === "stored") wins++;
    } catch (error) {
      if (!(error instanceof StoreError) || error.kind !== "unknown_outcome") throw error;
      unknown++;
    }
  }
}

if (import.meta.main) {
  const [location, key, steps] = process.argv.slice(2) as [string, string, string];
  console.log(JSON.stringify(await race(JSON.parse(location) as StoreLocation, key, Number(steps))));
}
