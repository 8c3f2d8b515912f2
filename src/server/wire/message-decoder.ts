/**
 * From the bytes of a body to its message, whatever they are and however many: at once when they are few, otherwise in
 * pieces between which all others have their turn.
 *
 * Always true: no step takes more than some tens of milliseconds, whatever the bytes hold; a large body is judged by
 * the same rules as a small one, and refused with the same words but for the place where it stops being JSON.
 */
import { create, type DescField, type DescMessage, type Message, mergeFromBinary } from "@bufbuild/protobuf";
import { assert } from "../../base/faults/assert.ts";
import { decodeUtf8 } from "../../base/bytes.ts";
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { turn, type World } from "../../base/world.ts";
import { jsonElements, getJsonKind, keepTexts, parseExact, setJsonElements } from "../../service/call/exact-json.ts";
import { cutJson, type CutList, type Piece } from "./json-cut.ts";
import type { BodyDecoder } from "./json-decoder.ts";
import { cutMessage, malformed } from "./proto-cut.ts";

/** Values of a text that is read for every digit, which takes ten times as long: 30 ms. */
const exactValuesMax = 50_000;

type KeyedMutex = Pick<World, "soon">;

/** What a body of JSON is decoded with. */
export interface JsonForm {
  readonly decoder: BodyDecoder;
  /** What is no list's element may have this many bytes: more than usual where a method's one value is raw bytes. */
  readonly frameBytesMax: number;
}

/**
 * Decodes JSON into a message of `make`, which is asked again when digits were lost in the first reading.
 * @throws ServiceError `invalid_request`.
 */
export function decodeJson(
  bytes: Buffer,
  form: JsonForm,
  make: () => Message,
  world: KeyedMutex,
): Message | Promise<Message> {
  if (bytes.length > limits.decodedAtOnceBytes) return decodeLargeJson(bytes, form, make, world);
  // No body is one without fields.
  return decodeText(bytes.length === 0 ? "{}" : toText(bytes), form.decoder, make);
}

async function decodeLargeJson(
  bytes: Buffer,
  { decoder, frameBytesMax }: JsonForm,
  make: () => Message,
  world: KeyedMutex,
): Promise<Message> {
  const { lists, frame } = await cutJson(bytes, (name) => decoder.lists.has(name), frameBytesMax, world);
  const text = toText(frame);
  await turn(world);
  const message = decodeText(text, decoder, make);
  for (const list of lists) await addList(message, bytes, list, decoder, world);
  return message;
}

async function addList(
  message: Message,
  bytes: Buffer,
  { name, pieces }: CutList,
  decoder: BodyDecoder,
  world: KeyedMutex,
): Promise<void> {
  const reader = decoder.lists.get(name)!;
  const texts: string[] = [];
  for (const piece of pieces) {
    await turn(world);
    const text = `[${toText(bytes.subarray(piece.start, piece.end))}]`;
    const elements = checkElements(text, name, piece, parse(text, JSON.parse));
    if (piece.end - piece.start > limits.pieceBytes) await turn(world);
    if (reader.add(message, elements, piece.first, texts)) continue;
    await turn(world);
    checkExactWork(text, `${name}[${piece.first}]`);
    reader.add(message, parse(text, parseExact) as unknown[], piece.first, texts, true);
  }
  reader.end(message, texts);
}

/** The elements of a piece. One that has not as many as there are commas was cut from what is no JSON. */
function checkElements(text: string, name: string, { first, count }: Piece, elements: unknown): readonly unknown[] {
  const found = (elements as unknown[]).length;
  const isEmptyList = found === 0 && first === 0 && count === 1 && text.length > 0;
  if (found !== count && !isEmptyList) throw invalid(`the body is not JSON: it goes wrong at ${name}[${first}]`);
  return elements as unknown[];
}

function decodeText(text: string, decoder: BodyDecoder, make: () => Message): Message {
  const message = make();
  if (decoder.decode(message, parse(text, JSON.parse))) return message;
  checkExactWork(text, "the body");
  const exact = make();
  decoder.decode(exact, parse(text, parseExact));
  return exact;
}

/** Reading every digit asks the language for each value one by one. */
function checkExactWork(text: string, place: string): void {
  if (text.length <= limits.decodedAtOnceBytes) return;
  let values = 0;
  for (let at = text.indexOf(","); at >= 0; at = text.indexOf(",", at + 1)) values++;
  for (let at = text.indexOf("["); at >= 0; at = text.indexOf("[", at + 1)) values++;
  if (values > exactValuesMax)
    throw invalid(
      `${place} holds an integer beyond 2^53, and more than ${exactValuesMax} values around it: send ` +
        "it in parts, or that integer as a string",
    );
}

function toText(bytes: Buffer): string {
  const text = decodeUtf8(bytes);
  if (text === undefined) throw invalid("the body is not UTF-8");
  return text;
}

function parse(text: string, parser: (text: string) => unknown): unknown {
  try {
    return parser(text);
  } catch (error) {
    assert(error instanceof SyntaxError, "a parser of JSON throws SyntaxErrors only");
    // The parser's own words quote the body; the position says as much and quotes nothing.
    const position = /at position (\d+)/.exec(error.message)?.[1];
    throw invalid(`the body is not JSON${position === undefined ? "" : `: it goes wrong at character ${position}`}`);
  }
}

// The library's 100 levels are fewer than JSON of the depth that we take; what no field is known for is not kept.
const binaryOptions = { recursionLimit: limits.messageDepthMax, readUnknownFields: false };

/** Decodes the protobuf binary form. @throws ServiceError `invalid_request`. */
export function decodeBinary(bytes: Uint8Array, type: DescMessage, world: KeyedMutex): Message | Promise<Message> {
  if (bytes.length > limits.decodedAtOnceBytes) return decodeLargeBinary(bytes, type, world);
  const message = create(type);
  merge(type, message, bytes);
  return message;
}

async function decodeLargeBinary(bytes: Uint8Array, type: DescMessage, world: KeyedMutex): Promise<Message> {
  const message = create(type);
  const keepers = type.fields.flatMap((field) => buildKeeper(field, message) ?? []);
  let start = 0;
  for (const end of cutMessage(type, bytes)) {
    await turn(world);
    merge(type, message, bytes.subarray(start, end));
    for (const keeper of keepers) keeper.keep();
    start = end;
  }
  for (const keeper of keepers) keeper.end();
  return message;
}

/**
 * Turns what was merged of a list into the form that is worked with, piece by piece, so that it need not be done at
 * once.
 */
interface Keeper {
  keep(): void;
  end(): void;
}

function buildKeeper(field: DescField, message: Message): Keeper | undefined {
  if (field.fieldKind !== "list" || field.message === undefined) return undefined;
  const name = field.localName;
  const properties = message as Message & Record<string, Message[]>;
  if (getJsonKind(field) === undefined) {
    let kept = 0;
    return {
      keep: () => {
        for (const list = properties[name]!; kept < list.length; kept++) keepTexts(list[kept]!);
      },
      end: () => {},
    };
  }
  const texts: string[] = [];
  return {
    keep: () => {
      if (properties[name]!.length === 0) return;
      texts.push(...jsonElements(message, name));
      properties[name] = [];
    },
    end: () => setJsonElements(message, name, texts),
  };
}

function merge(type: DescMessage, message: Message, bytes: Uint8Array): void {
  try {
    mergeFromBinary(type, message, bytes, binaryOptions);
  } catch {
    // What the decoder says of malformed bytes concerns bytes; a fault of ours cannot be told from it, and tests look
    // for those.
    throw malformed(type);
  }
}
