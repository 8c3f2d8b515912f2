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

/** One thing that a path reaches; `member` of an array that the path ends at. */
interface Step {
  readonly value: Reached;
  readonly member?: boolean;
}

/** Every thing that the path reaches in a document. */
function* reach(container: PlainDoc | Plain[], [name, ...rest]: readonly string[]): Generator<Step> {
  const found = lookUp(container, name!);
  if (rest.length === 0) yield* ending(found);
  else if (Array.isArray(found)) yield* through(found, rest);
  else if (isDoc(found)) yield* reach(found, rest);
  else yield { value: missing };
}

function* ending(found: Reached): Generator<Step> {
  if (Array.isArray(found)) for (const value of found) yield { value, member: true };
  yield { value: found };
}

function* through(array: Plain[], path: readonly string[]): Generator<Step> {
  for (const element of array) if (isDoc(element)) yield* reach(element, path);
  const [position, ...rest] = path;
  const picked = lookUp(array, position!);
  if (picked === missing) return;
  if (rest.length === 0) yield { value: picked };
  else if (Array.isArray(picked)) yield* through(picked, rest);
  else if (isDoc(picked)) yield* reach(picked, rest);
}

const reachAll = (doc: PlainDoc | Plain[], path: string): Step[] => [...reach(doc, path.split("."))];

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

const sameType = (left: Reached, right: Plain): boolean =>
  left !== missing && (computeRank(left) === computeRank(right) || (left === null && right === null));

function compares(operator: string, left: Reached, right: Plain): boolean {
  const given = left === missing && right === null ? null : left;
  if (given === missing || !sameType(given, right)) return false;
  const result = order(given, right);
  return { $gt: result > 0, $gte: result >= 0, $lt: result < 0, $lte: result <= 0 }[operator]!;
}

const equals = (value: Reached, operand: Plain): boolean =>
  same(value, operand) || (operand === null && value === missing);

const typeOf = (value: Reached): string => {
  if (value === missing) return "missing";
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return isDoc(value)
    ? "object"
    : typeof value === "boolean"
      ? "bool"
      : typeof value === "string"
        ? "string"
        : "number";
};

const isOperators = (operand: Plain): operand is PlainDoc =>
  isDoc(operand) && Object.keys(operand).some((name) => name.startsWith("$"));

/** Whether any of these things fulfils the operator. */
function holds(steps: readonly Step[], operator: string, operand: Plain, options = ""): boolean {
  const any = (test: (value: Reached) => boolean): boolean => steps.some(({ value }) => test(value));
  const anyArray = (test: (value: Plain[]) => boolean): boolean =>
    steps.some(({ value, member }) => !member && Array.isArray(value) && test(value));
  switch (operator) {
    case "$eq":
      return any((value) => equals(value, operand));
    case "$ne":
      return !any((value) => equals(value, operand));
    case "$in":
      return (operand as Plain[]).some((one) => any((value) => equals(value, one)));
    case "$nin":
      return !(operand as Plain[]).some((one) => any((value) => equals(value, one)));
    case "$exists":
      return any((value) => value !== missing) === operand;
    case "$not":
      return !fulfils(steps, operand as PlainDoc);
    case "$all":
      return (
        (operand as Plain[]).length > 0 &&
        (operand as Plain[]).every((one) =>
          isOperators(one) ? holds(steps, "$elemMatch", one["$elemMatch"]!) : any((value) => equals(value, one)),
        )
      );
    case "$size":
      return anyArray((value) => value.length === operand);
    case "$type":
      return any((value) => [operand].flat().includes(typeOf(value)));
    case "$regex":
      return any((value) => typeof value === "string" && new RegExp(operand as string, `${options}u`).test(value));
    case "$elemMatch":
      return anyArray((value) => value.some((element) => elementMatches(element, operand as PlainDoc)));
    default:
      return any((value) => compares(operator, value, operand));
  }
}

/** Whether these things fulfil every operator of a condition. */
function fulfils(steps: readonly Step[], condition: PlainDoc): boolean {
  return Object.entries(condition).every(
    ([operator, value]) =>
      operator === "$options" || holds(steps, operator, value, (condition["$options"] ?? "") as string),
  );
}

/** Whether an element of an array meets what `$elemMatch` or `$pull` says of it. */
function elementMatches(element: Plain, operand: Plain): boolean {
  if (!isDoc(operand)) return same(element, operand);
  if (isOperators(operand) && !["$and", "$or", "$nor"].some((name) => Object.hasOwn(operand, name)))
    return fulfils([{ value: element }], operand);
  return typeof element === "object" && element !== null && matches(element, operand);
}

