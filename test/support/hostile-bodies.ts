/**
 * Bodies of an ingest that no honest client sends, each of about `bytes`: what a parser or a decoder is slowest with.
 */

const MiB = 1 << 20;

function repeated(unit: string, bytes: number): string {
  return unit.repeat(Math.max(1, Math.floor(bytes / unit.length)));
}

function list(unit: string, bytes: number): string {
  return `[${repeated(`${unit},`, bytes)}${unit}]`;
}

const memory = (content: string): string => `{"type":"fact","summary":"s","content":${content}}`;
const largeMap = (members: number): string => `{${Array.from({ length: members }, (_, at) => `"k${at}":1`).join(",")}}`;

/** As JSON, in which each is the body of REST; Connect's begins with the address. */
export function hostileTexts(bytes: number): readonly (readonly [string, string])[] {
  return [
    ["empty objects", `{"memories":${list("{}", bytes)}}`],
    ["empty arrays", `{"memories":${list("[]", bytes)}}`],
    ["ones", `{"memories":${list("1", bytes)}}`],
    ["an array of arrays as content", `{"memories":[${memory(list("[]", bytes))}]}`],
    [
      "contents of arrays just below a mebibyte",
      `{"memories":[${Array(Math.ceil(bytes / MiB))
        .fill(memory(list("[]", 0.9 * MiB)))
        .join(",")}]}`,
    ],
    [
      "contents of many fields",
      `{"memories":[${Array(Math.ceil(bytes / MiB))
        .fill(memory(largeMap(80_000)))
        .join(",")}]}`,
    ],
    ["nesting", `{"memories":[${memory(repeated("[", bytes))}]}`],
    ["nesting of objects", `{"memories":[${memory(repeated('{"a":', bytes))}]}`],
    ["a huge map", `{"memories":[${memory(largeMap(bytes / 16))}]}`],
    ["a huge map of the body", largeMap(bytes / 16)],
    ["escapes", `{"memories":[${memory(`"${repeated("\\u00e9", bytes)}"`)}]}`],
    [
      "escapes of just below what one element may have",
      `{"memories":[${memory(`"${repeated("\\u00e9", Math.min(bytes, 7.9 * MiB))}"`)}]}`,
    ],
    ["escaped quotes", `{"memories":[${memory(`"${repeated('\\"', bytes)}"`)}]}`],
    ["a number of many digits", `{"memories":[${memory(repeated("9", bytes))}]}`],
    ["a number of a mebibyte of digits", `{"memories":[${memory(repeated("9", MiB))}]}`],
    ["many large integers", `{"memories":[${memory(list("12345678901234567890", bytes))}]}`],
    [
      "large integers in a thousand contents",
      `{"memories":[${Array(1000)
        .fill(memory(list("12345678901234567890", bytes / 1500)))
        .join(",")}]}`,
    ],
    ["spaces", `{"memories":[${repeated(" ", bytes)}]}`],
    ["the same list twice", `{"memories":${list("{}", bytes / 2)},"memories":${list("{}", bytes / 2)}}`],
    ["a list at the top", list("{}", bytes)],
    ["no JSON at all", repeated('}],:"', bytes)],
  ];
}

/** A field of the number that holds the bytes. */
export function field(number: number, bytes: Uint8Array): Buffer {
  const head: number[] = [];
  const put = (given: number): void => {
    let value = given;
    for (; value > 127; value >>>= 7) head.push((value & 127) | 128);
    head.push(value);
  };
  put((number << 3) | 2);
  put(bytes.length);
  return Buffer.concat([Buffer.from(head), bytes]);
}

const times = (unit: Uint8Array, bytes: number): Buffer =>
  Buffer.alloc(Math.max(1, Math.floor(bytes / unit.length)) * unit.length, unit);
const none = Buffer.alloc(0);
const content = (value: Uint8Array): Buffer => field(4, field(3, value));

function nested(levels: number): Buffer {
  let value: Buffer = none;
  for (let level = 0; level < levels; level++) value = field(6, field(1, value));
  return value;
}

/** As protobuf, without the address. */
export function hostileMessages(bytes: number): readonly (readonly [string, Buffer])[] {
  const numberValue = Buffer.from([0x11, 0, 0, 0, 0, 0, 0, 0, 0]);
  return [
    ["empty memories", times(field(4, none), bytes)],
    ["empty values in one content", content(field(6, times(field(1, none), bytes)))],
    ["empty lists in one content", content(field(6, times(field(1, field(6, none)), bytes)))],
    [
      "lists in many contents",
      Buffer.concat(
        Array(Math.ceil((bytes / MiB) * 4)).fill(content(field(6, times(field(1, field(6, none)), 0.1 * MiB)))),
      ),
    ],
    [
      "numbers in many contents",
      Buffer.concat(Array(Math.ceil(bytes / MiB)).fill(content(field(6, times(field(1, numberValue), 0.9 * MiB))))),
    ],
    [
      "fields of one struct",
      content(
        field(5, times(field(1, Buffer.concat([field(1, Buffer.from("k")), field(2, Buffer.from([0x20, 1]))])), bytes)),
      ),
    ],
    ["nesting", content(nested(20_000))],
    ["unknown fields", times(field(99, none), bytes)],
    ["unknown numbers", times(Buffer.from([0x98, 0x06, 1]), bytes)],
    ["a profile again and again", times(field(2, Buffer.from("b")), bytes)],
    ["numbers of an embedding", field(4, field(6, field(1, Buffer.alloc(bytes & ~3))))],
    ["a group", times(Buffer.from([0x23, 0x24]), bytes)],
    ["zeros", Buffer.alloc(bytes)],
    ["a length that lies", Buffer.concat([Buffer.from([0x22, 0xff, 0xff, 0xff, 0x0f]), Buffer.alloc(MiB)])],
    ["a memory by the wrong wire type", times(Buffer.from([0x20, 2, 0x0a, 0]), bytes)],
  ];
}
