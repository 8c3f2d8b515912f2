/**
 * A record of an export: one JSON object on one line, its kind first, and what every kind of record has to offer.
 *
 * Always true: the same row gives the same line, byte for byte, wherever it lies; numbers in JSON of users keep every
 * digit. Must not know: which kinds there are, streams, wires.
 */
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkText } from "../../format/core/names.ts";
import { getField, isObject, jsonText, parseJson, type Json, type JsonObject } from "../core/docs-json.ts";
import { checkSubject } from "../core/subjects.ts";
import type { Tx, View } from "../core/transaction.ts";
import { checkEmbedding } from "../vectors/vectors.ts";
import { computeLength } from "../vectors/vector-details.ts";
import { storedForm } from "../index/vector-index.ts";
import type { ErasedNames } from "./erased.ts";

/** Where a walk through the rows of a kind goes on: behind these numbers or texts, which order the rows. */
export type Position = readonly (string | number)[];

/** A row as its line, without the line break, and where the walk goes on behind it. */
interface ExportedRow {
  readonly line: string;
  readonly position: Position;
}

/** What a database has under the names of a record that comes in. */
export type Found =
  /** Nothing: it can be written. */
  | "absent"
  /** The same. */
  | "same"
  /** Something else under the names. */
  | "different"
  /** Something that stands in its way and cannot be replaced by it. */
  | "blocked"
  /** A memory that says the same under another id. */
  | "duplicate"
  /** Nothing, and the record's own time is over. */
  | "expired";

/** How a table stands in an export: columns that its records hold, and those that follow from others. */
export interface TableUse {
  readonly exported: readonly string[];
  /** With the reason why it is not exported. */
  readonly derived: Readonly<Record<string, string>>;
}

/** A kind of record. Each table of the database belongs to one, or is left out with a reason (model/transfer/kinds). */
export interface RecordKind<Parsed = unknown> {
  readonly kind: string;
  readonly tables: Readonly<Record<string, TableUse>>;
  /** The rows behind the position, in the order in which they were written, read one at a time. */
  rows(view: View, after: Position | undefined): Iterable<ExportedRow>;
  /** Reads and checks a record. Throws invalid_request; looks at no database. */
  read(fields: Fields): Parsed;
  find(view: View, record: Parsed): Found;
  /** Writes a record that is `absent`, or in the place of a `different` one. */
  write(tx: Tx, record: Parsed): void;
  /** Whether the record was erased; asked of one that is not there the same. */
  isErased?(view: View, record: Parsed, erased: ErasedNames): boolean;
  /** The record without what it tells of others that were erased; itself where it tells nothing. */
  withoutErased?(view: View, record: Parsed, erased: ErasedNames): Parsed;
}

/** A line of the kind; values are JSON texts, undefined ones are left out. */
export function formLine(kind: string, fields: Readonly<Record<string, string | undefined>>): string {
  let line = `{"kind":${JSON.stringify(kind)}`;
  for (const name in fields) if (fields[name] !== undefined) line += `,${JSON.stringify(name)}:${fields[name]}`;
  return `${line}}`;
}

/** A text or a number as JSON; null is left out. */
export function plain(value: string | number | null): string | undefined {
  return value === null ? undefined : JSON.stringify(value);
}

/** A stored vector as JSON: its 32-bit floats in base64, little end first. */
export function vectorJson(stored: Uint8Array | null): string | undefined {
  if (stored === null) return undefined;
  return `"${Buffer.from(stored.buffer, stored.byteOffset, stored.byteLength).toString("base64")}"`;
}

/** A record nests the JSON that it holds one or two levels deeper. */
const recordDepthMax = limits.jsonDepthMax + 2;

const timeMsMax = 8.64e15;

/** The fields of a record, read by name, each once; `close` refuses what nobody asked for. */
export class Fields {
  readonly kind: string;
  readonly #object: JsonObject;
  readonly #known = new Set(["kind"]);

  private constructor(kind: string, object: JsonObject) {
    this.kind = kind;
    this.#object = object;
  }

  /** Reads a line. Throws invalid_request for one that is no object with a kind. */
  static parse(line: string): Fields {
    const { value } = parseJson("the line", line, recordDepthMax);
    if (!isObject(value)) throw invalid("the line must be a JSON object");
    const kind = getField(value, "kind");
    if (typeof kind !== "string") throw invalid("kind must be a string");
    return new Fields(kind, value);
  }

  #get(name: string): Json | undefined {
    this.#known.add(name);
    return getField(this.#object, name);
  }

