/** What was measured as Markdown: the settings, then each part with the command that repeats it. */
import { figure, type Section, type Table } from "./section.ts";
import type { Maker, Skipped } from "./peer.ts";

export interface Told {
  /** The day, such as 2026-11-22. */
  readonly day: string;
  readonly machine: string;
  /** Words that the command was given for its size; empty in full. */
  readonly sizeFlag: string;
  readonly makers: readonly Maker[];
  readonly skipped: readonly Skipped[];
  readonly sections: readonly Section[];
}

function tableMarkdown({ title, columns, rows }: Table): string {
  const lines = [columns, columns.map((_, at) => (at === 0 ? "---" : "---:")), ...rows];
  const table = lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
  return title ? `**${title}**\n\n${table}` : table;
}

const command = ({ sizeFlag }: Told, part: string): string => `\`npm run bench -- peers ${part}${sizeFlag}\``;

/** `plots` is the folder of the plots as the document names it; none without. */
export function sectionMarkdown(told: Told, section: Section, plots?: string): string {
  const { part, title, lead, tables, bars, errors, others } = section;
  const plot = plots === undefined || bars.length === 0 ? [] : [`![Ratios: ${title}](${plots}/${part}.svg)`];
  const failed = errors.length === 0 ? [] : [`${errors.length} calls failed, the first: ${errors[0]}`];
  return [
    `## ${title}`,
    `${lead} ${command(told, part)}; others took ${figure(others)} of the cores meanwhile.`,
    ...tables.map(tableMarkdown),
    ...plot,
    ...failed,
  ].join("\n\n");
}

/** The machine, the versions and settings, and what is left out. */
export function settingsMarkdown({ machine, makers, skipped }: Told): string {
  const rows = [["machine", machine], ...makers.map(({ name, described }) => [name, described])];
  return [
    tableMarkdown({ columns: ["", "version, settings"], rows }).replace("---:", "---"),
    ...(skipped.length === 0
      ? []
      : [`Left out: ${skipped.map(({ name, reason }) => `${name} (${reason})`).join("; ")}.`]),
  ].join("\n\n");
}

export function documentMarkdown(told: Told, plots: string): string {
  return `# Beside its peers

<!-- Written by \`npm run bench -- peers --write\`; do not edit. -->

Palimpsest beside servers that people keep memories in, on one machine (${told.day}). Every peer answers a write once
it is on disk, by its own settings. Clients are \`node:http\` with kept connections, \`pg\` and \`@redis/client\`,
each with one call in flight. Rounds are paired: in each every peer does the same for the same time, in an order that
turns. A rate is the median of the rounds (least–most); a ratio is our rate over the peer's, round by round: **above 1
Palimpsest wins**. \`cpu µs\` is the processor time of all processes of the server for each call. The text is made from
a vocabulary that follows a power law.

${settingsMarkdown(told)}

${told.sections.map((section) => sectionMarkdown(told, section, plots)).join("\n\n")}
`;
}
