/**
 * `npm run eval -- --dataset PATH [--unit session|turn|transcript] [--k N] [--gate on|off] [--json]`: how well recall
 * finds, by words alone.
 *
 * Starts a node of its own, fills one profile per conversation, and asks every question of the set. With the gate off
 * every question is answered, which measures the ranking; with the gate on it is also measured how many questions keep
 * a hit, and how many that were put to a foreign conversation find nothing.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { rankingVersion } from "../../src/model/recall.ts";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { readCorpus, type Conversation, type Corpus, type Question } from "./corpus.ts";
import { measure, type Answered, type Measures } from "./measures.ts";
import { units, type Call, type Found, type Level, type Unit, type UnitName } from "./units.ts";

/** So deep a ranking is asked for: the reciprocal rank looks beyond k. */
const depthMin = 50;
/** Questions of LoCoMo that are built to mislead: they have evidence, and are counted apart. */
const apart = "adversarial";

interface Report {
  readonly dataset: string;
  readonly sha256: string;
  readonly rankingVersion: number;
  readonly unit: UnitName;
  readonly k: number;
  readonly gate: "on" | "off";
  readonly levels: {
    readonly [Name in Level]?: { readonly overall: Measures; readonly categories: Readonly<Record<string, Measures>> };
  };
  /**
   * Shares: of the questions that found anything; of those put to another conversation, and of those that the set calls
   * unanswerable, that found nothing.
   */
  readonly answered: number | undefined;
  readonly foreignEmpty: number | undefined;
  readonly unanswerableEmpty: number | undefined;
  readonly recallP50Ms: number;
}

