/**
 * What a filter means, said a second time and naively, over plain values: MongoDB's walk of a path, element by element.
 * Knows nothing of the code under test. Integers beyond 2^53 are bigint here.
 */

export type Plain = null | boolean | number | bigint | string | Plain[] | { [field: string]: Plain };
export type PlainDoc = { [field: string]: Plain };

const missing = Symbol("missing");
type Reached = Plain | typeof missing;

const isDoc = (value: Reached | undefined): value is PlainDoc =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** JSON text, with bigints digit by digit. */
export function plainText(value: Plain): string {
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return `[${value.map(plainText).join(",")}]`;
  if (isDoc(value))
    return `{${Object.entries(value)
      .map(([field, inner]) => `${JSON.stringify(field)}:${plainText(inner)}`)
      .join(",")}}`;
  return JSON.stringify(value);
}

function lookUp(container: PlainDoc | Plain[], name: string): Reached {
  if (Array.isArray(container))
    return /^(0|[1-9][0-9]*)$/.test(name) && Number(name) < container.length ? container[Number(name)]! : missing;
  return Object.hasOwn(container, name) ? container[name]! : missing;
}

/** Every value that the path reaches; the last array also by its elements, listed before it. */
function reach(container: PlainDoc | Plain[], path: readonly string[]): { values: Reached[]; whole?: Plain[] } {
  const [name, ...rest] = path;
  const found = lookUp(container, name!);
  if (!Array.isArray(found)) {
    if (rest.length === 0) return { values: [found] };
    return isDoc(found) ? reach(found, rest) : { values: [missing] };
  }
  if (rest.length === 0) return { values: [...found], whole: found };
  const values: Reached[] = [];
  found.forEach((element, index) => {
    const inside = (from: PlainDoc | Plain[], further: readonly string[]) => {
      const inner = reach(from, further);
      values.push(...inner.values);
      if (inner.whole) wholes.push(inner.whole);
    };
    if (isDoc(element)) inside(element, rest);
    if (rest[0] !== String(index)) return;
    if (rest.length === 1) values.push(element);
    else if (typeof element === "object" && element !== null) inside(element, rest.slice(1));
  });
  return { values };
}

/** Arrays at the end of a path, found on the way: filled by `reach`, emptied by whoever asks. */
let wholes: Plain[][] = [];

function reachAll(doc: PlainDoc, path: string): { elements: Reached[]; all: Reached[] } {
  wholes = [];
  const { values, whole } = reach(doc, path.split("."));
  return { elements: values, all: [...values, ...wholes, ...(whole ? [whole] : [])] };
}

const isNumber = (value: Reached): value is number | bigint => typeof value === "number" || typeof value === "bigint";

function same(left: Reached, right: Plain): boolean {
  if (isNumber(left) && isNumber(right)) return left == right;
  if (Array.isArray(left) && Array.isArray(right))
    return left.length === right.length && left.every((value, index) => same(value, right[index]!));
  if (isDoc(left) && isDoc(right)) {
    return (
      Object.keys(left).length === Object.keys(right).length &&
      Object.entries(left).every(([field, value]) => Object.hasOwn(right, field) && same(value, right[field]!))
    );
  }
  return left === right;
}

const bytewise = (left: string, right: string): number => Buffer.compare(Buffer.from(left), Buffer.from(right));

function compares(operator: string, left: Reached, right: Plain): boolean {
  let order: number;
  if (isNumber(left) && isNumber(right)) order = left < right ? -1 : left > right ? 1 : 0;
  else if (typeof left === "string" && typeof right === "string") order = bytewise(left, right);
  else if (typeof left === "boolean" && typeof right === "boolean") order = Number(left) - Number(right);
  else if (right === null && (left === null || left === missing)) order = 0;
  else return false;
  return { $gt: order > 0, $gte: order >= 0, $lt: order < 0, $lte: order <= 0 }[operator]!;
}

const equals = (doc: PlainDoc, path: string, operand: Plain): boolean =>
  reachAll(doc, path).all.some((value) => same(value, operand) || (operand === null && value === missing));

function holds(doc: PlainDoc, path: string, operator: string, operand: Plain): boolean {
  switch (operator) {
    case "$eq":
      return equals(doc, path, operand);
    case "$ne":
      return !equals(doc, path, operand);
    case "$in":
      return (operand as Plain[]).some((one) => equals(doc, path, one));
    case "$nin":
      return !(operand as Plain[]).some((one) => equals(doc, path, one));
    case "$exists":
      return reachAll(doc, path).all.some((value) => value !== missing) === operand;
    case "$not":
      return !Object.entries(operand as PlainDoc).every(([inner, value]) => holds(doc, path, inner, value));
    default:
      return reachAll(doc, path).all.some((value) => compares(operator, value, operand));
  }
}

/** Whether the document matches the filter. */
export function matches(doc: PlainDoc, filter: PlainDoc): boolean {
  return Object.entries(filter).every(([key, operand]) => {
    if (key === "$and") return (operand as PlainDoc[]).every((inner) => matches(doc, inner));
    if (key === "$or") return (operand as PlainDoc[]).some((inner) => matches(doc, inner));
    if (key === "$not") return !matches(doc, operand as PlainDoc);
    const condition = isDoc(operand) && Object.keys(operand).some((name) => name.startsWith("$"));
    return condition
      ? Object.entries(operand).every(([operator, value]) => holds(doc, key, operator, value))
      : equals(doc, key, operand);
  });
}

function computeRank(value: Reached): number {
  if (value === missing) return 0;
  if (value === null) return 1;
  if (isNumber(value)) return 2;
  if (typeof value === "string") return 3;
  if (typeof value === "boolean") return 6;
  return Array.isArray(value) ? 5 : 4;
}

function order(left: Reached, right: Reached): number {
  if (computeRank(left) !== computeRank(right)) return computeRank(left) - computeRank(right);
  if (isNumber(left) && isNumber(right)) return left < right ? -1 : left > right ? 1 : 0;
  if (typeof left === "boolean") return Number(left) - Number(right);
  if (left === null || left === missing) return 0;
  return bytewise(
    typeof left === "string" ? left : plainText(left as Plain),
    typeof right === "string" ? right : plainText(right as Plain),
  );
}

/** The documents in the order of these keys: an array by its least element, descending by its greatest. */
export function sorted<Doc extends PlainDoc>(
  docs: readonly Doc[],
  keys: readonly { path: string; direction: number }[],
): Doc[] {
  const computeSortKey = (doc: Doc, path: string, direction: number): Reached => {
    const elements = reachAll(doc, path).elements;
    if (elements.length === 0) return missing;
    return elements.reduce((best, value) => (direction * order(value, best) < 0 ? value : best));
  };
  return docs.toSorted((left, right) => {
    for (const { path, direction } of keys) {
      const result = direction * order(computeSortKey(left, path, direction), computeSortKey(right, path, direction));
      if (result !== 0) return result;
    }
    return 0;
  });
}
