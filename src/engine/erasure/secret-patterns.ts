/**
 * What a secret looks like wherever it may lie, and the search for all its forms in one pass over the bytes.
 *
 * A secret is text; one that is a JSON array of numbers is a vector too. Its forms: the text in UTF-8 and UTF-16, as
 * JSON escapes it, in Base64 (of both alphabets, at each of the three places it can begin in a group), and a vector's
 * numbers as 32-bit floats, as given and of length 1.
 *
 * SQLite cuts a long row over several pages, so a form need not lie in one piece. Always true: a form of `cutBytesMin`
 * bytes or more that lies across two pages is found by its longer part, which ends where a row goes on or begins where
 * it does; a form of more than `blockBytesMin` bytes is found by any of its blocks. Not found: shorter forms across two
 * pages, what is compressed or encrypted by others, and words of a search index, which are stored without what they
 * share with the word before.
 *
 * It never hands out the secret: a match says which one it is by its place among those that were given.
 */
import { assert } from "../../base/faults/assert.ts";
import { limits } from "../../base/limits.ts";
import { pageBytes } from "../../format/history/pages.ts";

/** How a secret was written down. */
export type ResidueForm = "text" | "utf-16" | "json" | "base64" | "float32";

/** A form of a secret that was found. */
export interface Match {
  /** Place of the secret among those that were given, from 0. */
  readonly secret: number;
  readonly form: ResidueForm;
  /** Where it begins in the bytes. */
  readonly offset: number;
  /** Whether all of it lies there; a part otherwise. */
  readonly isWhole: boolean;
}

/** Where a place in the bytes lies within its page; undefined for bytes that are not pages. */
export type PageOffset = ((offset: number) => number) | undefined;

/** A stretch of a form that is looked for. */
interface Needle {
  readonly secret: number;
  readonly form: ResidueForm;
  readonly whole: Uint8Array;
  readonly from: number;
  readonly to: number;
  /** What its presence means: the whole form; a part in itself; a part if it goes on, or began, on another page. */
  readonly kind: "whole" | "block" | "front" | "back";
}

/** A form of at least this many bytes is found although it lies across two pages. */
const cutBytesMin = 16;
/**
 * A form of more bytes is looked for in blocks: as the rest of a page is longer than one, no cut spoils all of them.
 */
const blockBytesMin = 1024;
const blockBytes = 512;
/** A page of a row that goes on begins with the number of the next one. */
const pageNumberBytes = 4;
const keyBytes = 4;
const filterBits = 18;

/** Bytes around a window that a search wants to see. */
export const contextBytes = blockBytesMin + pageNumberBytes;

/** Whether the text is long enough to be looked for without finding everything. */
export function isSecret(text: string): boolean {
  return Buffer.byteLength(text) >= limits.residueSecretBytesMin;
}

export class Needles {
  readonly #byKey = new Map<number, Needle[]>();
  /** Which keys there may be, so that most bytes cost one look. */
  readonly #filter = new Uint8Array(2 ** filterBits);

  constructor(secrets: readonly string[]) {
    for (const [secret, text] of secrets.entries()) {
      assert(isSecret(text), "a secret is long enough to be looked for");
      for (const [form, whole] of listForms(text))
        for (const part of cutIntoBlocks(form, whole)) this.#add({ secret, form, whole, ...part });
    }
  }

  #add(needle: Needle): void {
    const key = Buffer.from(needle.whole.buffer, needle.whole.byteOffset).readInt32BE(needle.from);
    this.#filter[filterPlace(key)] = 1;
    const others = this.#byKey.get(key);
    if (others) others.push(needle);
    else this.#byKey.set(key, [needle]);
  }

  /**
   * Visits every match that begins at `from` or after it and before `to`; looks at `contextBytes` around when they are
   * there.
   */
  find(bytes: Uint8Array, from: number, to: number, pageOffset: PageOffset, visit: (match: Match) => void): void {
    const end = Math.min(to, bytes.length - keyBytes + 1);
    const filter = this.#filter;
    let key = 0;
    for (let at = from; at < Math.min(from + keyBytes - 1, bytes.length); at++) key = (key << 8) | bytes[at]!;
    for (let at = from; at < end; at++) {
      key = (key << 8) | bytes[at + keyBytes - 1]!;
      if (filter[filterPlace(key)] === 0) continue;
      for (const needle of this.#byKey.get(key) ?? []) {
        if (liesAt(bytes, at, needle, pageOffset))
          visit({ secret: needle.secret, form: needle.form, offset: at, isWhole: needle.kind === "whole" });
      }
    }
  }
}

/** The high bits of a product with an odd number near 2^32 / golden ratio, which all bits of the key reach. */
function filterPlace(key: number): number {
  return Math.imul(key, 0x9e3779b1) >>> (32 - filterBits);
}

function liesAt(bytes: Uint8Array, at: number, needle: Needle, pageOffset: PageOffset): boolean {
  const { whole, from, to, kind } = needle;
  for (let index = from; index < to; index++) if (bytes[at + index - from] !== whole[index]) return false;
  if (kind === "whole" || kind === "block") return true;
  if (!pageOffset) return false;
  return kind === "front" ? goesOn(bytes, at, needle, pageOffset) : beganBefore(bytes, at, needle, pageOffset);
}

