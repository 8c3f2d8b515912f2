/**
 * What the proto files allow of a field, and of several fields together: protovalidate's annotations as plain data,
 * with the words that say them.
 *
 * Always true: every rule that stands in our proto files is here, or the process does not start; the checks of every
 * wire, the OpenAPI document and the reference read the same. Whether a field must be there says field_behavior. Must
 * not know: messages that hold values, wires.
 */
import { type DescField, type DescMessage, getExtension, getOption, hasExtension } from "@bufbuild/protobuf";
import {
  field as fieldRules,
  type FieldRules,
  Ignore,
  message as messageRules,
  predefined,
  type RepeatedRules,
  type StringRules,
} from "../../../gen/buf/validate/validate_pb.ts";
import { field_behavior as fieldBehavior, FieldBehavior } from "../../../gen/google/api/field_behavior_pb.ts";
import { file_palimpsest_v1_rules as rulesFile } from "../../../gen/palimpsest/v1/rules_pb.ts";
import { assert } from "../../base/faults/assert.ts";

/** What a text may be. Characters are code points, bytes those of UTF-8. */
export interface TextConstraint {
  readonly kind: "text";
  readonly charsMin?: number | undefined;
  readonly charsMax?: number | undefined;
  readonly bytesMin?: number | undefined;
  readonly bytesMax?: number | undefined;
  /** Of the whole text, for RE2, JSON Schema and JavaScript alike. */
  readonly pattern?: string | undefined;
  readonly values?: readonly string[] | undefined;
  readonly says: string;
  readonly examples: readonly string[];
}

/** What a number may be; `isWhole` where it is an integer anyway. */
export interface NumberConstraint {
  readonly kind: "number";
  readonly min?: number | undefined;
  /** Whether the number must be above `min`. */
  readonly isAboveMin: boolean;
  readonly max?: number | undefined;
  readonly isFinite: boolean;
  readonly values?: readonly number[] | undefined;
  readonly says: string;
  readonly examples: readonly number[];
}

/** How many elements a list may have, and what each may be. */
export interface ListConstraint {
  readonly kind: "list";
  readonly itemsMin?: number | undefined;
  readonly itemsMax?: number | undefined;
  readonly isUnique: boolean;
  readonly items?: TextConstraint | NumberConstraint | undefined;
  /** Of the number of elements; empty where any will do. */
  readonly says: string;
}

export type Constraint = (TextConstraint | NumberConstraint | ListConstraint) & {
  /** Whether an empty text, a zero or an empty list is allowed beside. */
  readonly orEmpty: boolean;
};

/** Of these fields one must be set, at least, at most or exactly. */
export interface FieldChoice {
  readonly fields: readonly DescField[];
  readonly least: 0 | 1;
  /** Undefined: any number. */
  readonly most: 1 | undefined;
  /** A whole sentence. */
  readonly says: string;
}

/** Whether a request without the field is refused. */
export function isRequired(field: DescField): boolean {
  return getOption(field, fieldBehavior).includes(FieldBehavior.REQUIRED);
}

/** What the field's value may be; undefined where anything of its type. */
export function readConstraint(field: DescField): Constraint | undefined {
  const rules = getOption(field, fieldRules);
  const constraint = readRules(rules, String(field));
  return constraint && { ...constraint, orEmpty: rules.ignore === Ignore.IF_ZERO_VALUE };
}

/** What must hold of several fields of the message together. */
export function readChoices(message: DescMessage): readonly FieldChoice[] {
  const rules = getOption(message, messageRules);
  const find = (name: string): DescField => {
    const found = message.fields.find((field) => field.name === name);
    assert(found, `${message.name} has a rule for ${name}, which is no field of it`);
    return found;
  };
  const exclusive = rules.oneof.map(({ fields, required }): FieldChoice => {
    const says = `give ${required ? "exactly" : "at most"} one of ${enumerate(fields, "and")}`;
    return { fields: fields.map(find), least: required ? 1 : 0, most: 1, says };
  });
  const inclusive = rules.cel.map(({ expression, message: says }): FieldChoice => {
    const terms = expression.split(" || ").map((term) => /^has\(this\.(\w+)\)$/.exec(term)?.[1]);
    assert(
      says !== "" && terms.every((term) => term !== undefined),
      `${message.name} has a rule that is not understood`,
    );
    return { fields: terms.map(find), least: 1, most: undefined, says };
  });
  return [...exclusive, ...inclusive];
}

