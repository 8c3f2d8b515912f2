/**
 * Values just inside and just outside of what the proto files allow of a field, and every place of a request that has
 * such a bound.
 *
 * Always true: whether a value is inside is judged here anew, and not by the checks that are tested. Nothing is listed
 * by hand: what is annotated is found.
 */
import { type DescField, type DescMessage, getOption } from "@bufbuild/protobuf";
import fc from "fast-check";
import { json } from "../../gen/palimpsest/v1/options_pb.ts";
import {
  type Constraint,
  isRequired,
  type ListConstraint,
  type NumberConstraint,
  readChoices,
  readConstraint,
  type TextConstraint,
} from "../../src/service/call/constraints.ts";

type Json = Readonly<Record<string, unknown>>;
type Values = { readonly inside: readonly unknown[]; readonly outside: readonly unknown[] };

/** A field of a request that has bounds, and how to put a value there. */
export interface BoundedPlace {
  /** The field's full name. */
  readonly name: string;
  readonly field: DescField;
  /** As a refusal names it. */
  readonly place: string;
  readonly constraint: Constraint;
  /** The request with the value at the place, and without what does not go with it. */
  readonly put: (value: unknown) => Json;
}

/** Every bounded place of a request that the sample reaches. */
export function listBoundedPlaces(type: DescMessage, sample: Json): readonly BoundedPlace[] {
  return placesOf(type, sample, "", (message) => message);
}

function placesOf(
  type: DescMessage,
  sample: Json,
  prefix: string,
  wrap: (message: Json) => Json,
): readonly BoundedPlace[] {
  return type.fields.flatMap((field) => {
    const place = `${prefix}${field.name}`;
    const rivals = readChoices(type)
      .filter(({ fields, most }) => most === 1 && fields.includes(field))
      .flatMap(({ fields }) => fields.filter((other) => other !== field).map(({ name }) => name));
    const put = (value: unknown): Json => {
      const others = Object.entries(sample).filter(([name]) => !rivals.includes(name));
      return wrap({ ...Object.fromEntries(others), [field.name]: value });
    };
    const shown = getOption(field, json).bareList ? field.message!.fields[0]! : field;
    const constraint = readConstraint(shown);
    const isObject = getOption(field, json).orderedObject;
    const putShown = isObject ? (list: unknown): Json => put(toObject(list as unknown[])) : put;
    const own = constraint ? [{ name: nameOf(shown), field, place, constraint, put: putShown }] : [];
    return [...own, ...placesWithin(field, sample[field.name], place, put)];
  });
}

/** A list of any elements as an object of as many members. */
function toObject(list: readonly unknown[]): Json {
  return Object.fromEntries(list.map((_, at) => [`m${at}`, 1]));
}

function placesWithin(
  field: DescField,
  value: unknown,
  place: string,
  put: (value: unknown) => Json,
): readonly BoundedPlace[] {
  const inner = field.message;
  const { bareList, orderedObject } = getOption(field, json);
  if (!inner?.typeName.startsWith("palimpsest.") || bareList || orderedObject) return [];
  // What has nothing that must be there, or one text of several, need not be in the sample.
  const chosen = readChoices(inner).flatMap(({ fields: [first], least }) => (least === 1 ? [[first!.name, "a"]] : []));
  const standIn = inner.fields.some(isRequired) ? undefined : (Object.fromEntries(chosen) as Json);
  if (field.fieldKind === "message") {
    const message = (value as Json | undefined) ?? standIn;
    return message ? placesOf(inner, message, `${place}.`, put) : [];
  }
  const [first = standIn, ...rest] = (value as Json[] | undefined) ?? [];
  return first ? placesOf(inner, first, `${place}[0].`, (message) => put([message, ...rest])) : [];
}

/** The full names of all fields with bounds that requests of this type may hold. */
export function listBoundedFields(type: DescMessage, known = new Set<DescMessage>()): readonly string[] {
  if (known.has(type) || !type.typeName.startsWith("palimpsest.")) return [];
  known.add(type);
  return type.fields.flatMap((field) => [
    ...(readConstraint(field) ? [nameOf(field)] : []),
    ...(field.message ? listBoundedFields(field.message, known) : []),
  ]);
}

function nameOf(field: DescField): string {
  return `${field.parent.name}.${field.name}`;
}

