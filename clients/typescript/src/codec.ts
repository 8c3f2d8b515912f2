/**
 * Names of fields between TypeScript's form (`topicKey`) and the wire's (`topic_key`).
 *
 * Always true: only fields of objects that the interface names are renamed. What users keep (`content`, `metadata`,
 * documents, filters, parameters of SQL) passes as it is, whatever its names.
 */
import { shapes } from "./generated/shapes.ts";

type Rename = (name: string) => string;

const toSnake: Rename = (name) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const toCamel: Rename = (name) => name.replaceAll(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

/** The wire's form of an object of that shape. Fields that are undefined are left out. */
export function toWire(value: unknown, shape: string | undefined): unknown {
  return rename(value, shape, toSnake, (_, wireName) => wireName);
}

/** TypeScript's form of what the wire brought. */
export function fromWire(value: unknown, shape: string | undefined): unknown {
  return rename(value, shape, toCamel, (wireName) => wireName);
}

function rename(
  value: unknown,
  shape: string | undefined,
  name: Rename,
  wireNameOf: (before: string, after: string) => string,
): unknown {
  if (shape === undefined || typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => rename(item, shape, name, wireNameOf));
  const isMap = shape.startsWith("*");
  const fields = shapes[shape] ?? {};
  const renamed: Record<string, unknown> = {};
  for (const [before, inner] of Object.entries(value)) {
    if (inner === undefined) continue;
    if (isMap) {
      renamed[before] = rename(inner, shape.slice(1), name, wireNameOf);
      continue;
    }
    const after = name(before);
    renamed[after] = rename(inner, fields[wireNameOf(before, after)], name, wireNameOf);
  }
  return renamed;
}

/** The wire's name of a query parameter. */
export const toWireName = toSnake;