function readRules(
  { type }: FieldRules,
  where: string,
): TextConstraint | NumberConstraint | ListConstraint | undefined {
  switch (type.case) {
    case undefined:
      return undefined;
    case "string":
      return readText(type.value, where);
    case "repeated":
      return readList(type.value, where);
    default: {
      const { lessThan, greaterThan, example } = type.value;
      const isInteger = type.case === "int32" || type.case === "int64" || type.case === "uint32";
      const values = "in" in type.value && type.value.in.length > 0 ? type.value.in.map(Number) : undefined;
      const bounds = {
        ...(greaterThan.case !== undefined && { min: Number(greaterThan.value) }),
        ...(lessThan.case !== undefined && { max: Number(lessThan.value) }),
        isAboveMin: greaterThan.case === "gt",
        isFinite: "finite" in type.value && type.value.finite,
      };
      return {
        kind: "number",
        ...bounds,
        values,
        says: values ? `must be ${enumerate(values.map(String), "or")}` : sayNumber(bounds, isInteger),
        examples: example.map(Number),
      };
    }
  }
}

function sayNumber(
  { min, max, isAboveMin, isFinite }: Pick<NumberConstraint, "min" | "max" | "isAboveMin" | "isFinite">,
  isInteger: boolean,
): string {
  const what = isInteger ? "a whole number" : isFinite && min === undefined ? "a finite number" : "a number";
  if (isAboveMin) return `must be ${what} above ${min}${max === undefined ? "" : ` and at most ${max}`}`;
  if (min === undefined) return max === undefined ? `must be ${what}` : `must be ${what}, at most ${max}`;
  return max === undefined ? `must be ${what} from ${min}` : `must be ${what} from ${min} to ${max}`;
}

function readText(rules: StringRules, where: string): TextConstraint {
  const kind = readKind(rules, where);
  const values = rules.in.length > 0 ? rules.in : undefined;
  const bounds = {
    charsMin: toCount(rules.minLen),
    charsMax: toCount(rules.maxLen) ?? kind?.charsMax,
    bytesMin: toCount(rules.minBytes),
    bytesMax: toCount(rules.maxBytes),
  };
  const said = [
    ...(kind ? [kind.says] : []),
    ...(values ? [`must be ${enumerate(values, "or")}`] : []),
    ...((bounds.bytesMin ?? bounds.bytesMax) === undefined
      ? []
      : [`must be ${sayRange(bounds.bytesMin, bounds.bytesMax)} bytes of UTF-8 text`]),
    ...((bounds.charsMin ?? toCount(rules.maxLen)) === undefined
      ? []
      : [`must be ${sayRange(bounds.charsMin, bounds.charsMax)} characters`]),
  ];
  assert(said.length > 0, `${where} has a rule for texts that says nothing`);
  return { kind: "text", ...bounds, pattern: kind?.pattern, values, says: said.join(" and "), examples: rules.example };
}

/** The one rule of rules.proto that the field has. */
function readKind(
  rules: StringRules,
  where: string,
): { readonly pattern: string; readonly charsMax: number | undefined; readonly says: string } | undefined {
  const kinds = rulesFile.extensions.filter((kind) => hasExtension(rules, kind) && getExtension(rules, kind) === true);
  const [kind, ...more] = kinds;
  if (kind === undefined) return undefined;
  const [rule, ...others] = getOption(kind, predefined).cel;
  const form = /^(?:this\.size\(\) <= (\d+) && )?this\.matches\(r?'(\^[^']+\$)'\)$/.exec(rule?.expression ?? "");
  assert(rule && form && more.length + others.length === 0, `${where} has a rule for texts that is not understood`);
  const [, chars, pattern] = form;
  return { pattern: pattern!, charsMax: chars === undefined ? undefined : Number(chars), says: rule.message };
}

function readList({ minItems, maxItems, unique, items }: RepeatedRules, where: string): ListConstraint {
  const each = items && readRules(items, where);
  assert(each?.kind !== "list", `${where} is a list of lists`);
  const bounds = { itemsMin: toCount(minItems), itemsMax: toCount(maxItems) };
  const isBounded = (bounds.itemsMin ?? bounds.itemsMax) !== undefined;
  const says = isBounded ? `must hold ${sayRange(bounds.itemsMin, bounds.itemsMax)} items` : "";
  return { kind: "list", ...bounds, isUnique: unique, items: each, says };
}

/** A count of the annotations, where 0 is as good as none. */
function toCount(count: bigint): number | undefined {
  return count === 0n ? undefined : Number(count);
}

function sayRange(min: number | undefined, max: number | undefined): string {
  if (max === undefined) return `at least ${min}`;
  return min === undefined ? `at most ${max}` : `${min} to ${max}`;
}

function enumerate(words: readonly string[], conjunction: string): string {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} ${conjunction} ${words.at(-1)}`;
}