/** Values at the bounds; `like` is a good value of the field, of which a list is made. */
export function boundaryValues(constraint: Constraint, like: unknown): Values {
  const { inside, outside } = bareValues(constraint, like);
  if (!constraint.orEmpty) return { inside, outside };
  const empty = constraint.kind === "text" ? "" : constraint.kind === "number" ? 0 : [];
  return { inside: [...inside, empty], outside: outside.filter((value) => value !== empty && !isEmptyList(value)) };
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

function bareValues(constraint: TextConstraint | NumberConstraint | ListConstraint, like: unknown): Values {
  switch (constraint.kind) {
    case "text":
      return textValues(constraint);
    case "number":
      return numberValues(constraint);
    default:
      return listValues(constraint, like);
  }
}

function textValues(constraint: TextConstraint): Values {
  const { charsMin, charsMax, bytesMin, bytesMax, pattern, values = [] } = constraint;
  const lengths = [charsMin, charsMax, bytesMin, bytesMax].filter((length) => length !== undefined);
  const candidates = [
    ...values,
    ...lengths.flatMap((length) => [length - 1, length, length + 1]).map((length) => "a".repeat(Math.max(0, length))),
    // As many characters as a bound in bytes has bytes, and more bytes.
    ...(bytesMax === undefined ? [] : ["é".repeat(bytesMax), "é".repeat(Math.floor(bytesMax / 2))]),
    ...(pattern === undefined ? [] : fc.sample(fc.stringMatching(new RegExp(pattern)), { numRuns: 20, seed: 1 })),
    ...["", "a b", "-a", "a-", "a--b--c", ".a", "UPPER", "ü", "a\n", "\u0000", "1", "x".repeat(300), "none of them"],
  ];
  const holds = candidates.filter((text) => isAllowed(constraint, text));
  return { inside: spread(holds), outside: spread(candidates.filter((text) => !isAllowed(constraint, text))) };
}

function isAllowed(constraint: TextConstraint, text: string): boolean {
  const { charsMin = 0, charsMax = Infinity, bytesMin = 0, bytesMax = Infinity, pattern, values } = constraint;
  const chars = [...text].length;
  const bytes = Buffer.from(text).length;
  const isWithin = chars >= charsMin && chars <= charsMax && bytes >= bytesMin && bytes <= bytesMax;
  return isWithin && (!pattern || new RegExp(pattern).test(text)) && (!values || values.includes(text));
}

function numberValues({ min, max, isAboveMin, values, isFinite }: NumberConstraint): Values {
  const step = isFinite || !Number.isInteger(min ?? 0) || !Number.isInteger(max ?? 0) ? 0.001 : 1;
  if (values) return { inside: values, outside: [Math.max(...values) + 1] };
  return {
    inside: [...(isAboveMin ? [min! + step] : [min]), max].filter((bound) => bound !== undefined),
    outside: [
      ...(min === undefined ? [] : [isAboveMin ? min : min - step]),
      ...(max === undefined ? [] : [max + step]),
    ],
  };
}

function listValues({ itemsMin, itemsMax, isUnique, items }: ListConstraint, like: unknown): Values {
  const [first = items?.kind === "text" ? (items.values?.[0] ?? "a") : 1] = Array.isArray(like) ? like : [];
  const fill = (length: number): unknown[] =>
    isUnique ? Array.from({ length }, (_, at) => [first].flat()[0] ?? at) : new Array<unknown>(length).fill(first);
  const each = items ? bareValues(items, undefined) : { inside: [], outside: [] };
  return {
    inside: [
      ...(isUnique ? [[first]] : [itemsMin, itemsMax].filter((n) => n !== undefined).map(fill)),
      ...each.inside.map((one) => [one]),
    ],
    outside: [
      ...(itemsMin === undefined ? [] : [fill(itemsMin - 1)]),
      ...(itemsMax === undefined ? [] : [fill(itemsMax + 1)]),
      ...(isUnique ? [[first, first]] : []),
      ...each.outside.map((one) => [one]),
    ],
  };
}

/** Some of the texts: the shortest, the longest, and those between them that differ most. */
function spread(texts: readonly string[]): readonly string[] {
  const sorted = [...new Set(texts)].toSorted((left, right) => left.length - right.length);
  return sorted.filter((_, at) => at < 3 || at >= sorted.length - 3);
}
