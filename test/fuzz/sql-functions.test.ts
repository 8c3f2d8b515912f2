/**
 * Every function that a tenant may call, with large and crafted arguments: alone and many times in one statement, as
 * scalars, aggregates and windows, in reads and in writes. No statement outlives its time, nothing burns on afterwards,
 * memory and temporary files stay within their quotas, and the database stays sound.
 */
import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { limits } from "../../src/base/limits.ts";
import { seeded } from "../support/random.ts";
import { ProcessUnderTest, type Reply } from "../support/sql-process.ts";
import { sqlProcessBytesMax } from "../../src/sqlite/native.ts";

const isLong = process.env["PALIMPSEST_LONG"] === "1";
const seed = Number(process.env["PALIMPSEST_SEED"] ?? 1);
/** All shapes of a few functions in the gate, of every function in the long run. */
const forMs = isLong ? 600_000 : 30_000;
const budgetMs = 250;
const graceMs = 500;
const MiB = 1024 * 1024;

const long = (text: string, bytes: number): string => text.repeat(Math.ceil(bytes / text.length)).slice(0, bytes);
const nested = (open: string, close: string, depth: number): string => open.repeat(depth) + close.repeat(depth);

/** What is given to functions: each is bound, so that no statement is long. */
const values: readonly unknown[] = [
  null,
  0,
  -1,
  1,
  "9223372036854775807",
  "-9223372036854775808",
  1e308,
  -0.5,
  "",
  "a",
  "%",
  "$",
  "$[0]",
  "$.a",
  ",",
  "utf8",
  "NFC",
  long("a", 100_000),
  `${long("b", 15_000)}a`,
  long("ab", 1 * MiB),
  long("\u0001", 200_000),
  long("é", 300_000),
  long("0", 500_000),
  long("'", 500_000),
  long("%a", 499),
  long("*a", 499),
  long("[a-z]*", 498),
  `${long("_%", 498)}b`,
  long("%s%n%.999999d", 10_000),
  "%.*c",
  "%.100000000f",
  "%!.30g",
  "%,d",
  `[${long("1,", 400_000)}1]`,
  nested("[", "]", 900),
  `{${Array.from({ length: 20_000 }, (_, at) => `"k${at}":${at}`).join(",")}}`,
  `{"a":${nested('{"a":', "", 400).replace(/$/, "1")}${"}".repeat(400)}}`,
  `[${Array.from({ length: 3_000 }, () => '{"a":[1,2,{"b":null}]}').join(",")}]`,
  long('"\\u0041', 100_000),
  "2026-11-22 00:00:00",
  "now",
  "+9999 years",
  long("+1 day ", 300),
  { $base64: Buffer.alloc(300_000, 0x41).toString("base64") },
  { $base64: "" },
  { $base64: Buffer.from("ffffffff".repeat(1_000), "hex").toString("base64") },
];