function makeCall(node: NodeProcess): Call {
  return async (method, path, body) => {
    const { status, text, json } = await node.call(method, path, body);
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`);
    return json;
  };
}

function share(values: readonly boolean[]): number | undefined {
  return values.length === 0 ? undefined : values.filter(Boolean).length / values.length;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

class Run {
  readonly #call: Call;
  readonly #unit: Unit;
  readonly #k: number;
  readonly #options: object;
  readonly times: number[] = [];

  constructor(call: Call, unit: Unit, k: number, gate: "on" | "off") {
    this.#call = call;
    this.#unit = unit;
    this.#k = k;
    this.#options = gate === "off" ? { min_score: { keyword: 0 } } : {};
  }

  fill(conversation: Conversation): Promise<void> {
    return this.#unit.fill(this.#call, conversation.name, conversation);
  }

  async ask(conversation: Conversation, question: Question): Promise<Found> {
    const startedAt = performance.now();
    const found = await this.#unit.ask(
      this.#call,
      conversation.name,
      question.text,
      Math.max(this.#k, depthMin),
      this.#options,
    );
    this.times.push(performance.now() - startedAt);
    return found;
  }
}

async function evaluate(
  node: NodeProcess,
  corpus: Corpus,
  unitName: UnitName,
  k: number,
  gate: "on" | "off",
): Promise<Report> {
  const unit = units[unitName];
  const run = new Run(makeCall(node), unit, k, gate);
  const answers = new Map<Level, Answered[]>(unit.levels.map((level) => [level, []]));
  const kept: boolean[] = [];
  const foreign: boolean[] = [];
  const unanswerable: boolean[] = [];
  const { conversations } = corpus;
  const isEmpty = (found: Found): boolean => found[unit.levels[0]!]!.length === 0;
  for (const conversation of conversations) await run.fill(conversation);
  for (const [at, conversation] of conversations.entries()) {
    for (const question of conversation.questions) {
      const { category, isAnswerable } = question;
      // A set may name no evidence for what it calls answerable: nothing can be measured of that.
      if (isAnswerable && question[unit.levels[0]!].length === 0) continue;
      const found = await run.ask(conversation, question);
      if (!isAnswerable && category !== apart) unanswerable.push(isEmpty(found));
      if (isAnswerable) kept.push(!isEmpty(found));
      for (const level of unit.levels)
        if (question[level].length > 0 && (isAnswerable || category === apart))
          answers.get(level)!.push({ category, found: found[level]!, evidence: question[level] });
      const other = conversations[(at + 1) % conversations.length]!;
      if (gate === "on" && isAnswerable && other !== conversation)
        foreign.push(isEmpty(await run.ask(other, question)));
    }
  }
  const measured = (some: readonly Answered[]): { overall: Measures; categories: Record<string, Measures> } => ({
    overall: measure(
      some.filter(({ category }) => category !== apart),
      k,
    ),
    categories: Object.fromEntries(
      [...Map.groupBy(some, ({ category }) => category)].map(([category, ofOne]) => [category, measure(ofOne, k)]),
    ),
  });
  return {
    dataset: corpus.kind,
    sha256: corpus.sha256,
    rankingVersion,
    unit: unitName,
    k,
    gate,
    levels: Object.fromEntries([...answers].map(([level, some]) => [level, measured(some)])),
    answered: share(kept),
    foreignEmpty: share(foreign),
    unanswerableEmpty: share(unanswerable),
    recallP50Ms: median(run.times),
  };
}

function print(report: Report): void {
  const { dataset, sha256, unit, k, gate, levels } = report;
  console.log(
    `${dataset} sha256:${sha256.slice(0, 16)} ranking ${report.rankingVersion}, ${unit}, k ${k}, ` +
      `gate ${gate}, p50 ${report.recallP50Ms.toFixed(1)} ms`,
  );
  const row = (name: string, { questions, any, all, fraction, mrr }: Measures): void => {
    console.log(
      `  ${name.padEnd(28)} ${String(questions).padStart(5)}  any@${k} ${any.toFixed(3)}  ` +
        `all@${k} ${all.toFixed(3)}  fraction@${k} ${fraction.toFixed(3)}  MRR ${mrr.toFixed(3)}`,
    );
  };
  for (const [level, { overall, categories }] of Object.entries(levels)) {
    row(level, overall);
    for (const [name, measures] of Object.entries(categories).sort()) row(`  ${name}`, measures);
  }
  const shares = {
    "with a hit": report.answered,
    "foreign without": report.foreignEmpty,
    "unanswerable without": report.unanswerableEmpty,
  };
  console.log(
    `  ${Object.entries(shares)
      .flatMap(([name, value]) => (value === undefined ? [] : `${name} ${value.toFixed(3)}`))
      .join(", ")}`,
  );
}

const { values } = parseArgs({
  options: {
    dataset: { type: "string" },
    unit: { type: "string" },
    k: { type: "string" },
    gate: { type: "string", default: "off" },
    json: { type: "boolean", default: false },
  },
});
const { dataset, gate } = values;
if (
  dataset === undefined ||
  (gate !== "on" && gate !== "off") ||
  (values.unit !== undefined && !(values.unit in units))
) {
  console.error(
    "usage: npm run eval -- --dataset PATH [--unit session|turn|transcript] [--k N] [--gate on|off] [--json]",
  );
  process.exit(2);
}
const corpus = readCorpus(dataset);
const asked = values.unit === undefined ? (Object.keys(units) as UnitName[]) : [values.unit as UnitName];
for (const unit of asked) {
  const directory = mkdtempSync(join(tmpdir(), "palimpsest-eval-"));
  const node = await startNodeProcess(directory, {
    SERVICE_CONTROL_RATE: "100000",
    SERVICE_MAX_BODY_BYTES: String(64 * 1024 * 1024),
  });
  try {
    const report = await evaluate(node, corpus, unit, Number(values.k ?? (unit === "session" ? 5 : 8)), gate);
    if (values.json) console.log(JSON.stringify(report));
    else print(report);
  } finally {
    await node.end("SIGTERM");
    rmSync(directory, { recursive: true, force: true });
  }
}
