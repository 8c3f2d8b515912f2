/**
 * What shape data must have, and what is wrong with data of another shape.
 *
 * A shape is tied to its type: the compiler refuses one that has a field more or less than the type, or another kind of
 * value. Always true: of data without a fault every field is declared and of its kind. The command itself checks more
 * than kinds, such as a range. Must not know: which command is given what.
 */

/** What is wrong with data: where it is, and whether a newer build may have meant something by it. */
interface ShapeFault {
  readonly what: string;
  readonly isUnknown: boolean;
}

export interface Shape<Value> {
  /** What is wrong with the value at the path; undefined when it has the shape. */
  readonly findFault: (value: unknown, path: string) => ShapeFault | undefined;
  /** Never there. It keeps shapes of wider and of narrower types apart. */
  readonly of?: (value: Value) => Value;
}

/** The shapes of a type's fields. */
type FieldShapes<Type> = { readonly [Name in keyof Type]-?: Shape<FieldType<Type, Name>> };
/** What a field may hold, absence included. */
type FieldType<Type, Name extends keyof Type> =
  Record<never, never> extends Pick<Type, Name> ? Type[Name] | undefined : Type[Name];

type Guard<Value> = (value: unknown) => value is Value;

function simple<Value>(kind: string, has: Guard<Value>): Shape<Value> {
  return {
    findFault: (value, path) => (has(value) ? undefined : { what: `${path} must be ${kind}`, isUnknown: false }),
  };
}

export const text = simple("text", (value): value is string => typeof value === "string");
export const number = simple("a number", (value): value is number => typeof value === "number");
export const boolean = simple("true or false", (value): value is boolean => typeof value === "boolean");
export const bytes = simple("bytes", (value): value is Uint8Array => value instanceof Uint8Array);
export const vector = simple("a vector", (value): value is Float32Array => value instanceof Float32Array);
export const textOrNumber = simple(
  "text or a number",
  (value): value is string | number => typeof value === "string" || typeof value === "number",
);
/** Whatever it is: what knows its shape looks at it. */
export const anything: Shape<unknown> = { findFault: () => undefined };
/** Of a command that is given nothing, which has no type of its own. */
export const nothing: Shape<unknown> = {
  findFault: (value, path) => (value === undefined ? undefined : { what: path, isUnknown: true }),
};

/** One of these texts. */
export function oneOf<const Text extends string>(...texts: readonly Text[]): Shape<Text> {
  return {
    findFault: (value, path) =>
      (texts as readonly unknown[]).includes(value)
        ? undefined
        : { what: `${path} must be one of ${texts.join(", ")}`, isUnknown: typeof value === "string" },
  };
}

/** The value, or nothing. */
export function maybe<Value>({ findFault }: Shape<Value>): Shape<Value | undefined> {
  return { findFault: (value, path) => (value === undefined ? undefined : findFault(value, path)) };
}

/** A list of items of one shape. */
export function list<Item>({ findFault }: Shape<Item>): Shape<readonly Item[]> {
  return {
    findFault: (value, path) => {
      if (!Array.isArray(value)) return { what: `${path} must be a list`, isUnknown: false };
      for (let at = 0; at < value.length; at++) {
        const fault = findFault(value[at], path);
        if (fault) return fault;
      }
      return undefined;
    },
  };
}

/** A record of exactly these fields; one that may be absent may be missing. */
export function record<Type extends object>(fields: NoInfer<FieldShapes<Type>>): Shape<Type> {
  const shapes = new Map<string, Shape<unknown>>(Object.entries(fields));
  return {
    findFault: (value, path) => {
      if (!isRecord(value)) return { what: `${path} must be a record`, isUnknown: false };
      for (const [name, { findFault }] of shapes) {
        const fault = findFault(value[name], `${path}.${name}`);
        if (fault) return fault;
      }
      for (const name of Object.keys(value))
        if (!shapes.has(name) && value[name] !== undefined) return { what: `${path}.${name}`, isUnknown: true };
      return undefined;
    },
  };
}

/** One of several records, told apart by a text that each of them has under one name. */
export function variants<Name extends string, Type extends Readonly<Record<Name, string>>>(
  name: Name,
  shapes: { readonly [Variant in Type[Name]]: Shape<Extract<Type, Readonly<Record<Name, Variant>>>> },
): Shape<Type> {
  const byVariant = new Map<unknown, Shape<never>>(Object.entries(shapes));
  return {
    findFault: (value, path) => {
      if (!isRecord(value)) return { what: `${path} must be a record`, isUnknown: false };
      const variant = value[name];
      if (typeof variant !== "string") return { what: `${path}.${name} must be text`, isUnknown: false };
      const shape = byVariant.get(variant);
      return shape ? shape.findFault(value, path) : { what: `${path}.${name} ${variant}`, isUnknown: true };
    },
  };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value);
}