const jsonValues = values.filter((value) => typeof value === "string" && /^[[{]/.test(value));
/**
 * Arguments that belong together, by functions: the product of two lengths, or a search that begins anew at every
 * place.
 */
const crafted: readonly (readonly [names: RegExp, args: readonly unknown[]])[] = [
  [/^(?:l|r)?trim$|^unhex$/, ["a".repeat(100_000), `${"b".repeat(15_000)}a`]],
  [/^(?:instr|replace)$/, [`${"a".repeat(60_000)}`, `${"a".repeat(20_000)}b`, "x".repeat(50_000)]],
  [/^(?:like|glob)$/, [`${long("%a_", 498)}b`, long("a", 3_000_000), "!"]],
  [
    /patch/,
    [
      values.find((value) => typeof value === "string" && value.startsWith('{"k0"')),
      values.find((value) => typeof value === "string" && value.startsWith('{"k0"')),
    ],
  ],
];
/** Functions that there are only as windows. */
const onlyWindows = new Set([
  "row_number",
  "rank",
  "dense_rank",
  "percent_rank",
  "cume_dist",
  "ntile",
  "lag",
  "lead",
  "first_value",
  "last_value",
  "nth_value",
]);

/** What a function is given: what it can take, more often than not. */
function pickArgs(name: string, count: number, random: () => number): readonly unknown[] {
  const pick = (from: readonly unknown[]): unknown => from[Math.floor(random() * from.length)];
  const together = crafted.find(([names]) => names.test(name))?.[1];
  if (together && random() < 0.5) return together.slice(0, count);
  const picked = Array.from({ length: count }, () => pick(values));
  if (/json|^->/.test(name) && count > 0 && random() < 0.8) picked[0] = pick(jsonValues);
  return picked;
}

interface Found {
  readonly name: string;
  readonly type: string;
  readonly narg: number;
}

interface Case {
  readonly what: string;
  readonly text: string;
  readonly params: readonly unknown[];
}

const operators = [
  "?1 LIKE ?2",
  "?1 GLOB ?2",
  "?1 LIKE ?2 ESCAPE '!'",
  "?1 -> ?2",
  "?1 ->> ?2",
  "?1 || ?2",
  "?1 = ?2 COLLATE nocase",
  "?1 BETWEEN ?2 AND ?3",
  "?1 IN (?2, ?3)",
  "CAST(?1 AS REAL)",
  "CAST(?1 AS NUMERIC)",
  "?1 * ?2",
  "?1 % ?2",
  "?1 << ?2",
];
const sources = [
  "json_each(?1)",
  "json_tree(?1)",
  "json_each(?1, ?2)",
  "json_tree(?1, ?2)",
  "pragma_function_list",
  "pragma_table_info(?1)",
];

/** `length` leaves nothing of a result to convert. */
function listShapes({ name, type }: Found, count: number): readonly (readonly [string, string])[] {
  const quoted = `"${name}"`;
  const call = (salt: string): string =>
    `${quoted}(${Array.from({ length: count }, (_, at) => (at === 0 ? `${salt}?1` : `?${at + 1}`)).join(", ")})`;
  const rows = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 200000)";
  // Numbers in an order that a partition by the middle element likes least.
  const organ = "CASE WHEN n <= 100000 THEN n ELSE 200001 - n END";
  const args = (first: string): string =>
    [first, ...Array.from({ length: Math.max(0, count - 1) }, (_, at) => `?${at + 2}`)].slice(0, count).join(", ");
  const used = Array.from({ length: count }, (_, at) => `?${at + 1}`).join(", ");
  const keep = count === 0 ? "" : ` WHERE coalesce(${used}, 1, 1) IS NOT 'x'`;
  const aggregate = type !== "s";
  if (!aggregate) {
    return [
      ["alone", `SELECT length(${call("")})`],
      [
        "many",
        `SELECT ${Array.from({ length: 60 }, (_, at) => `length(${call(count > 0 ? `${at} || ` : "")})`).join(", ")}`,
      ],
      ["rows", `${rows} SELECT count(length(${call(count > 0 ? "n || " : "")})) FROM c`],
    ];
  }
  const window: readonly [string, string] = [
    "window",
    `${rows} SELECT count(x) FROM (SELECT length(${quoted}(${args(organ)}) OVER (ORDER BY n % 1000, n ROWS ` +
      `BETWEEN 5000 PRECEDING AND 5000 FOLLOWING)) AS x FROM c${keep})`,
  ];
  if (onlyWindows.has(name)) return [window];
  const organs = many(12, (at) => `length(${quoted}(${args(count > 0 ? `(${organ}) + ${at}` : "")}))`);
  return [
    ["aggregate", `${rows} SELECT length(${quoted}(${args(organ)})) FROM c${keep}`],
    ["aggregates", `${rows} SELECT ${organs} FROM c${keep}`],
    ["long", `${rows} SELECT length(${quoted}(${args("?1 || n")})) FROM c${keep}`],
    window,
  ];
}

/** So many of the expression, as a list. */
function many(count: number, expression: (at: number) => string): string {
  return Array.from({ length: count }, (_, at) => expression(at)).join(", ");
}

function* generateCases(functions: readonly Found[], random: () => number): Generator<Case> {
  for (;;) {
    const found = functions[Math.floor(random() * functions.length)]!;
    const count = found.narg >= 0 ? found.narg : 1 + Math.floor(random() * 4);
    for (const [shape, text] of listShapes(found, count))
      yield { what: `${found.name}/${count} ${shape}`, text, params: pickArgs(found.name, count, random) };
    const operator = operators[Math.floor(random() * operators.length)]!;
    const source = sources[Math.floor(random() * sources.length)]!;
    for (const [what, text] of [
      [operator, `SELECT ${many(40, (at) => `length(${operator.replace("?1", `(?1 || ${at})`)})`)}`],
      [
        source,
        (
          `SELECT count(*), max(length(${source.startsWith("json") ? "value" : "name"})) ` +
          `FROM ${source}${source.startsWith("json") ? " AS a, json_each('[1,2,3]')" : ""}`
        ).replace("length(value)", "length(a.value)"),
      ],
    ] as const)
      yield {
        what,
        text,
        params: pickArgs(
          /LIKE|GLOB/.test(what)
            ? what.slice(3, 7).toLowerCase()
            : what.includes("json") || what.includes("->")
              ? "json"
              : what,
          Math.max(0, ...[...text.matchAll(/\?(\d)/g)].map(([, number]) => Number(number))),
          random,
        ),
      };
  }
}

/** Bytes of the temporary files that the process has open: they have no name any more. */
function measureSpill(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).reduce((sum, name) => {
      const path = `/proc/${pid}/fd/${name}`;
      return readlinkSync(path).includes("etilqs") ? sum + statSync(path).size : sum;
    }, 0);
  } catch {
    // The process, or a file of it, has gone meanwhile.
    return 0;
  }
}

