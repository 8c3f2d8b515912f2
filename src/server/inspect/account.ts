/**
 * What is said of one thing at rest, before it is written down: named fields, and tables of rows, of values that know
 * what they are.
 *
 * Always true: names are in snake_case and mean the same in every account, so one account makes both forms of the
 * output. Must not know: any format, how an account is written.
 */

/** A value, told by what it is. */
export type Value =
  | { readonly is: "absent" }
  | { readonly is: "plain"; readonly value: string | number | boolean }
  /** Unix ms. */
  | { readonly is: "time"; readonly atMs: number }
  /** A length in bytes. */
  | { readonly is: "size"; readonly bytes: number }
  /** Ids and hashes. */
  | { readonly is: "hex"; readonly bytes: Uint8Array }
  /** Numbers in rising order, as the ranges that they make; `more` are left out. */
  | { readonly is: "ranges"; readonly ranges: readonly NumberRange[]; readonly more: number };

/** From the first number to the last. */
type NumberRange = readonly [first: number, last: number];

/** Values by name, in the order in which they are told. */
export type Fields = Readonly<Record<string, Value>>;

export interface Table {
  readonly columns: readonly string[];
  /** A value for each column. */
  readonly rows: readonly (readonly Value[])[];
}

export interface Account {
  readonly fields: Fields;
  readonly tables: Readonly<Record<string, Table>>;
  /** What is wrong with it, and where, as far as that can be told; empty for what is sound. */
  readonly damage: readonly string[];
}

/** Ranges of numbers that one value shows. */
const rangesShownMax = 12;

const absent: Value = { is: "absent" };

export function plain(value: string | number | boolean | undefined): Value {
  return value === undefined ? absent : { is: "plain", value };
}

export function time(atMs: number | undefined): Value {
  return atMs === undefined ? absent : { is: "time", atMs };
}

export function size(bytes: number | undefined): Value {
  return bytes === undefined ? absent : { is: "size", bytes };
}

export function hex(bytes: Uint8Array | undefined): Value {
  return bytes === undefined ? absent : { is: "hex", bytes };
}

/** Numbers that rise. */
export function ranges(numbers: Iterable<number>): Value {
  const shown: [number, number][] = [];
  let more = 0;
  for (const number of numbers) {
    const last = shown.at(-1);
    if (more === 0 && last !== undefined && number === last[1] + 1) last[1] = number;
    else if (more === 0 && shown.length < rangesShownMax) shown.push([number, number]);
    else more++;
  }
  return { is: "ranges", ranges: shown, more };
}

/** A table of these things, with what each is told by. */
export function buildTable<Item>(items: readonly Item[], tell: Readonly<Record<string, (item: Item) => Value>>): Table {
  const tellers = Object.values(tell);
  return { columns: Object.keys(tell), rows: items.map((item) => tellers.map((teller) => teller(item))) };
}
