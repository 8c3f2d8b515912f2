/**
 * The generated part of the TypeScript client: the types of requests and answers, what the codec must know of them, and
 * the table of operations.
 *
 * Names are TypeScript's (`topicKey`); the codec of the client gives them the wire's (`topic_key`) and back.
 */
import type { Description, Field, Form, Named, Operation } from "./description.ts";

const note = "// Generated from the OpenAPI document by `npm run clients`; do not edit.";

/** Both directions of a name must come out right, as the codec computes them. */
function toCamel(name: string): string {
  const camel = name.replaceAll(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
  if (toSnake(camel) !== name) throw new Error(`the name ${name} does not come back from ${camel}`);
  return camel;
}

function toSnake(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** `types.ts`: an interface for every named object, and one for the query of each operation that has one. */
export function typesSource({ named, operations }: Description): string {
  return [
    note,
    "",
    "/** Any JSON. */",
    "export type Json = null | boolean | number | string | readonly Json[] | JsonObject;",
    "",
    "/** A JSON object. */",
    "export interface JsonObject {",
    "  readonly [member: string]: Json | undefined;",
    "}",
    ...named.map((object) => `\n${interfaceSource(object.name, object.about, object)}`),
    ...operations
      .filter(({ query }) => query.length > 0)
      .map((operation) => {
        const about = `The query of ${operation.method} ${operation.path}.`;
        return `\n${interfaceSource(queryTypeName(operation), about, { fields: operation.query })}`;
      }),
    "",
  ].join("\n");
}

function queryTypeName({ id }: Operation): string {
  return `${id[0]!.toUpperCase()}${id.slice(1)}Query`;
}

function interfaceSource(name: string, about: string, { fields }: Pick<Named, "fields">): string {
  return [doc(about, ""), `export interface ${name} {`, ...fields.map(fieldSource), "}"].join("\n");
}

function fieldSource({ name, form, isRequired, about }: Field): string {
  const optional = isRequired ? "" : "?";
  const absent = isRequired ? "" : " | undefined";
  return `${doc(about, "  ")}\n  readonly ${toCamel(name)}${optional}: ${typeSource(form)}${absent};`;
}

function doc(text: string, indent: string): string {
  const safe = text.replaceAll("*/", "*\\/").replaceAll(/\s+/g, " ");
  return `${indent}/** ${safe} */`;
}

function typeSource(form: Form): string {
  switch (form.kind) {
    case "any":
      return "Json";
    case "object":
      return "JsonObject";
    case "string":
      return form.values.length > 0 ? form.values.map((value) => JSON.stringify(value)).join(" | ") : "string";
    case "integer":
      return "number";
    case "list":
      return `readonly ${inBrackets(typeSource(form.of))}[]`;
    case "map":
      return `{ readonly [name: string]: ${typeSource(form.of)} }`;
    case "named":
      return form.name;
    case "either":
      return [...new Set(form.of.map(typeSource))].join(" | ");
    default:
      return form.kind;
  }
}

function inBrackets(type: string): string {
  return / /.test(type) ? `(${type})` : type;
}

/** `shapes.ts`: which fields of which object hold named objects, the only places the codec goes into. */
export function shapesSource(description: Description): string {
  return [
    note,
    "",
    "/** Of each object, the fields (by the wire's names) whose values are objects with a name, alone, listed or mapped. */",
    `export const shapes: { readonly [name: string]: { readonly [field: string]: string } } = ${JSON.stringify(findShapes(description))};`,
    "",
  ].join("\n");
}

/** Of each object that holds others, which fields do; `*` before a name says that they are the values of a map. */
export function findShapes({ named }: Description): Readonly<Record<string, Readonly<Record<string, string>>>> {
  return Object.fromEntries(
    named.flatMap(({ name, fields }) => {
      const inner = fields.flatMap((field) => {
        const found = nameIn(field.form);
        return found === undefined ? [] : [[field.name, found] as const];
      });
      return inner.length === 0 ? [] : [[name, Object.fromEntries(inner)] as const];
    }),
  );
}

function nameIn(form: Form): string | undefined {
  if (form.kind === "named") return form.name;
  if (form.kind === "list") return nameIn(form.of);
  if (form.kind === "map") {
    const inner = nameIn(form.of);
    return inner === undefined ? undefined : `*${inner}`;
  }
  if (form.kind === "either") return form.of.map(nameIn).find((name) => name !== undefined);
  return undefined;
}

/** `operations.ts`: one row for each operation. */
export function operationsSource({ operations, errorCodes }: Description): string {
  const rows = operations.map((operation) => {
    const { id, method, path, body, answer, input, output, tellsTxid, reads, takesKey, isIdempotent } = operation;
    const row = {
      id,
      method,
      path,
      query: operation.query.map(({ name }) => name),
      body,
      answer,
      ...(input !== undefined && { input }),
      ...(output !== undefined && { output }),
      ...(tellsTxid && { tellsTxid }),
      ...((reads || method === "GET") && { reads: true }),
      ...(takesKey && { takesKey }),
      ...(isIdempotent && { isIdempotent }),
    };
    return `  ${id}: ${JSON.stringify(row)},`;
  });
  return [
    note,
    'import type { Operation } from "../operation.ts";',
    "",
    "/** Every operation of the interface, by its id. */",
    "export const operations = {",
    ...rows,
    "} as const satisfies { readonly [id: string]: Operation };",
    "",
    "/** Every stable error code. */",
    `export const errorCodes = ${JSON.stringify(errorCodes)} as const;`,
    "",
    "export type ErrorCode = (typeof errorCodes)[number];",
    "",
  ].join("\n");
}