/** Whether the document matches the filter. */
export function matches(doc: PlainDoc | Plain[], filter: PlainDoc): boolean {
  return Object.entries(filter).every(([key, operand]) => {
    if (key === "$and") return (operand as PlainDoc[]).every((inner) => matches(doc, inner));
    if (key === "$or") return (operand as PlainDoc[]).some((inner) => matches(doc, inner));
    if (key === "$nor") return !(operand as PlainDoc[]).some((inner) => matches(doc, inner));
    if (key === "$not") return !matches(doc, operand as PlainDoc);
    return fulfils(reachAll(doc, key), isOperators(operand) ? operand : { $eq: operand });
  });
}

function computeRank(value: Plain): number {
  if (value === null) return 1;
  if (isNumber(value)) return 2;
  if (typeof value === "string") return 3;
  if (typeof value === "boolean") return 6;
  return Array.isArray(value) ? 5 : 4;
}

/** The order of any two values: by type, then within it; arrays and objects member by member. */
function order(left: Plain, right: Plain): number {
  if (computeRank(left) !== computeRank(right)) return computeRank(left) - computeRank(right);
  if (isNumber(left) && isNumber(right)) return left < right ? -1 : left > right ? 1 : 0;
  if (typeof left === "boolean") return Number(left) - Number(right);
  if (typeof left === "string") return bytewise(left, right as string);
  if (left === null) return 0;
  const [these, those] = [members(left as PlainDoc | Plain[]), members(right as PlainDoc | Plain[])];
  for (let at = 0; at < these.length && at < those.length; at++) {
    const [[name, value], [otherName, other]] = [these[at]!, those[at]!];
    const result = computeRank(value) - computeRank(other) || bytewise(name, otherName) || order(value, other);
    if (result !== 0) return result;
  }
  return these.length - those.length;
}

/** The members of an array, without names, or of an object in the order of its names. */
const members = (value: PlainDoc | Plain[]): (readonly [string, Plain])[] =>
  Array.isArray(value)
    ? value.map((member) => ["", member] as const)
    : Object.entries(value).toSorted(([left], [right]) => (left < right ? -1 : 1));

/** An empty array, which sorts before everything. */
const empty = Symbol("empty");
type SortValue = Plain | typeof empty;

/** All that the document may be sorted by; a number that picks an element picks it and nothing else. */
function* sortValues(container: PlainDoc | Plain[], [name, ...rest]: readonly string[]): Generator<SortValue> {
  const found = lookUp(container, name!);
  if (found === missing || (rest.length > 0 && !isDoc(found) && !Array.isArray(found))) yield null;
  else if (rest.length > 0)
    yield* Array.isArray(found) ? sortedThrough(found, rest) : sortValues(found as PlainDoc, rest);
  else if (!Array.isArray(found)) yield found;
  else if (found.length === 0) yield empty;
  else yield* found;
}

function* sortedThrough(array: Plain[], path: readonly string[]): Generator<SortValue> {
  const [position, ...rest] = path;
  const picked = lookUp(array, position!);
  if (picked === missing) {
    for (const element of array) yield* isDoc(element) ? sortValues(element, path) : [null];
  } else if (rest.length === 0) yield picked;
  else if (Array.isArray(picked)) yield* sortedThrough(picked, rest);
  else if (isDoc(picked)) yield* sortValues(picked, rest);
  else yield null;
}

function orderKeys(left: SortValue, right: SortValue): number {
  if (left === empty || right === empty) return Number(right === empty) - Number(left === empty);
  return order(left, right);
}

/** The documents in the order of these keys: an array by its least element, descending by its greatest. */
export function sorted<Doc extends PlainDoc>(
  docs: readonly Doc[],
  keys: readonly { path: string; direction: number }[],
): Doc[] {
  const computeSortKey = (doc: Doc, path: string, direction: number): SortValue => {
    const values = [...sortValues(doc, path.split("."))];
    if (values.length === 0) return null;
    return values.reduce((best, value) => (direction * orderKeys(value, best) < 0 ? value : best));
  };
  return docs.toSorted((left, right) => {
    for (const { path, direction } of keys) {
      const result =
        direction * orderKeys(computeSortKey(left, path, direction), computeSortKey(right, path, direction));
      if (result !== 0) return result;
    }
    return 0;
  });
}
