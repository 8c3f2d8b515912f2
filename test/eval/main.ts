/**
 * `npm run eval -- --dataset PATH [--unit session|turn|transcript] [--shape summary|content|both] [--k N]
 * [--gate on|off] [--half even|odd] [--together] [--plot FILE.svg]`, or
 * `npm run eval -- --small development|held-out`; both with `[--embed local] [--direct [--set NAME=VALUE,…]] [--json]`:
 * how well recall finds, by words alone or with the vectors of an embedder, beside plain BM25.
 *
 * Starts a node of its own for each unit and shape, fills one profile per conversation, and asks every question of the
 * set; `--direct` calls the modules in this process instead, which gives the same answers sooner, keeps vectors for the
 * next run, and can do so with other constants than those of src/model/ranking/recipe.ts.
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { recipe } from "../../src/model/ranking/recipe.ts";
import { readCorpus, type Conversation, type Corpus } from "./corpus.ts";
import { openEmbedder } from "./embeddings.ts";
import { evaluate, type Report } from "./evaluate.ts";
import { drawPlot } from "./plot.ts";
import { printReport, printSmall } from "./print.ts";
import { askStores } from "./small/evaluate.ts";
import { smallStores } from "./small/stores.ts";
import { directTarget, restTarget, type Target } from "./targets.ts";
import { shapes, unitNames, type Shape, type UnitName } from "./units.ts";

function refuse(): never {
  console.error(
    `usage: npm run eval -- (--dataset PATH [--unit ${unitNames.join("|")}] [--shape ${shapes.join("|")}] [--k N]\n` +
      "         [--gate on|off] [--half even|odd] [--together] [--plot FILE.svg] | --small development|held-out)\n" +
      "         [--embed local] [--direct [--set NAME=VALUE,…]] [--json]",
  );
  process.exit(2);
}

const { values } = parseArgs({
  options: {
    dataset: { type: "string" },
    small: { type: "string" },
    unit: { type: "string" },
    shape: { type: "string" },
    k: { type: "string" },
    gate: { type: "string", default: "on" },
    half: { type: "string" },
    together: { type: "boolean", default: false },
    direct: { type: "boolean", default: false },
    set: { type: "string" },
    embed: { type: "string" },
    plot: { type: "string" },
    json: { type: "boolean", default: false },
  },
});

async function withTarget<Result>(use: (target: Target) => Promise<Result>): Promise<Result> {
  const target = values.direct
    ? directTarget(values.embed === "local" ? await openEmbedder() : undefined)
    : await restTarget(values.embed);
  try {
    return await use(target);
  } finally {
    await target.close();
  }
}

async function evaluateSmall(half: keyof typeof smallStores): Promise<void> {
  const outcomes = await withTarget((target) => askStores(target, smallStores[half]));
  if (values.json) console.log(JSON.stringify(outcomes));
  else printSmall(half, outcomes);
}

/** Asks the conversations at even or odd places alone: what is chosen on one half is tried on the other. */
function halfOf(corpus: Corpus): Corpus {
  if (values.half === undefined) return corpus;
  const rest = values.half === "even" ? 0 : 1;
  const ofHalf = (one: Conversation, at: number) => (at % 2 === rest ? one : { ...one, questions: [] });
  return { ...corpus, conversations: corpus.conversations.map(ofHalf) };
}

async function evaluateSet(path: string, gate: "on" | "off"): Promise<void> {
  const corpus = halfOf(readCorpus(path));
  const units = values.unit === undefined ? unitNames : [values.unit as UnitName];
  const reports: Report[] = [];
  for (const unit of units) {
    const usual: readonly Shape[] = unit === "turn" ? shapes : ["content"];
    for (const shape of values.shape === undefined ? usual : [values.shape as Shape]) {
      const k = Number(values.k ?? (corpus.kind === "beam" ? 10 : unit === "session" ? 5 : 8));
      const options = { unit, shape, k, gate, together: values.together };
      const report = await withTarget((target) => evaluate(target, corpus, options));
      if (values.json) console.log(JSON.stringify(report));
      else printReport(report);
      reports.push(report);
    }
  }
  if (values.plot !== undefined) writeFileSync(values.plot, drawPlot(reports));
}

function setConstants(given: string): void {
  const constants: Record<string, number> = recipe;
  for (const pair of given.split(",")) {
    const [name = "", value] = pair.split("=");
    if (!values.direct || !(name in constants) || !Number.isFinite(Number(value))) refuse();
    constants[name] = Number(value);
  }
}

const { dataset, small, gate, unit, shape } = values;
if (
  (dataset === undefined) === (small === undefined) ||
  (values.embed !== undefined && values.embed !== "local") ||
  (gate !== "on" && gate !== "off") ||
  (values.half !== undefined && values.half !== "even" && values.half !== "odd") ||
  (small !== undefined && !(small in smallStores)) ||
  (unit !== undefined && !unitNames.includes(unit as UnitName)) ||
  (shape !== undefined && !shapes.includes(shape as Shape))
)
  refuse();
if (values.set !== undefined) setConstants(values.set);
if (dataset === undefined) await evaluateSmall(small as keyof typeof smallStores);
else await evaluateSet(dataset, gate);
