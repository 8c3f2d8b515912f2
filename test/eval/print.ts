/** Reports of an evaluation as text. */
import type { Report } from "./evaluate.ts";
import type { Interval, Measures } from "./measures.ts";
import { byKind, measureSmall, type Outcome, type SmallMeasures } from "./small/evaluate.ts";

function row(name: string, k: number, { questions, any, all, fraction, mrr, empty }: Measures): void {
  console.log(
    `  ${name.padEnd(28)} ${String(questions).padStart(5)}  any@${k} ${any.toFixed(3)}  all@${k} ${all.toFixed(3)}  ` +
      `fraction@${k} ${fraction.toFixed(3)}  MRR ${mrr.toFixed(3)}  empty ${empty.toFixed(3)}`,
  );
}

const range = ([low, high]: Interval): string => `[${low.toFixed(3)}, ${high.toFixed(3)}]`;

export function printReport(report: Report): void {
  const { dataset, sha256, unit, shape, k, gate, levels } = report;
  console.log(
    `${dataset} sha256:${sha256.slice(0, 16)} ranking ${report.rankingVersion}, ${unit}, ` +
      `${unit === "transcript" ? "" : `${shape}, `}${report.together ? "one profile, " : ""}k ${k}, gate ${gate}, ` +
      `p50 ${report.recallP50Ms.toFixed(1)} ms`,
  );
  for (const [level, { overall, plain, categories, plainCategories, intervals }] of Object.entries(levels)) {
    row(level, k, overall);
    row(`${level}, plain BM25`, k, plain);
    for (const [name, { own, gain }] of Object.entries(intervals))
      console.log(`    ${name.padEnd(9)} 95 % ${range(own)}, gain over plain BM25 ${range(gain)}`);
    for (const [name, measures] of Object.entries(categories).sort()) {
      row(`  ${name}`, k, measures);
      row("    plain BM25", k, plainCategories[name]!);
    }
  }
  const shares = {
    "own empty": report.ownEmpty,
    "foreign empty": report.foreignEmpty,
    "unanswerable empty": report.unanswerableEmpty,
  };
  const said = Object.entries(shares).flatMap(([name, value]) =>
    value === undefined ? [] : `${name} ${value.toFixed(3)}`,
  );
  console.log(`  ${said.join(", ")}`);
}

export function printSmall(half: string, outcomes: readonly Outcome[]): void {
  const line = (name: string, { cases, precision, recall, exact }: SmallMeasures): void =>
    console.log(
      `  ${name.padEnd(10)} ${String(cases).padStart(4)}  precision ${precision.toFixed(3)}  ` +
        `recall ${recall.toFixed(3)}  exact ${exact.toFixed(3)}`,
    );
  console.log(`small stores, ${half}`);
  line("all", measureSmall(outcomes));
  for (const [kind, measures] of byKind(outcomes)) line(kind, measures);
}
