/**
 * The annotations of the proto files in the words of JSON Schema, for the OpenAPI document and the reference.
 *
 * Always true: what is written here holds of every request that is accepted. Where JSON Schema has no word for a rule,
 * it says what it can, and the description says the rest: a bound in bytes is one in characters too, as no character
 * has less than one byte.
 */
import type { DescField, DescMessage } from "@bufbuild/protobuf";
import {
  type Constraint,
  type FieldChoice,
  type ListConstraint,
  type NumberConstraint,
  readChoices,
  readConstraint,
  type TextConstraint,
} from "../../service/call/constraints.ts";

/** A JSON Schema. */
export type Schema = { readonly [keyword: string]: unknown };

/** The schema of a field with what is allowed of it. */
export function constrain(field: DescField, schema: Schema): Schema {
  const constraint = readConstraint(field);
  if (constraint === undefined) return schema;
  const narrowed = narrow(constraint, schema);
  return constraint.orEmpty
    ? { ...schema, anyOf: [{ const: emptyOf(constraint) }, without(narrowed, schema)] }
    : narrowed;
}

/** What the rules of a field say of it, as a sentence; undefined where they say nothing. */
export function sayConstraint(field: DescField): string | undefined {
  const constraint = readConstraint(field);
  if (constraint === undefined) return undefined;
  const items = constraint.kind === "list" && constraint.items ? `each ${constraint.items.says}` : "";
  const said = [constraint.says, items].filter((part) => part !== "").join(", ");
  if (said === "") return undefined;
  const sentence = said.charAt(0).toUpperCase() + said.slice(1);
  return constraint.orEmpty ? `${sentence}, or empty.` : `${sentence}.`;
}

/** Whether JSON Schema's keywords do not tell people what the rules of the field are: bounds in bytes, patterns. */
export function needsWords(field: DescField): boolean {
  const constraint = readConstraint(field);
  const texts = constraint?.kind === "list" ? constraint.items : constraint;
  return texts?.kind === "text" && (texts.pattern ?? texts.bytesMin ?? texts.bytesMax) !== undefined;
}

function emptyOf({ kind }: Constraint): unknown {
  return kind === "text" ? "" : kind === "number" ? 0 : [];
}

/** The keywords that the narrower schema adds. */
function without(narrowed: Schema, schema: Schema): Schema {
  return Object.fromEntries(Object.entries(narrowed).filter(([keyword, value]) => schema[keyword] !== value));
}

function narrow(constraint: TextConstraint | NumberConstraint | ListConstraint, schema: Schema): Schema {
  switch (constraint.kind) {
    case "text":
      return { ...schema, ...textKeywords(constraint) };
    case "number":
      return { ...schema, ...numberKeywords(constraint) };
    default: {
      const { itemsMin, itemsMax, isUnique, items } = constraint;
      return {
        ...schema,
        ...(items && { items: narrow(items, schema["items"] as Schema) }),
        ...(itemsMin !== undefined && { minItems: itemsMin }),
        ...(itemsMax !== undefined && { maxItems: itemsMax }),
        ...(isUnique && { uniqueItems: true }),
      };
    }
  }
}

function textKeywords({ charsMin, charsMax, bytesMin, bytesMax, pattern, values, examples }: TextConstraint): Schema {
  const least = charsMin ?? (bytesMin === undefined ? undefined : Math.ceil(bytesMin / bytesPerCharMax));
  const most = charsMax ?? bytesMax;
  return {
    ...(values && { enum: values }),
    ...(least !== undefined && { minLength: least }),
    ...(most !== undefined && { maxLength: most }),
    ...(pattern !== undefined && { pattern }),
    ...(examples.length > 0 && { examples }),
  };
}

const bytesPerCharMax = 4;

function numberKeywords({ min, max, isAboveMin, values, examples }: NumberConstraint): Schema {
  return {
    ...(values && { enum: values }),
    ...(min !== undefined && { [isAboveMin ? "exclusiveMinimum" : "minimum"]: min }),
    ...(max !== undefined && { maximum: max }),
    ...(examples.length > 0 && { examples }),
  };
}

/** What must hold of several fields of a request's object together. */
export function choiceKeywords(message: DescMessage): Schema {
  const all = readChoices(message).map(describeChoice);
  if (all.length === 0) return {};
  return all.length === 1 ? all[0]! : { allOf: all };
}

function describeChoice({ fields, least, most }: FieldChoice): Schema {
  const given = fields.map((field) => ({ required: [field.name], properties: { [field.name]: givenAs(field) } }));
  if (most === undefined) return { anyOf: given };
  if (least === 1) return { oneOf: given };
  return { oneOf: [...given, { not: { anyOf: given } }] };
}

/** What counts as given: null never does, nor does an empty value where the field does not know whether it is set. */
function givenAs(field: DescField): Schema {
  const unset = field.proto.proto3Optional || field.fieldKind === "message" ? [null] : [null, false, "", 0];
  if (field.fieldKind === "list") return { type: "array", minItems: 1 };
  return { not: { enum: unset } };
}
