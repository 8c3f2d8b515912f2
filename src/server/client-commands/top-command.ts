/**
 * `palimpsest top`: a live view of a node, from its page of metrics: what is asked of it and how long that takes, how
 * much is not in object storage yet, and whether it is ready.
 *
 * Always true: the terminal is left as it was, however the view ends. Must not know: how a node counts.
 */
import { Command, Option } from "commander";
import { pause, realWorld } from "../../base/world.ts";
import type { Palimpsest } from "../../../clients/typescript/src/index.ts";
import type { Output } from "../terminal/output.ts";
import { tableLines } from "../terminal/table.ts";
import { visibleText } from "../terminal/visible-text.ts";
import { shownBytes } from "./memory-lines.ts";
import { parseCount, type Bind, type Session } from "../client-session/session.ts";

interface TopFlags {
  readonly every: number;
  readonly once?: boolean;
}

/** One line of the page: a name, its labels, and a number. */
interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The page at one time. */
export interface Reading {
  readonly atMs: number;
  readonly ready: boolean;
  readonly checks: Readonly<Record<string, string>>;
  readonly samples: readonly Sample[];
}

const enter = "\x1b[?1049h\x1b[?25l";
const leave = "\x1b[?25h\x1b[?1049l";
const home = "\x1b[H\x1b[J";
const prefix = "palimpsest_";
const endpointsMax = 15;

export function topCommand(bind: Bind): Command {
  const command = new Command("top")
    .description("a live view of a node; q or Ctrl-C ends it")
    .addOption(new Option("--every <seconds>", "between two looks").argParser(parseCount).default(2))
    .option("--once", "one view of that time, and no more");
  return bind<TopFlags>(command, "palimpsest top --every 5", async (session, { every, once }) => {
    const live = session.output.isForPeople && session.around.stdout.isTTY === true && !once;
    const stop = stopOf(session, live);
    try {
      await watch(session, every * 1000, live, once === true, stop.signal);
    } finally {
      stop.release();
    }
  });
}

async function watch(
  session: Session,
  everyMs: number,
  live: boolean,
  once: boolean,
  signal: AbortSignal,
): Promise<void> {
  const { output, client, around, address } = session;
  let before = await read(client);
  if (live) around.stdout.write(enter);
  try {
    while (!signal.aborted) {
      await pause(everyMs, signal);
      if (signal.aborted) return;
      const now = await read(client);
      if (!output.isForPeople) output.json(summaryOf(before, now));
      else around.stdout.write(`${live ? home : ""}${topLines(address, before, now, output).join("\n")}\n`);
      before = now;
      if (once) return;
    }
  } finally {
    if (live) around.stdout.write(leave);
  }
}

async function read(client: Palimpsest): Promise<Reading> {
  const [page, { ready, checks }] = await Promise.all([client.metrics(), client.ready()]);
  return { atMs: realWorld().monotonicMs(), ready, checks: checks ?? {}, samples: parsePage(page) };
}

/** What ends the view: a signal, or a key. */
function stopOf({ around }: Session, live: boolean): { readonly signal: AbortSignal; release(): void } {
  const controller = new AbortController();
  const { stdin } = around;
  const end = (): void => controller.abort();
  const onKey = (chunk: Buffer | string): void => {
    if (/[q\x03\x04]/.test(String(chunk))) end();
  };
  const hasKeys = live && stdin.isTTY === true && "setRawMode" in stdin;
  const raw = (on: boolean): void => {
    if (hasKeys) (stdin as NodeJS.ReadStream).setRawMode(on);
  };
  raw(true);
  if (hasKeys) stdin.on("data", onKey);
  process.on("SIGINT", end);
  process.on("SIGTERM", end);
  return {
    signal: controller.signal,
    release() {
      raw(false);
      stdin.removeListener("data", onKey);
      if (hasKeys) stdin.pause();
      process.removeListener("SIGINT", end);
      process.removeListener("SIGTERM", end);
    },
  };
}

/** The numbers of a page in the text form of Prometheus; lines that are none are passed over. */
export function parsePage(page: string): readonly Sample[] {
  const line = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
  return page.split("\n").flatMap((text) => {
    const [, name, labels = "", value] = line.exec(text) ?? [];
    if (name === undefined || !name.startsWith(prefix)) return [];
    const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, held]) => [key!, held!]);
    return [
      {
        name: name.slice(prefix.length),
        labels: Object.fromEntries(pairs) as Record<string, string>,
        value: Number(value),
      },
    ];
  });
}

