/**
 * `npm run sim [-- --seed N | --seeds N | --minutes M] [--from N] [--shared] [--trace] [--keep-going]`: runs seeds
 * until one fails. `--shared`: of several nodes that share databases.
 */
import { parseArgs } from "node:util";
import { simulateShared } from "./shared-simulation.ts";
import { simulate } from "./simulation.ts";
import { drawPlot } from "./plot.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    seeds: { type: "string" },
    minutes: { type: "string" },
    from: { type: "string" },
    shared: { type: "boolean" },
    trace: { type: "boolean" },
    "keep-going": { type: "boolean" },
  },
});
const first = Number(values.seed ?? values.from ?? 1);
const last =
  values.seed !== undefined ? first : values.minutes !== undefined ? Infinity : first + Number(values.seeds ?? 20) - 1;
const startedMs = performance.now();
const untilMs = startedMs + Number(values.minutes ?? Infinity) * 60_000;
const totals: Record<string, number> = {};
/** Of this process so far: what else the machine does is left out. */
const cpuSecs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000_000;
};
for (let seed = first; seed <= last && performance.now() < untilMs; seed++) {
  const beganSecs = cpuSecs();
  const keepTrace = values.trace ?? false;
  const outcome = values.shared
    ? await simulateShared(seed, { keepTrace })
    : await simulate(seed, { plot: drawPlot(seed), keepTrace });
  for (const [what, count] of Object.entries(outcome.counts)) totals[what] = (totals[what] ?? 0) + count;
  const { steps, crashes, virtualMs, traceHash } = outcome;
  console.log(
    `seed ${seed}: ${outcome.failure ? "FAILED" : "fine"}, ${steps} steps, ${crashes} crashes, ` +
      `${(virtualMs / 1_000).toFixed(0)} s in ${(cpuSecs() - beganSecs).toFixed(2)} s of CPU, trace ${traceHash}`,
  );
  if (values.trace || outcome.failure) for (const line of outcome.lines) console.log(`  ${line}`);
  if (outcome.failure) {
    console.log(outcome.failure.stack ?? outcome.failure.message);
    console.log(`replay: npm run sim -- --seed ${seed} --trace${values.shared ? " --shared" : ""}`);
    process.exitCode = 1;
    if (!values["keep-going"]) break;
  }
}
if (last !== first) console.log(totals);
