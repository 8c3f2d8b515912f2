/**
 * JSON that passes through unharmed: fields of any JSON carry their exact text beside their proto form.
 *
 * Why: agents store 64-bit ids, and a double holds integers only to 2^53. A google.protobuf.Value is made of doubles,
 * so on REST the text itself is the value, and the proto form is made from it only when the field is read (the gRPC
 * wire, a forward to another node). It is also the faster way: most calls never make the proto form.
 *
 * Always true: the text of a field is valid JSON of the field's kind, nested at most limits.jsonDepthMax deep; integers
 * in it have every digit that was received. Fractions are doubles, as everywhere in JSON.
 */
import {
  type DescField,
  type DescMessage,
  fromJson,
  type JsonObject,
  type JsonValue,
  type Message,
} from "@bufbuild/protobuf";
import { ListValueSchema, type ListValue, type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import { assert } from "../../base/faults/assert.ts";
import { invalid, type ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { publicServices } from "./methods.ts";

/** The kinds of field that hold any JSON: one value, one object, a list of objects, of arrays, of values. */
export type JsonKind = "value" | "object" | "objects" | "arrays" | "values";

/** Which kind of JSON a field holds; undefined when it is a field of another type. */
export function getJsonKind(field: DescField): JsonKind | undefined {
  const isList = field.fieldKind === "list";
  switch (field.message?.typeName) {
    case "google.protobuf.Value":
      return isList ? "values" : "value";
    case "google.protobuf.Struct":
      return isList ? "objects" : "object";
    case "google.protobuf.ListValue":
      assert(isList, `${String(field)} is a single ListValue, which no method needs`);
      return "arrays";
    default:
      return undefined;
  }
}

const textsKey = Symbol("exact JSON");

interface ExactField {
  readonly text: string;
  /** The texts of a list's elements, where they were made one by one. */
  readonly elements?: readonly string[];
  /** The proto form, once it was read. */
  local: unknown;
}

/** A message whose fields of any JSON are accessors over their texts. */
interface ExactMessage extends Message {
  [textsKey]?: Record<string, ExactField | undefined>;
  [field: string]: unknown;
}

interface JsonSlot {
  readonly kind: JsonKind;
  readonly name: string;
  readonly localName: string;
  /** One accessor pair per field, shared by all messages, so that they keep one hidden class. */
  readonly property: PropertyDescriptor;
}

/**
 * Sets a field of any JSON to a text: REST writes it as it is, and reading `message[field]` gives the proto form, made
 * on first reading and not to be changed. `field` is the property's name. The text must be JSON of the field's kind.
 */
export function setJson(message: Message, field: string, text: string): void {
  carry(message, field, { text, local: undefined });
}

/** The same for a list, by the texts of its elements. */
export function setJsonElements(message: Message, field: string, elements: readonly string[]): void {
  carry(message, field, {
    // Joined on demand: taking the elements one by one does not need it.
    get text(): string {
      return `[${elements.join(",")}]`;
    },
    elements,
    local: undefined,
  });
}

function carry(message: Message, field: string, value: ExactField): void {
  const exact = message as ExactMessage;
  const slot = getSlot(message.$typeName, field);
  let texts = exact[textsKey];
  if (texts === undefined) {
    texts = {};
    // Not enumerable: a spread of the message copies the proto forms and leaves the texts behind, together or not at
    // all.
    Object.defineProperty(exact, textsKey, { value: texts, enumerable: false });
  }
  texts[field] = value;
  Object.defineProperty(exact, field, slot.property);
}

/**
 * The exact JSON text of a field: as received on REST or set by `setJson`, or made from the proto form; undefined when
 * the field is absent (a list is never absent: empty is `[]`). `field` is the property's name.
 * @throws ServiceError `invalid_request` when the proto form has no JSON: a NaN, no kind, nested too deep.
 */
export function jsonText(message: Message, field: string): string | undefined {
  const exact = message as ExactMessage;
  const carried = exact[textsKey]?.[field];
  if (carried !== undefined) return carried.text;
  const json = readJsonField(exact, field);
  return json === undefined ? undefined : JSON.stringify(json);
}

/**
 * The texts of a list's elements, as `jsonText` would give each; of a large body they are there already. @throws as
 * `jsonText` does.
 */
export function jsonElements(message: Message, field: string): readonly string[] {
  const exact = message as ExactMessage;
  const carried = exact[textsKey]?.[field];
  if (carried?.elements !== undefined) return carried.elements;
  if (carried === undefined)
    return ((readJsonField(exact, field) ?? []) as unknown[]).map((element) => JSON.stringify(element));
  const plain: unknown = JSON.parse(carried.text);
  const elements = (
    inspectJson(plain, limits.jsonDepthMax + 1) === "plain" ? plain : parseExact(carried.text)
  ) as unknown[];
  const texts = elements.map((element) => JSON.stringify(element));
  // Asked again, as by a check and then by a handler, they are there.
  exact[textsKey]![field] = { ...carried, elements: texts };
  return texts;
}

/** The elements of such a list in whichever form they are there, for those that only count them. */
export function heldElements(message: Message, field: string): readonly unknown[] {
  const exact = message as ExactMessage;
  return exact[textsKey]?.[field] === undefined ? (exact[field] as unknown[]) : jsonElements(message, field);
}

function readJsonField(exact: ExactMessage, field: string): JsonValue | undefined {
  const { kind, name } = getSlot(exact.$typeName, field);
  const local = exact[field];
  if (local === undefined) return undefined;
  const json = convertLocal(kind, local, name);
  if (inspectJson(json, limits.jsonDepthMax) === "too_deep") throw tooDeep(name);
  return json;
}

/** Keeps the message's own fields of any JSON as their texts from now on. @throws ServiceError as `jsonText` does. */
export function keepTexts(message: Message): void {
  for (const { localName } of getSlots(message.$typeName).values()) {
    const text = jsonText(message, localName);
    if (text !== undefined) setJson(message, localName, text);
  }
}

/** A field of any JSON that a message carries as its text. */
export interface CarriedJson {
  readonly text: string;
  /** Makes the proto form, which is otherwise made when the field is read. */
  prepare(): void;
}

/** The fields of any JSON that are carried as texts by the message, and by the messages that it holds. */
export function* carriedJson(message: Message): Generator<CarriedJson> {
  const exact = message as ExactMessage;
  for (const { localName } of getSlots(message.$typeName).values()) {
    const carried = exact[textsKey]?.[localName];
    if (carried !== undefined) yield { text: carried.text, prepare: () => void exact[localName] };
  }
  for (const name of Object.keys(exact)) {
    if (exact[textsKey]?.[name] !== undefined) continue;
    const value = exact[name];
    for (const held of Array.isArray(value) ? (value as unknown[]) : [value]) {
      if (typeof held !== "object" || held === null || !("$typeName" in held)) break;
      // Those of google.protobuf hold JSON and carry none.
      if (getSlots((held as Message).$typeName) !== noSlots) yield* carriedJson(held as Message);
    }
  }
}

/** What a look at parsed JSON may find. */
export type JsonFinding = "plain" | "large_number" | "too_deep";

/**
 * Looks through parsed JSON once: whether it is deeper than `levels` levels of arrays and objects, or holds a number
 * beyond the integers that a double tells apart, whose text may have been another. Recurses no deeper than `levels`.
 */
export function inspectJson(json: unknown, levels: number): JsonFinding {
  if (typeof json === "number")
    return Number.MIN_SAFE_INTEGER <= json && json <= Number.MAX_SAFE_INTEGER ? "plain" : "large_number";
  if (typeof json !== "object" || json === null) return "plain";
  if (levels === 0) return "too_deep";
  let finding: JsonFinding = "plain";
  // An array's elements by for-in would be read as strings, several times slower.
  if (Array.isArray(json)) {
    for (let i = 0; i < json.length; i++) {
      const found = inspectJson(json[i], levels - 1);
      if (found === "too_deep") return found;
      if (found === "large_number") finding = found;
    }
    return finding;
  }
  for (const key in json) {
    const found = inspectJson((json as Record<string, unknown>)[key], levels - 1);
    if (found === "too_deep") return found;
    if (found === "large_number") finding = found;
  }
  return finding;
}

/** The refusal of JSON that nests too deep; `name` says where. */
function tooDeep(name: string): ServiceError {
  return invalid(`${name} is nested deeper than ${limits.jsonDepthMax} levels`);
}

/** JSON with source text access, which the language has and TypeScript's library does not know yet. */
const sourceJson = JSON as unknown as {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ): unknown;
  rawJSON(text: string): { readonly rawJSON: string };
  isRawJSON(value: unknown): value is { readonly rawJSON: string };
};

/** The digits of a number that parseExact could not give as a double; undefined for every other value. */
export function getRawNumber(value: unknown): string | undefined {
  return sourceJson.isRawJSON(value) ? value.rawJSON : undefined;
}

/**
 * JSON.parse, but integers that a double cannot hold, and numbers beyond its range, become raw JSON that JSON.stringify
 * writes out digit by digit (see getRawNumber). Ten times slower than JSON.parse, so it is for texts in which
 * inspectJson has found a large number: searching the text for one costs more (measured).
 * @throws SyntaxError
 */
export function parseExact(text: string): unknown {
  return sourceJson.parse(text, (_key, value, { source }) => {
    if (typeof value !== "number" || (Number.MIN_SAFE_INTEGER <= value && value <= Number.MAX_SAFE_INTEGER))
      return value;
    return isHeld(value, source!) ? value : sourceJson.rawJSON(source!);
  });
}

/** Whether writing `value` again says what `source` said. A fraction is taken for a double; an integer is not. */
function isHeld(value: number, source: string): boolean {
  if (!Number.isFinite(value)) return false;
  return /[.eE]/.test(source) || String(value) === source;
}

const slots = new Map<string, ReadonlyMap<string, JsonSlot>>();

const noSlots: ReadonlyMap<string, JsonSlot> = new Map();

function getSlots(typeName: string): ReadonlyMap<string, JsonSlot> {
  if (slots.size === 0)
    for (const service of publicServices) for (const method of service.methods) addTypes(method.input, method.output);
  return slots.get(typeName) ?? noSlots;
}

function getSlot(typeName: string, field: string): JsonSlot {
  const slot = getSlots(typeName).get(field);
  assert(slot !== undefined, `${typeName} has no field of any JSON named ${field}`);
  return slot;
}

function addTypes(...types: readonly DescMessage[]): void {
  for (const type of types) {
    if (slots.has(type.typeName)) continue;
    const own = new Map<string, JsonSlot>();
    slots.set(type.typeName, own);
    for (const field of type.fields) {
      const kind = getJsonKind(field);
      if (kind !== undefined) own.set(field.localName, makeSlot(field, kind));
      else if (field.message) addTypes(field.message);
    }
  }
}

function makeSlot(field: DescField, kind: JsonKind): JsonSlot {
  const { localName, name } = field;
  return {
    kind,
    name,
    localName,
    property: {
      enumerable: true,
      configurable: true,
      get(this: ExactMessage): unknown {
        const carried = this[textsKey]![localName]!;
        carried.local ??= parseLocal(kind, carried.text);
        return carried.local;
      },
      set(this: ExactMessage, value: unknown): void {
        this[textsKey]![localName] = undefined;
        Object.defineProperty(this, localName, { value, enumerable: true, configurable: true, writable: true });
      },
    },
  };
}

function parseLocal(kind: JsonKind, text: string): unknown {
  // Asking for every value takes ten times as long, and most texts have nothing that would have to change.
  const isPresentable = text.isWellFormed() && !/\\u[dD]|[eE]\+?\d{3}|\d{300}/.test(text);
  const json = (
    isPresentable ? JSON.parse(text) : JSON.parse(text, (_key, value: unknown) => presentable(value))
  ) as JsonValue;
  switch (kind) {
    case "value":
      return fromJson(ValueSchema, json);
    case "values":
      return (json as JsonValue[]).map((item) => fromJson(ValueSchema, item));
    case "arrays":
      return (json as JsonValue[]).map((item) => fromJson(ListValueSchema, item));
    case "object":
    case "objects":
      // Generated code keeps a Struct as plain JSON.
      return json;
  }
}

/** What the proto form can hold: UTF-8 has no lone surrogates, and its JSON no infinities. */
function presentable(value: unknown): unknown {
  if (typeof value === "string") return value.toWellFormed();
  if (value === Number.POSITIVE_INFINITY) return Number.MAX_VALUE;
  if (value === Number.NEGATIVE_INFINITY) return -Number.MAX_VALUE;
  return value;
}

function convertLocal(kind: JsonKind, local: unknown, name: string): JsonValue {
  switch (kind) {
    case "value":
      return convertValue(local as Value, name);
    case "values":
      return (local as Value[]).map((item) => convertValue(item, name));
    case "arrays":
      return (local as ListValue[]).map((item) => item.values.map((element) => convertValue(element, name)));
    case "object":
    case "objects":
      assertFinite(local, name);
      return local as JsonObject | JsonObject[];
  }
}

function assertFinite(json: unknown, name: string): void {
  if (typeof json === "number" && !Number.isFinite(json)) throw invalid(notFinite(name));
  if (typeof json === "object" && json !== null) for (const item of Object.values(json)) assertFinite(item, name);
}

const notFinite = (name: string): string => `${name} holds a number that JSON has no form for: NaN or an infinity`;

/** Recurses as deep as the message did when it was decoded, which the decoder bounds. */
function convertValue({ kind }: Value, name: string): JsonValue {
  switch (kind.case) {
    case "numberValue":
      if (!Number.isFinite(kind.value)) throw invalid(notFinite(name));
      return kind.value;
    case "listValue":
      return kind.value.values.map((item) => convertValue(item, name));
    case "structValue": {
      const entries = Object.entries(kind.value.fields).map(
        ([key, value]) => [key, convertValue(value, name)] as const,
      );
      // fromEntries defines, so that a key named __proto__ is a key like any other.
      return Object.fromEntries(entries);
    }
    case "nullValue":
      return null;
    case undefined:
      throw invalid(`${name} holds a google.protobuf.Value without a kind`);
    default:
      return kind.value;
  }
}
