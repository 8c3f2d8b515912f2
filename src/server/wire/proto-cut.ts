/**
 * Where a large message in the protobuf binary form can be cut, found by looking over its bytes before it is decoded.
 *
 * Why: see json-cut. A message is what its fields say one after the other, so it may be cut between any two fields at
 * its top, and the pieces merged in order. Always true: the look is bounded by the work that it counts, and stops at
 * the first excess; it follows the descriptor, as only that tells messages from texts, and refuses whatever the decoder
 * would read differently. Must not know: what a field means.
 */
import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { invalid, type ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";

/** The ends of the pieces, in bytes; the last is the message's end. @throws ServiceError `invalid_request`. */
export function cutMessage(type: DescMessage, bytes: Uint8Array): readonly number[] {
  const reader = new Reader(bytes);
  const counts = new Map<number, number>();
  const ends: number[] = [];
  let start = 0;
  let pieceWork = 0;
  let bodyWork = 0;
  while (reader.at < bytes.length) {
    reader.work = 0;
    const number = reader.field(type, bytes.length, limits.messageDepthMax);
    const isTooMuch = reader.work > limits.elementWorkMax;
    if (number === undefined && !isTooMuch) throw malformed(type);
    const count = (counts.get(number ?? 0) ?? 0) + 1;
    counts.set(number ?? 0, count);
    if (isTooMuch)
      throw invalid("one element of the body holds more values than can be taken in one: send it in parts");
    if (count > limits.listElementsMax)
      throw invalid(
        `${findFieldName(type, number!)} has more elements than any request takes (${limits.listElementsMax})`,
      );
    pieceWork += reader.work;
    bodyWork += reader.work;
    if (bodyWork > limits.bodyWorkMax)
      throw invalid("the body holds more values than can be taken in one: send it in parts");
    if (reader.at - start < limits.pieceBytes && pieceWork < limits.pieceWork) continue;
    ends.push(reader.at);
    start = reader.at;
    pieceWork = 0;
  }
  if (ends.at(-1) !== bytes.length) ends.push(bytes.length);
  return ends;
}

/** The refusal of bytes that are no message of the type. */
export function malformed(type: DescMessage): ServiceError {
  return invalid(`the body is no ${type.typeName} in the protobuf binary form`);
}

function findFieldName(type: DescMessage, number: number): string {
  return getFields(type).get(number)?.name ?? "an unknown field";
}

const varint = 0;
const fixed64 = 1;
const delimited = 2;
const fixed32 = 5;

/** Work in the units of json-cut, measured with the decoder: any JSON becomes messages within messages. */
const fieldWork = 6;
const messageWork = 10;
const entryWork = 48;
const jsonContainerWork = 40;

/**
 * Walks over fields and counts them. What it gives for them is undefined, or false, where they are malformed or too
 * much.
 */
class Reader {
  readonly #bytes: Uint8Array;
  at = 0;
  work = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** Passes over one field of a message that ends at `end`, and gives its number. */
  field(type: DescMessage, end: number, levels: number): number | undefined {
    const tag = this.#varint();
    if (tag === undefined || tag >>> 3 === 0) return undefined;
    this.work += fieldWork;
    if (levels === 0 || this.work > limits.elementWorkMax) return undefined;
    const number = tag >>> 3;
    const field = getFields(type).get(number);
    const wire = tag & 7;
    if (field !== undefined && !fits(field, wire)) return undefined;
    if (wire !== delimited) return this.#pass(wire) && this.at <= end ? number : undefined;
    const length = this.#varint();
    if (length === undefined || this.at + length > end) return undefined;
    return this.#within(field, this.at + length, levels - 1) ? number : undefined;
  }

  #pass(wire: number): boolean {
    if (wire === varint) return this.#varint() !== undefined;
    if (wire !== fixed32 && wire !== fixed64) return false;
    this.at += wire === fixed32 ? 4 : 8;
    return true;
  }

  #within(field: DescField | undefined, end: number, levels: number): boolean {
    if (field?.fieldKind === "map") return this.#entry(field, end, levels);
    if (field?.message !== undefined) return this.#message(field.message, end, levels);
    // Packed numbers become one each.
    if (field?.fieldKind === "list" && isPackable(field)) this.work += (end - this.at) >> 2;
    this.at = end;
    return true;
  }

  #message(type: DescMessage, end: number, levels: number): boolean {
    this.work +=
      type.typeName === "google.protobuf.ListValue" || type.typeName === "google.protobuf.Struct"
        ? jsonContainerWork
        : messageWork;
    while (this.at < end) if (this.field(type, end, levels) === undefined) return false;
    return this.at === end;
  }

  /** The entry of a map: a message whose field 1 is the key and 2 the value. */
  #entry(field: DescField & { readonly fieldKind: "map" }, end: number, levels: number): boolean {
    this.work += entryWork;
    while (this.at < end) {
      const tag = this.#varint();
      const length = tag === undefined || (tag & 7) !== delimited ? undefined : this.#varint();
      if (tag === undefined || length === undefined || this.at + length > end) return false;
      this.work += fieldWork;
      const valueEnd = this.at + length;
      if (tag >>> 3 === 2 && field.mapKind === "message") {
        if (levels === 0 || !this.#message(field.message, valueEnd, levels - 1)) return false;
      } else this.at = valueEnd;
    }
    return true;
  }

  /** A number, its low 32 bits. */
  #varint(): number | undefined {
    let value = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.#bytes[this.at++];
      if (byte === undefined) return undefined;
      if (shift < 32) value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value >>> 0;
    }
    return undefined;
  }
}

const fieldsByNumber = new WeakMap<DescMessage, ReadonlyMap<number, DescField>>();

function getFields(type: DescMessage): ReadonlyMap<number, DescField> {
  let fields = fieldsByNumber.get(type);
  if (fields === undefined)
    fieldsByNumber.set(type, (fields = new Map(type.fields.map((field) => [field.number, field]))));
  return fields;
}

/** Whether a field may come with the wire type. The decoder reads a field by its kind, whatever its wire type says. */
function fits(field: DescField, wire: number): boolean {
  if (field.message !== undefined || field.fieldKind === "map") return wire === delimited;
  const scalar =
    field.fieldKind === "enum" || (field.fieldKind === "list" && field.listKind === "enum")
      ? ScalarType.INT32
      : field.scalar!;
  return wire === getWireType(scalar) || (wire === delimited && isPackable(field));
}

function getWireType(scalar: ScalarType): number {
  switch (scalar) {
    case ScalarType.STRING:
    case ScalarType.BYTES:
      return delimited;
    case ScalarType.DOUBLE:
    case ScalarType.FIXED64:
    case ScalarType.SFIXED64:
      return fixed64;
    case ScalarType.FLOAT:
    case ScalarType.FIXED32:
    case ScalarType.SFIXED32:
      return fixed32;
    default:
      return varint;
  }
}

function isPackable(field: DescField): boolean {
  return (
    field.fieldKind === "list" &&
    field.message === undefined &&
    field.scalar !== ScalarType.STRING &&
    field.scalar !== ScalarType.BYTES
  );
}
