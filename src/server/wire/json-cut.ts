/**
 * Where a large JSON body can be cut, found by looking over its bytes before anything is parsed.
 *
 * Why: JSON.parse of a whole body holds the thread that serves all callers for as long as it takes, which is seconds
 * for 32 MiB of `{}`. What is large in an honest request is a list of its own, so the elements of those are parsed in
 * pieces, and what no honest request has is refused before a parser sees it: too much in one element, or in all. Always
 * true: the look takes a bounded time for each step; pieces hold whole elements, in order, and nothing is left out of
 * them and the frame together, so that a body is JSON if and only if its frame and all its pieces are. It must not know
 * fields; it does not judge whether the text is JSON, and what is none is cut somehow.
 */
import { invalid, type ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { turn, type World } from "../../base/world.ts";
import { printableName } from "./json-scalars.ts";

/** Arrays and objects within each other, where any JSON may be 64 levels deep and is some levels below the body. */
const nestedMax = 80;
/** Names of members beyond this are no field's. */
const memberNameBytesMax = 1024;
/** Larger ones are looked through this much at a time. */
const scanBytes = 512 * 1024;

/**
 * Some elements of a list that follow each other; `start` and `end` in the body's bytes, commas between them included.
 */
export interface Piece {
  readonly start: number;
  readonly end: number;
  /** Index of the first element. */
  readonly first: number;
  readonly count: number;
}

/** A list directly in the body's object, and how it is cut. */
export interface CutList {
  readonly name: string;
  readonly pieces: readonly Piece[];
}

/** The body's lists, and what is left of it with these empty. */
export interface JsonCut {
  readonly lists: readonly CutList[];
  readonly frame: Buffer;
}

/**
 * Cuts the lists that `isCut` names; what is left may have `frameBytesMax` bytes.
 * @throws ServiceError `invalid_request` when the body holds too much to be decoded.
 */
export async function cutJson(
  body: Buffer,
  isCut: (name: string) => boolean,
  frameBytesMax: number,
  world: Pick<World, "soon">,
): Promise<JsonCut> {
  const look = new Look(body, isCut, frameBytesMax);
  for (let end = scanBytes; look.run(Math.min(end, body.length)); end += scanBytes) await turn(world);
  return look.result();
}

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const colon = 0x3a;
const openList = 0x5b;
const closeList = 0x5d;
const openObject = 0x7b;
const closeObject = 0x7d;

/** Work in units of about 15 ns: what JSON.parse and the look at its result take, by the sign that represents it. */
const containerWork = 4;
const memberWork = 12;
const elementWork = 1;

/** A list that is being cut. */
class Cutting {
  readonly name: string;
  readonly from: number;
  readonly pieces: Piece[] = [];
  start: number;
  first = 0;
  index = 0;
  /** Of the piece so far; of the element so far. */
  pieceWork = 0;
  elementStart: number;

  constructor(name: string, from: number) {
    this.name = name;
    this.from = from;
    this.start = from;
    this.elementStart = from;
  }
}

class Look {
  readonly #body: Buffer;
  readonly #isCut: (name: string) => boolean;
  readonly #frameBytesMax: number;
  readonly #lists = new Map<string, CutList & { readonly from: number; readonly to: number }>();
  #at = 0;
  #depth = 0;
  #isInText = false;
  #textStart = 0;
  /** Of all, of the frame, of the element of a list that is being looked at. */
  #totalWork = 0;
  #frameWork = 0;
  #elementWork = 0;
  /** The last text at the depth of the body's own members: the name, when a colon follows. */
  #lastText: readonly [number, number] = [0, 0];
  #name = "";
  #isNamed = false;
  #cutting: Cutting | undefined;

  constructor(body: Buffer, isCut: (name: string) => boolean, frameBytesMax: number) {
    this.#body = body;
    this.#isCut = isCut;
    this.#frameBytesMax = frameBytesMax;
  }

  /** Looks on up to `end`; whether there is more. */
  run(end: number): boolean {
    const body = this.#body;
    let at = this.#at;
    while (at < end) {
      if (this.#isInText) {
        at = this.#passText(at, end);
        continue;
      }
      const sign = body[at]!;
      if (sign === quote) {
        this.#isInText = true;
        this.#textStart = at;
      } else if (sign === comma) this.#comma(at);
      else if (sign === colon) this.#colon();
      else if (sign === openList || sign === openObject) this.#open(at, sign);
      else if (sign === closeList || sign === closeObject) this.#close(at);
      at++;
    }
    this.#at = at;
    return at < body.length;
  }

  result(): JsonCut {
    const lists = [...this.#lists.values()].toSorted((one, other) => one.from - other.from);
    const parts: Buffer[] = [];
    let from = 0;
    for (const list of lists) {
      parts.push(this.#body.subarray(from, list.from));
      from = list.to;
    }
    parts.push(this.#body.subarray(from));
    const frame = Buffer.concat(parts);
    if (frame.length > this.#frameBytesMax)
      throw invalid(`the body holds more than ${this.#frameBytesMax} bytes in one: send it in parts`);
    return { lists: lists.map(({ name, pieces }) => ({ name, pieces })), frame };
  }

  /** Passes over a text, or the part of it up to `end`. */
  #passText(from: number, end: number): number {
    const body = this.#body;
    let at = from;
    while (at < end) {
      const sign = body[at]!;
      if (sign === quote) {
        this.#isInText = false;
        if (this.#depth === 1) this.#lastText = [this.#textStart, at + 1];
        return at + 1;
      }
      at += sign === backslash ? 2 : 1;
    }
    return at;
  }

  #comma(at: number): void {
    this.#charge(elementWork);
    const cutting = this.#cutting;
    if (cutting && this.#depth === 2) this.#endElement(cutting, at);
    if (this.#depth === 1) this.#isNamed = false;
  }

  #colon(): void {
    this.#charge(memberWork);
    if (this.#depth !== 1 || this.#isNamed) return;
    const [start, end] = this.#lastText;
    this.#name = parseName(this.#body.subarray(start, end));
    this.#isNamed = true;
    if (this.#lists.has(this.#name)) throw invalid(`${this.#name} is given twice`);
  }

  #open(at: number, sign: number): void {
    this.#charge(containerWork);
    this.#depth++;
    if (this.#depth > nestedMax) throw invalid(`${this.#place()} is nested deeper than ${limits.jsonDepthMax} levels`);
    if (this.#depth === 2 && sign === openList && this.#isNamed && this.#isCut(this.#name)) {
      this.#cutting = new Cutting(this.#name, at + 1);
      this.#elementWork = 0;
    }
  }

  #close(at: number): void {
    const cutting = this.#cutting;
    if (cutting && this.#depth === 2) {
      this.#endElement(cutting, at);
      this.#endPiece(cutting, at);
      this.#lists.set(cutting.name, { name: cutting.name, pieces: cutting.pieces, from: cutting.from, to: at });
      this.#cutting = undefined;
    }
    this.#depth--;
  }

  #endElement(cutting: Cutting, at: number): void {
    if (at - cutting.elementStart > limits.elementBytesMax)
      throw this.#tooMuch(`is larger than ${limits.elementBytesMax} bytes`);
    cutting.pieceWork += this.#elementWork;
    this.#elementWork = 0;
    cutting.index++;
    cutting.elementStart = at + 1;
    if (cutting.index > limits.listElementsMax)
      throw invalid(`${cutting.name} has more elements than any request takes (${limits.listElementsMax})`);
    if (at - cutting.start < limits.pieceBytes && cutting.pieceWork < limits.pieceWork) return;
    this.#endPiece(cutting, at);
    cutting.start = at + 1;
    cutting.first = cutting.index;
    cutting.pieceWork = 0;
  }

  #endPiece({ pieces, start, first, index }: Cutting, end: number): void {
    if (index > first) pieces.push({ start, end, first, count: index - first });
  }

  #charge(work: number): void {
    this.#totalWork += work;
    const inOne = this.#cutting ? (this.#elementWork += work) : (this.#frameWork += work);
    if (inOne > limits.elementWorkMax) throw this.#tooMuch("holds more values than can be taken in one");
    if (this.#totalWork > limits.bodyWorkMax)
      throw invalid("the body holds more values than can be taken in one: send it in parts");
  }

  #tooMuch(what: string): ServiceError {
    return invalid(`${this.#place()} ${what}: send it in parts`);
  }

  #place(): string {
    const cutting = this.#cutting;
    if (cutting) return `${cutting.name}[${cutting.index}]`;
    return this.#isNamed && this.#name !== "" ? printableName(this.#name) : "the body";
  }
}

/** A name of a member; what is no text of JSON is no name. */
function parseName(bytes: Buffer): string {
  if (bytes.length > memberNameBytesMax) return "";
  try {
    const name: unknown = JSON.parse(bytes.toString());
    return typeof name === "string" ? name : "";
  } catch {
    return "";
  }
}