/**
 * Whether the row is cut somewhere between the needle's end and the end of what is equal: by a page's end, or by the
 * number of the next page.
 */
function goesOn(bytes: Uint8Array, at: number, { whole, to }: Needle, pageOffset: (offset: number) => number): boolean {
  for (let cut = to; cut < whole.length; cut++) {
    const next = at + cut;
    if (pageOffset(next - 1) === pageBytes - 1) return true;
    if (next + pageNumberBytes <= bytes.length) {
      const page = Buffer.from(bytes.buffer, bytes.byteOffset + next, pageNumberBytes).readUInt32BE();
      if (page >= 1 && page <= limits.databasePagesMax) return true;
    }
    if (bytes[next] !== whole[cut]) return false;
  }
  // All of it is there, and is found as such.
  return false;
}

/** Whether what is equal reaches back to where a page of a row that goes on begins. */
function beganBefore(
  bytes: Uint8Array,
  at: number,
  { whole, from }: Needle,
  pageOffset: (offset: number) => number,
): boolean {
  const before = pageOffset(at) - pageNumberBytes;
  if (before < 0 || before >= from || before > at) return false;
  for (let back = 1; back <= before; back++) if (bytes[at - back] !== whole[from - back]) return false;
  return true;
}

function cutIntoBlocks(form: ResidueForm, whole: Uint8Array): Pick<Needle, "from" | "to" | "kind">[] {
  if (whole.length > blockBytesMin) {
    return Array.from({ length: Math.floor(whole.length / blockBytes) }, (_, block) => ({
      from: block * blockBytes,
      to: (block + 1) * blockBytes,
      kind: "block",
    }));
  }
  const entire = { from: 0, to: whole.length, kind: "whole" } as const;
  // No database of ours holds UTF-16, whose zero bytes would pass for the numbers of pages.
  if (whole.length < cutBytesMin || form === "utf-16") return [entire];
  const middle = Math.ceil(whole.length / 2);
  return [
    entire,
    { from: 0, to: middle, kind: "front" },
    { from: whole.length - middle, to: whole.length, kind: "back" },
  ];
}

/** Every form of the text, none twice. */
function listForms(text: string): [ResidueForm, Uint8Array][] {
  const forms = new Map<string, [ResidueForm, Uint8Array]>();
  const add = (form: ResidueForm, bytes: Buffer): void => {
    const name = bytes.toString("latin1");
    if (!forms.has(name)) forms.set(name, [form, bytes]);
  };
  add("text", Buffer.from(text));
  add("utf-16", Buffer.from(text, "utf16le"));
  add("utf-16", Buffer.from(text, "utf16le").swap16());
  const escaped = JSON.stringify(text).slice(1, -1);
  for (const json of [escaped, ...listEscapes(escaped, /[^\0-\x7f]/g), ...listEscapes(text, /[^]/g)])
    add("json", Buffer.from(json));
  for (const plain of [text, escaped])
    for (const base64 of listBase64Forms(Buffer.from(plain))) add("base64", Buffer.from(base64));
  for (const floats of encodeVectors(text)) add("float32", floats);
  return [...forms.values()];
}

/** With each unit that the pattern finds as `\uXXXX`, in small and in capital digits. */
function listEscapes(text: string, pattern: RegExp): string[] {
  const hex = (unit: string): string => unit.charCodeAt(0).toString(16).padStart(4, "0");
  return [
    text.replace(pattern, (unit) => `\\u${hex(unit)}`),
    text.replace(pattern, (unit) => `\\u${hex(unit).toUpperCase()}`),
  ];
}

/** The digits that are sure wherever the bytes begin in a group of three, whatever is before and after them. */
function listBase64Forms(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((before) => {
    const first = Math.ceil((before * 8) / 6);
    const end = Math.floor(((before + bytes.length) * 8) / 6);
    const digits = Buffer.concat([Buffer.alloc(before), bytes])
      .toString("base64")
      .slice(first, end);
    return [digits, digits.replaceAll("+", "-").replaceAll("/", "_")];
  });
}

/**
 * The numbers as 32-bit floats, as given and of length 1, when the text is a JSON array of numbers that are not all
 * zero.
 */
function encodeVectors(text: string): Buffer[] {
  const numbers = numbersIn(text);
  const length = Math.hypot(...numbers);
  if (!(length > 0 && length < Infinity)) return [];
  return [numbers, numbers.map((number) => number / length)].map((row) => {
    const floats = Buffer.alloc(row.length * Float32Array.BYTES_PER_ELEMENT);
    for (const [index, number] of row.entries()) floats.writeFloatLE(number, index * Float32Array.BYTES_PER_ELEMENT);
    return floats;
  });
}

function numbersIn(text: string): number[] {
  if (!text.startsWith("[")) return [];
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && value.every((one) => typeof one === "number" && Number.isFinite(Math.fround(one)))
      ? (value as number[])
      : [];
  } catch {
    // Text that only begins like an array.
    return [];
  }
}
