/**
 * Tables for a terminal: columns as wide as what they hold, the loosest of them cut where the terminal is too narrow.
 *
 * Always true: a row is one line, and no line is wider than the terminal as long as its columns can shrink. Must not
 * know: what the cells mean.
 */
import type { Style } from "./style.ts";
import { columnsOf, cutText, visibleText } from "./visible-text.ts";

/** A column: its title, and how it takes what it is given. */
export interface Column {
  readonly title: string;
  /** Numbers stand at the right. */
  readonly right?: boolean;
  /** It gives way where the terminal is too narrow. */
  readonly loose?: boolean;
  /** How its cells are shown, the title left out. */
  readonly paint?: (text: string) => string;
}

const gap = "  ";
const looseMin = 12;

/** The lines of a table. Cells are made visible here; `width` is that of the terminal, Infinity for none. */
export function tableLines(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width: number,
  style: Style,
): readonly string[] {
  const cells = rows.map((row) => columns.map((_, at) => visibleText(row[at] ?? "")));
  const widths = columns.map(({ title }, at) =>
    cells.reduce((widest, row) => Math.max(widest, columnsOf(row[at]!)), columnsOf(title)),
  );
  shrink(columns, widths, width);
  const line = (row: readonly string[], show: (text: string, column: Column) => string): string =>
    row
      .map((cell, at) => {
        const column = columns[at]!;
        const text = cutText(cell, widths[at]!);
        const room = " ".repeat(Math.max(0, widths[at]! - columnsOf(text)));
        const shown = show(text, column);
        if (column.right === true) return room + shown;
        return at === columns.length - 1 ? shown : shown + room;
      })
      .join(gap)
      .trimEnd();
  return [
    line(
      columns.map(({ title }) => title),
      (text) => style.strong(text),
    ),
    ...cells.map((row) => line(row, (text, { paint }) => (text === "" || !paint ? text : paint(text)))),
  ];
}

/** Takes from the widest of the loose columns until all fit. */
function shrink(columns: readonly Column[], widths: number[], width: number): void {
  let over = widths.reduce((sum, one) => sum + one, gap.length * (columns.length - 1)) - width;
  while (over > 0 && over < Infinity) {
    const loose = columns.flatMap(({ loose }, at) => (loose === true && widths[at]! > looseMin ? [at] : []));
    if (loose.length === 0) return;
    const widest = loose.reduce((best, at) => (widths[at]! > widths[best]! ? at : best));
    const second = Math.max(looseMin, ...loose.filter((at) => at !== widest).map((at) => widths[at]!));
    const take = Math.max(1, Math.min(over, widths[widest]! - second));
    widths[widest]! -= take;
    over -= take;
  }
}

/** The lines of one thing: a name and a value each, what is absent left out. */
export function recordLines(
  fields: readonly (readonly [name: string, value: string | undefined])[],
  style: Style,
): readonly string[] {
  const there = fields.filter((field): field is [string, string] => field[1] !== undefined);
  const widest = Math.max(0, ...there.map(([name]) => columnsOf(name)));
  return there.map(([name, value]) => `${style.faint(name.padEnd(widest))}  ${value}`);
}
