/**
 * What a tool is: what is said of it, what it takes, and what it does.
 *
 * Always true: arguments have been held to the tool's schema before it runs, as far as names, required ones and the
 * types at their top go; what they hold further down is judged by the methods that they are given to. Must not know:
 * the protocol's library, any one tool.
 */
import { invalid } from "../../base/faults/errors.ts";
import type { JsonObject, Visit } from "./visit.ts";

type JsonType = "string" | "integer" | "boolean" | "array" | "object";

/** The schema of one argument. */
export interface ArgumentSchema {
  /** Absent: any JSON. */
  readonly type?: JsonType;
  readonly description: string;
  readonly enum?: readonly string[];
  readonly items?: JsonObject;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly default?: unknown;
}

/** What becomes of what is stored when a tool is called. */
type Effect = "reads" | "adds" | "destroys";

export interface ToolAnswer {
  /** The answer by the tool's output schema. */
  readonly structured: JsonObject;
  /** The same for a model to read: short, and what was stored in a fence of data. */
  readonly text: string;
}

export interface Tool {
  readonly name: string;
  readonly title: string;
  /** For a model: when to use it, and what it gives. */
  readonly description: string;
  readonly takes: Readonly<Record<string, ArgumentSchema>>;
  readonly required: readonly string[];
  /** The properties of its answer, as JSON Schema. */
  readonly gives: Readonly<Record<string, JsonObject>>;
  /** Those that every answer has. */
  readonly always: readonly string[];
  readonly effect: Effect;
  /** Whether the same call again changes nothing more. */
  readonly isIdempotent: boolean;
  /** `client` is the name by which the client introduced itself. @throws ServiceError. */
  run(given: JsonObject, visit: Visit, client: string): Promise<ToolAnswer>;
}

/** The tool as it is listed. */
export function describeTool(tool: Tool): Record<string, unknown> {
  const { name, title, description, takes, required, gives, always, effect, isIdempotent } = tool;
  return {
    name,
    title,
    description,
    inputSchema: { type: "object", properties: takes, required, additionalProperties: false },
    outputSchema: { type: "object", properties: gives, required: always },
    annotations: {
      title,
      readOnlyHint: effect === "reads",
      destructiveHint: effect === "destroys",
      idempotentHint: isIdempotent,
      openWorldHint: false,
    },
  };
}

/** Holds arguments to the tool's schema. @throws ServiceError `invalid_request` that names the argument. */
export function checkArguments({ name, takes, required }: Tool, given: unknown): JsonObject {
  if (!isObject(given)) throw invalid(`the arguments of ${name} must be an object`);
  for (const [argument, value] of Object.entries(given)) {
    if (!Object.hasOwn(takes, argument))
      throw invalid(`${name} has no argument ${quote(argument)}; it takes ${Object.keys(takes).join(", ")}`);
    const misfit = findMisfit(takes[argument]!, value);
    if (misfit !== undefined) throw invalid(`${argument} must be ${misfit}`);
  }
  const missing = required.filter((argument) => given[argument] === undefined);
  if (missing.length > 0) throw invalid(`${name} needs ${missing.join(" and ")}`);
  return given;
}

/** What a value must be and is not. */
function findMisfit(schema: ArgumentSchema, value: unknown): string | undefined {
  const { type, minimum, maximum } = schema;
  if (schema.enum && !schema.enum.some((allowed) => allowed === value)) return `one of ${schema.enum.join(", ")}`;
  switch (type) {
    case undefined:
      return undefined;
    case "string":
      return typeof value === "string" ? undefined : "a string";
    case "boolean":
      return typeof value === "boolean" ? undefined : "true or false";
    case "array":
      return Array.isArray(value) ? undefined : "a list";
    case "object":
      return isObject(value) ? undefined : "an object";
    case "integer": {
      const isWithin =
        Number.isSafeInteger(value) &&
        Number(value) >= (minimum ?? -Infinity) &&
        Number(value) <= (maximum ?? Infinity);
      if (isWithin) return undefined;
      return maximum === undefined ? "a whole number" : `a whole number from ${minimum ?? 0} to ${maximum}`;
    }
  }
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A name from outside, as a text may hold it. */
function quote(name: string): string {
  return /^[\w-]{1,64}$/.test(name) ? name : "of that name";
}