function readStatus(pid: number, name: string): number {
  return 1024 * Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
}

function readCpu(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ");
  return 10 * (Number(fields[11]) + Number(fields[12]));
}

/** The functions of which at least one call is not refused for its name. */
async function callable(process: ProcessUnderTest): Promise<readonly Found[]> {
  const { rows } = await process.run("read", [["SELECT DISTINCT name, type, narg FROM pragma_function_list"]]);
  const listed = (JSON.parse(rows![0]!) as [string, string, number][]).map(([name, type, narg]) => ({
    name,
    type,
    narg,
  }));
  const found: Found[] = [];
  for (const one of listed) {
    const reply = await process.run("read", [
      [`SELECT "${one.name}"(${many(Math.max(one.narg, 0), () => "NULL")})${one.type === "w" ? " OVER ()" : ""}`],
    ]);
    if (!/not an allowed function|is not allowed/.test(reply.refusal?.message ?? "")) found.push(one);
  }
  return found;
}

test(
  `no function makes a statement outlive its time or its quotas (seed ${seed})`,
  { timeout: forMs + 120_000 },
  async () => {
    const process = new ProcessUnderTest();
    await process.run("write", [["CREATE TABLE t (x)"]]);
    const functions = await callable(process);
    expect(functions.length).toBeGreaterThan(100);
    const startedMs = performance.now();
    const counts = { answered: 0, refused: 0, timedOut: 0, killed: 0 };
    let most = 0;
    let ran = 0;
    for (const { what, text, params } of generateCases(functions, seeded(seed))) {
      if (performance.now() - startedMs > forMs) break;
      const kind = ran++ % 2 === 0 ? "read" : "write";
      let lasts = true;
      let spill = 0;
      const watch = (async (pid: number): Promise<void> => {
        for (; lasts; await sleep(20)) spill = Math.max(spill, measureSpill(pid));
      })(await process.pidStarted());
      const statement = kind === "read" ? text : `INSERT INTO t SELECT count(*) FROM (${text})`;
      let reply: Reply = await process.run(kind, [[statement, ...params]], budgetMs);
      // A machine that stands still for a moment makes one late, and not the same one again.
      if (reply.ms > budgetMs + graceMs) reply = await process.run(kind, [[statement, ...params]], budgetMs);
      lasts = false;
      await watch;
      expect(reply.ms, `${what} as a ${kind}`).toBeLessThan(budgetMs + graceMs);
      expect(spill, what).toBeLessThanOrEqual(limits.sqlSpillBytesMax);
      counts[
        reply.ended
          ? "killed"
          : reply.rows
            ? "answered"
            : reply.refusal!.code === "request_timeout"
              ? "timedOut"
              : "refused"
      ]++;
      if (reply.refusal)
        expect(["invalid_request", "request_timeout"], `${what}: ${reply.refusal.message}`).toContain(
          reply.refusal.code,
        );
      if (reply.ended) continue;
      most = Math.max(most, readStatus(process.pid, "VmHWM"));
      if (ran % 25 !== 0) continue;
      const before = readCpu(process.pid);
      await sleep(150);
      expect(readCpu(process.pid) - before, `${what} burns on`).toBeLessThan(80);
    }
    if (isLong)
      globalThis.process.stderr.write(
        `${ran} statements ` +
          `of ${functions.length} functions: ${JSON.stringify(counts)}, ${Math.round(most / MiB)} MiB\n`,
      );
    expect(ran).toBeGreaterThan(30);
    expect(most).toBeLessThan(sqlProcessBytesMax + 256 * MiB);
    expect(process.owner.raw.pragma("quick_check", { simple: true })).toBe("ok");
  },
);
