/**
 * Payloads between nodes as bytes: the message `Value` of proto/palimpsest/node, written and read by hand
 * (value-encoder, value-decoder), and here what both know of it.
 *
 * What a command is given, and what it gives, are plain data of sixty shapes. A message for each would repeat the table
 * of commands, and every field twice more where it is put in and taken out; JSON knows neither bytes nor absence. So
 * the payload is one message for data of any shape, whose kinds do not depend on what runs the node, and which shape a
 * command's data must have is held against what is read (command-shapes). By hand, because the generated code takes
 * three times as long: it makes an object for every value. By hand it is within microseconds of V8's own clones, faster
 * or slower, and the tests compare it with the generated code.
 *
 * Always true: the writer and the reader agree, as there is one canonical form. Must not know: commands, streams,
 * protocols.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";

/** The name of a field of a payload: an identifier, or an id that is a key. */
export const peerFieldNameCharsMax = 64;

/** What the bytes of each kind of value begin with: the number of the field, and how it is written. */
export const tags = {
  constant: 0x08,
  integer: 0x10,
  number: 0x19,
  bigInteger: 0x21,
  text: 0x2a,
  utf16: 0x32,
  bytes: 0x3a,
  vector: 0x42,
  list: 0x4a,
  record: 0x52,
} as const;

/** Of an item in its list, a field in its record, the components in their vector, the name in its field. */
export const memberTag = 0x0a;
/** Of the value in its field. */
export const fieldValueTag = 0x12;

export const constants = { null: 1, false: 2, true: 3 } as const;

export function tooMany(): ServiceError {
  return new ServiceError(
    "payload_too_large",
    `the call holds more than ${limits.peerValuesMax} values, which are not forwarded to another node in one`,
  );
}

export function isInteger(number: number): boolean {
  return (number | 0) === number && !Object.is(number, -0);
}

/** Why no field may have this name; undefined for one that may. */
export function findNameFault(name: string): string | undefined {
  if (name.length === 0 || name.length > peerFieldNameCharsMax) return "a name that is too short or too long";
  for (let at = 0; at < name.length; at++) {
    const code = name.charCodeAt(at);
    if (code <= 0x20 || code >= 0x7f) return "a name with other characters than a name's";
  }
  return undefined;
}