  #required<Value>(name: string, value: Value | undefined): Value {
    if (value === undefined) throw invalid(`${name} is missing`);
    return value;
  }

  /** A text that is not empty, of at most so many bytes. */
  maybeText(name: string, bytesMax: number): string | undefined {
    const value = this.#get(name);
    if (value === undefined) return undefined;
    if (typeof value !== "string") throw invalid(`${name} must be a string`);
    return checkText(name, value, bytesMax);
  }

  text(name: string, bytesMax: number): string {
    return this.#required(name, this.maybeText(name, bytesMax));
  }

  /** A text that may be empty; its bound is its user's. */
  maybeAnyText(name: string): string | undefined {
    const value = this.#get(name);
    if (value === undefined || typeof value === "string") return value;
    throw invalid(`${name} must be a string`);
  }

  maybeCount(name: string, most: number = Number.MAX_SAFE_INTEGER): number | undefined {
    const value = this.#get(name);
    if (value === undefined) return undefined;
    if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0 || value > most)
      throw invalid(`${name} must be a whole number from 0 to ${most}`);
    return value;
  }

  count(name: string, most?: number): number {
    return this.#required(name, this.maybeCount(name, most));
  }

  /** A whole number of either sign; its bounds are its user's. */
  maybeInteger(name: string): number | undefined {
    const value = this.#get(name);
    if (value === undefined || (typeof value === "number" && Number.isSafeInteger(value))) return value;
    throw invalid(`${name} must be a whole number`);
  }

  /** Unix milliseconds. */
  maybeTime(name: string): number | undefined {
    return this.maybeCount(name, timeMsMax);
  }

  time(name: string): number {
    return this.#required(name, this.maybeTime(name));
  }

  maybeNumber(name: string): number | undefined {
    const value = this.#get(name);
    if (value === undefined || typeof value === "number") return value;
    const source = isObject(value) || Array.isArray(value) ? undefined : Number(jsonText(value));
    if (source === undefined || !Number.isFinite(source)) throw invalid(`${name} must be a number`);
    return source;
  }

  maybeTrue(name: string): true | undefined {
    const value = this.#get(name);
    if (value === undefined || value === true) return value;
    throw invalid(`${name} must be true or left out`);
  }

  oneOf<Name extends string>(name: string, names: readonly Name[]): Name {
    const value = this.#get(name);
    if (names.includes(value as Name)) return value as Name;
    throw invalid(`${name} must be one of ${names.join(", ")}`);
  }

  /** Any JSON, as its text. */
  maybeJson(name: string): string | undefined {
    const value = this.#get(name);
    return value === undefined ? undefined : jsonText(value);
  }

  json(name: string): string {
    return this.#required(name, this.maybeJson(name));
  }

  /** A list of objects. */
  maybeObjects(name: string, most: number): readonly JsonObject[] | undefined {
    const value = this.#get(name);
    if (value === undefined) return undefined;
    if (!Array.isArray(value) || value.length > most || !value.every(isObject))
      throw invalid(`${name} must be a list of at most ${most} objects`);
    return value as JsonObject[];
  }

  /** A list of texts. */
  texts(name: string, most: number): readonly string[] {
    const value = this.#get(name);
    if (!Array.isArray(value) || value.length > most || !value.every((one) => typeof one === "string"))
      throw invalid(`${name} must be a list of at most ${most} strings`);
    return value as string[];
  }

  /** A list of pairs of texts. */
  maybePairs(name: string, most: number): readonly (readonly [string, string])[] | undefined {
    const value = this.#get(name);
    if (value === undefined) return undefined;
    const isPair = (one: Json): boolean =>
      Array.isArray(one) && one.length === 2 && one.every((text) => typeof text === "string");
    if (!Array.isArray(value) || value.length > most || !value.every(isPair))
      throw invalid(`${name} must be a list of at most ${most} pairs of strings`);
    return value as [string, string][];
  }

  /** Bytes, in base64 as it is written canonically. */
  maybeBytes(name: string): Uint8Array | undefined {
    const text = this.maybeAnyText(name);
    if (text === undefined) return undefined;
    const bytes = Buffer.from(text, "base64");
    if (bytes.toString("base64") !== text) throw invalid(`${name} must be padded base64`);
    return bytes;
  }

  /** A vector of length 1, as it is stored. */
  maybeVector(name: string): Float32Array | undefined {
    const bytes = this.maybeBytes(name);
    if (bytes === undefined) return undefined;
    if (bytes.length % Float32Array.BYTES_PER_ELEMENT !== 0)
      throw invalid(`${name} must hold 32-bit floating-point numbers`);
    const values = new Float32Array(bytes.length / Float32Array.BYTES_PER_ELEMENT);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let at = 0; at < values.length; at++) values[at] = view.getFloat32(at * 4, true);
    checkEmbedding(name, values);
    if (computeLength(values) !== 1) throw invalid(`${name} must have length 1`);
    return values;
  }

  /** Refuses fields that no one has asked for. */
  close(): void {
    const unknown = Object.keys(this.#object).find((name) => !this.#known.has(name));
    if (unknown !== undefined)
      throw invalid(`a record of kind ${this.kind} has no field ${JSON.stringify(unknown.slice(0, 64))}`);
  }
}

/** Whom a record is about, where it says so. */
export function readSubject(fields: Fields): string | undefined {
  const subject = fields.maybeAnyText("subject");
  return subject === undefined ? undefined : checkSubject("subject", subject);
}

/** Whether the stored vector is that one. */
export function isStored(stored: Uint8Array | null, vector: Float32Array | undefined): boolean {
  if (stored === null || vector === undefined) return stored === null && vector === undefined;
  return Buffer.compare(stored, storedForm(vector)) === 0;
}