/** What happened at one endpoint between two readings. */
interface EndpointRow {
  readonly endpoint: string;
  readonly perSecond: number;
  readonly failedPerSecond: number;
  readonly meanMs: number | null;
}

/** What a view tells. */
export interface Summary {
  readonly ready: boolean;
  readonly checks: Readonly<Record<string, string>>;
  readonly calls_running: number;
  readonly calls_waiting: number;
  readonly databases_open: number;
  readonly unshipped_bytes: number;
  readonly unshipped_age_seconds: number;
  readonly writes_per_second: number;
  readonly endpoints: readonly EndpointRow[];
}

/** What two readings tell together. */
export function summaryOf(before: Reading, now: Reading): Summary {
  const seconds = Math.max(0.001, (now.atMs - before.atMs) / 1000);
  const sum = ({ samples }: Reading, name: string, of: (labels: Sample["labels"]) => boolean = () => true): number =>
    samples.reduce((total, sample) => (sample.name === name && of(sample.labels) ? total + sample.value : total), 0);
  const most = (name: string): number =>
    now.samples.reduce((top, sample) => (sample.name === name ? Math.max(top, sample.value) : top), 0);
  // A node that has started anew counts from nothing.
  const rate = (name: string, of?: (labels: Sample["labels"]) => boolean): number =>
    Math.max(0, sum(now, name, of) - sum(before, name, of)) / seconds;
  const endpoints = new Set(
    now.samples.flatMap(({ name, labels }) =>
      name === "requests_total" && labels["endpoint"] ? [labels["endpoint"]] : [],
    ),
  );
  const rows = [...endpoints].map((endpoint): EndpointRow => {
    const isIt = (labels: Sample["labels"]): boolean => labels["endpoint"] === endpoint;
    const [took, count] = [rate("request_seconds_sum", isIt), rate("request_seconds_count", isIt)];
    const failed = rate("requests_total", (labels) => isIt(labels) && labels["code"] !== "ok");
    return {
      endpoint,
      perSecond: rate("requests_total", isIt),
      failedPerSecond: failed,
      meanMs: count > 0 ? (took / count) * 1000 : null,
    };
  });
  return {
    ready: now.ready,
    checks: now.checks,
    calls_running: sum(now, "calls_running"),
    calls_waiting: sum(now, "calls_waiting"),
    databases_open: sum(now, "databases_open"),
    unshipped_bytes: sum(now, "unshipped_bytes"),
    unshipped_age_seconds: most("unshipped_age_seconds"),
    writes_per_second: rate("writes_total"),
    endpoints: rows.filter(({ perSecond }) => perSecond > 0).toSorted((a, b) => b.perSecond - a.perSecond),
  };
}

/** The view's lines, the last of which the terminal may have no room for. */
function topLines(address: string, before: Reading, now: Reading, { style, width }: Output): readonly string[] {
  const told = summaryOf(before, now);
  const checks = Object.entries(told.checks).map(([name, state]) => `${visibleText(name)} ${visibleText(state)}`);
  const rows = told.endpoints
    .slice(0, endpointsMax)
    .map(({ endpoint, perSecond, failedPerSecond, meanMs }) => [
      endpoint,
      perSecond.toFixed(1),
      failedPerSecond === 0 ? "" : failedPerSecond.toFixed(1),
      meanMs === null ? "" : meanMs.toFixed(1),
    ]);
  const state = told.ready ? style.good("ready") : style.bad("not ready");
  return [
    `${style.strong(address)}  ${state}  ${style.faint(checks.join(", "))}`,
    `calls ${told.calls_running} running, ${told.calls_waiting} waiting   databases open ${told.databases_open}`,
    `writes ${told.writes_per_second.toFixed(1)}/s   not in object storage yet ${shownBytes(told.unshipped_bytes)}, ` +
      `the oldest ${told.unshipped_age_seconds.toFixed(1)} s`,
    "",
    ...tableLines(
      [
        { title: "ENDPOINT", loose: true, paint: style.named },
        { title: "PER SECOND", right: true },
        { title: "FAILED", right: true, paint: style.bad },
        { title: "MEAN MS", right: true },
      ],
      rows,
      width,
      style,
    ),
    ...(rows.length === 0 ? [style.faint("nothing was asked of it in that time")] : []),
  ];
}
