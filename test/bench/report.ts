/** Prints figures as a Markdown table. */
export interface Row {
  readonly what: string;
  readonly perSecond?: number;
  readonly p50Ms?: number;
  readonly p99Ms?: number;
  readonly ofEcho?: number;
  note?: string;
}

const figure = (value: number | undefined, digits: number): string =>
  value === undefined ? "" : value.toFixed(digits);

export function report(title: string, rows: readonly Row[]): void {
  console.log(`\n### ${title}\n\n| | per second | p50 ms | p99 ms | of echo | |\n|---|---:|---:|---:|---:|---|`);
  for (const row of rows) {
    console.log(
      `| ${row.what} | ${figure(row.perSecond, 0)} | ${figure(row.p50Ms, 2)} | ${figure(row.p99Ms, 2)} | ` +
        `${figure(row.ofEcho, 2)} | ${row.note ?? ""} |`,
    );
  }
}
