/**
 * The configuration of a node, from the table of variables (server/config/settings): parsing, defaults, messages,
 * command-line flags, `--help` and the README's table.
 *
 * Always true: a Config is complete, typed and frozen; no message shows the value of a secret. Must not know: what a
 * setting does beyond its one line of meaning.
 */
import { limits } from "../../base/limits.ts";
import { findNearestWord } from "../../base/faults/near-words.ts";
import type { StoreLocation } from "../../store/open-store.ts";
import { baseAddress, trueOrFalse, word } from "./setting-kinds.ts";
import type { Kind } from "./setting-kinds.ts";
import { settings, type AnySetting, type Setting } from "./settings.ts";
import { readTracing, type TracingSettings } from "./tracing-settings.ts";

/** Variables as a process gives them. An empty one counts as unset. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Facts of the machine and the process that some defaults speak of. */
export interface Host {
  readonly pid: number;
  /** Processors that this process may use. */
  readonly cores: number;
}

type ValueOf<Row> =
  Row extends Setting<infer Value, infer Fallback> ? (Fallback extends string ? Value : Value | undefined) : never;

/** What a node is told at start: a value for every row of the table, frozen. */
export type Config = { readonly [Name in keyof typeof settings]: ValueOf<(typeof settings)[Name]> } & {
  /** Where spans go, as the variables say that all programs with OpenTelemetry share; undefined when nowhere. */
  readonly tracing: TracingSettings | undefined;
};

/** The outcome of reading the variables: a Config, or every problem at once. Warnings name unknown variables. */
export type Reading =
  | { readonly config: Config; readonly warnings: readonly string[] }
  | { readonly problems: readonly string[]; readonly warnings: readonly string[] };

/** The command-line flag of a variable: SERVICE_DATA_DIR has `--data-dir`. Secrets have none. */
export function getFlag(setting: AnySetting): string | undefined {
  if (setting.kind.secret) return undefined;
  return `--${setting.variable.slice("SERVICE_".length).toLowerCase().replaceAll("_", "-")}`;
}

/** Reads every variable of the table. Pure: the same variables and host give the same answer. */
export function readConfig(environment: Environment, host: Host): Reading {
  const texts = new Map([
    ["pid", String(host.pid)],
    ["cores-1", String(Math.max(1, host.cores - 1))],
  ]);
  const values: Record<string, unknown> = {};
  const problems: string[] = [];
  for (const [name, setting] of Object.entries<AnySetting>(settings)) {
    const set = environment[setting.variable] || undefined;
    const text = set ?? setting.fallback?.replace(/\{([^}]+)\}/g, (_, key: string) => texts.get(key) ?? "");
    if (text === undefined) continue;
    texts.set(setting.variable, text);
    const value = text.length <= limits.settingTextCharsMax ? setting.kind.parse(text) : undefined;
    // A default is bad only when a variable that it speaks of is, and that one has been named already.
    if (value === undefined && set !== undefined) problems.push(describeProblem(setting, text));
    values[name] = Object.freeze(value);
  }
  const location = values["objectStore"] as StoreLocation | undefined;
  if (location) values["objectStore"] = Object.freeze(withStandardVariables(location, environment, problems));
  const known = new Set(Object.values<AnySetting>(settings).map((setting) => setting.variable));
  const unknown = Object.keys(environment).filter(
    (variable) => variable.startsWith("SERVICE_") && !known.has(variable),
  );
  // A slip in SERVICE_AUTH would leave a node open; what is near no variable may be meant for another program.
  for (const variable of unknown) {
    const meant = findNearestWord(variable, [...known]);
    if (meant !== undefined)
      problems.push(`${variable} is not a variable of this node; did you mean ${meant}? Rename it or unset it`);
  }
  const warnings = unknown.map((variable) => `${variable} is not a variable of this node and is ignored`);
  values["tracing"] = readTracing(environment, problems, warnings);
  if (problems.length > 0) return { problems, warnings };
  return { config: Object.freeze(values) as Config, warnings };
}

/**
 * Completes an S3 store with the variables that S3 clients share; of several names the first that is set counts. They
 * are not looked at for other stores, as they may be meant for another program. Credentials are left to the client.
 */
function withStandardVariables(location: StoreLocation, environment: Environment, problems: string[]): StoreLocation {
  if (location.kind !== "s3") return location;
  const read = <Value>(kind: Kind<Value>, ...variables: readonly string[]): Value | undefined => {
    const variable = variables.find((name) => environment[name]);
    const text = variable && environment[variable];
    if (!variable || !text) return undefined;
    const value = text.length <= limits.settingTextCharsMax ? kind.parse(text) : undefined;
    if (value === undefined) problems.push(describeProblem({ variable, kind }, text));
    return value;
  };
  return {
    ...location,
    endpoint: read(baseAddress, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    region: read(word, "AWS_REGION", "AWS_DEFAULT_REGION"),
    plainHttp: read(trueOrFalse, "AWS_ALLOW_HTTP") ?? location.plainHttp,
  };
}

/**
 * Makes SQLite spill its sorters and temporary tables into `directory`. SQLite asks the process's environment, so this
 * must run before any thread opens a database (SQLite: Temporary File Storage Locations).
 */
export function spillTo(directory: string): void {
  process.env["SQLITE_TMPDIR"] = directory;
}

/** What a process of the node may know of its environment: where libraries and compiled sources are, the local zone. */
const passedOn = ["LD_LIBRARY_PATH", "LD_PRELOAD", "NODE_COMPILE_CACHE", "TZ"];

/** The whole environment of such a process: no secret of the node. */
export function childEnvironment(): Readonly<Record<string, string>> {
  return Object.fromEntries(
    passedOn.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  ) as Record<string, string>;
}

/** The same for user SQL, which spills where the node does. */
export function sqlEnvironment(scratchDirectory: string): Readonly<Record<string, string>> {
  return { ...childEnvironment(), SQLITE_TMPDIR: scratchDirectory };
}

const shownCharsMax = 80;

function describeProblem({ variable, kind }: Pick<AnySetting, "variable" | "kind">, text: string): string {
  // A URL may carry a password before its host.
  const hidden = kind.secret === true || /:\/\/[^/]*@/.test(text);
  const given = hidden
    ? "a value that is not shown"
    : JSON.stringify(text.length > shownCharsMax ? `${text.slice(0, shownCharsMax)}…` : text);
  return `${variable} must be ${kind.allowed}, not ${given}`;
}

/** The table of variables in Markdown, for the README. */
export function settingsMarkdown(): string {
  const rows = Object.values<AnySetting>(settings).map(
    (setting) => `| \`${setting.variable}\` | ${defaultMarkdown(setting)} | ${setting.meaning} |`,
  );
  return ["| Variable | Default | Meaning |", "|---|---|---|", ...rows, ""].join("\n");
}

function defaultMarkdown(setting: AnySetting): string {
  return setting.fallback === setting.shown ? `\`${setting.shown}\`` : setting.shown;
}
