/**
 * Large answers on the wires whose messages hold any JSON as google.protobuf.Value: made ready piece by piece, as the
 * library encodes a message at once.
 *
 * Always true: what the library is handed takes it some hundred milliseconds at most; an answer of more values is
 * refused, and is available over REST, where such fields are their texts. Must not know what an answer means.
 */
import type { Message } from "@bufbuild/protobuf";
import { assert } from "../../base/faults/assert.ts";
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { turn, type World } from "../../base/world.ts";
import { carriedJson } from "../../service/call/exact-json.ts";

/** Answers with more JSON than this are made ready piece by piece where it becomes messages. */
const encodedAtOnceChars = 32 * 1024;

/** @throws ServiceError `invalid_request` when the answer holds more than can be encoded at once. */
export async function prepareAnswer(message: Message, world: Pick<World, "soon">): Promise<void> {
  let values = 0;
  let chars = 0;
  for (const { text, prepare } of carriedJson(message)) {
    chars += text.length;
    // Almost all answers are small, and made when the library reads them.
    if (chars <= encodedAtOnceChars) continue;
    values += countValues(text, limits.encodedValuesMax - values);
    if (values > limits.encodedValuesMax) {
      throw invalid(
        `the answer holds more than ${limits.encodedValuesMax} values of any JSON, which these wires cannot ` +
          "carry in one: ask for less at once, or over REST",
      );
    }
    await turn(world);
    prepare();
  }
}

/**
 * How many values a text of JSON has at most, without what is inside strings; no more than one beyond `max` are
 * counted.
 */
function countValues(text: string, max: number): number {
  const signs = /[",[{]/g;
  let values = 1;
  while (values <= max && signs.test(text)) {
    if (text[signs.lastIndex - 1] === '"') signs.lastIndex = findStringEnd(text, signs.lastIndex);
    else values++;
  }
  return values;
}

/** Where the string ends whose text begins at `from`. */
function findStringEnd(text: string, from: number): number {
  for (let at = from; ; at++) {
    at = text.indexOf('"', at);
    assert(at >= 0, "a string of our own JSON ends");
    let slashes = 0;
    while (text[at - 1 - slashes] === "\\") slashes++;
    if (slashes % 2 === 0) return at + 1;
  }
}
