/** What a part of the bench tells: tables, bars of ratios, and who has answered how often. */
import type { Figure, Spread } from "./rounds.ts";

export interface Table {
  readonly title?: string;
  /** The first column is text, the others are figures. */
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** A ratio above one: ours is better. */
export interface Bar {
  readonly label: string;
  readonly ratio: Spread;
}

export interface Section {
  readonly part: string;
  readonly title: string;
  /** What was done, and how to read it. */
  readonly lead: string;
  readonly tables: readonly Table[];
  readonly bars: readonly Bar[];
  /** Calls that each peer has answered. */
  readonly answered: ReadonlyMap<string, number>;
  readonly errors: readonly string[];
  /** Cores that others took meanwhile. */
  readonly others: number;
}

/** Three digits that count. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export function spread({ median, least, most }: Spread, bold = false): string {
  return `${bold ? `**${figure(median)}**` : figure(median)} (${figure(least)}–${figure(most)})`;
}

const rateColumns = ["", "per second", "p50 ms", "p99 ms", "cpu µs", "our rate over its"];

/** Rows of one measurement, each named by what was asked and of whom. */
function rateRows(label: string, figures: readonly Figure[]): readonly (readonly string[])[] {
  return figures.map(({ peer, perSecond, p50Ms, p99Ms, cpuUs, ratio, errors }) => [
    `${label === "" ? "" : `${label}: `}${peer}${errors.length > 0 ? `, ${errors.length} errors` : ""}`,
    spread(perSecond),
    figure(p50Ms),
    figure(p99Ms),
    figure(cpuUs),
    ratio === undefined ? "" : spread(ratio, true),
  ]);
}

function rateBars(label: string, figures: readonly Figure[]): readonly Bar[] {
  return figures.flatMap(({ peer, ratio }) =>
    ratio === undefined ? [] : [{ label: [peer, label].filter((text) => text !== "").join(", "), ratio }],
  );
}

/** Gathers what several measurements of a part tell. */
export class SectionTables {
  readonly tables: Table[] = [];
  readonly bars: Bar[] = [];
  readonly answered = new Map<string, number>();
  readonly errors: string[] = [];

  /** A measurement of rates: its rows go into the last table if it has the same title. */
  addRates(title: string, label: string, figures: readonly Figure[]): void {
    const rows = rateRows(label, figures);
    const last = this.tables.at(-1);
    if (last && last.title === title) this.tables[this.tables.length - 1] = { ...last, rows: [...last.rows, ...rows] };
    else this.tables.push({ title, columns: rateColumns, rows });
    this.bars.push(...rateBars([title, label].filter((text) => text !== "").join(", "), figures));
    for (const { peer, calls, errors } of figures) {
      this.count(peer, calls);
      this.errors.push(...errors);
    }
  }

  count(peer: string, calls: number): void {
    this.answered.set(peer, (this.answered.get(peer) ?? 0) + calls);
  }
}
