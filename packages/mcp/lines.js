/**
 * Lines of a stream, as long as a message may be.
 *
 * Always true: no more of a line is held than a message may have; of a longer one the rest is passed over, and the next
 * line is read as ever. Must not know: what a line holds.
 */

/** More than a node takes in one message. */
export const lineBytesMax = 4 * 1024 * 1024;

/**
 * Resolves when the stream has ended.
 *
 * @param {import("node:stream").Readable} stream
 * @param {{ take(line: string): void, tooLong(bytesMax: number): void }} reader
 * @returns {Promise<void>}
 */
export async function readLines(stream, reader) {
  /** @type {Buffer[]} */
  let parts = [];
  let bytes = 0;
  const end = () => {
    if (bytes > lineBytesMax) reader.tooLong(lineBytesMax);
    else {
      const line = Buffer.concat(parts).toString("utf8").trim();
      if (line !== "") reader.take(line);
    }
    parts = [];
    bytes = 0;
  };
  const add = (/** @type {Buffer} */ part) => {
    bytes += part.length;
    if (bytes <= lineBytesMax) parts.push(part);
    else parts = [];
  };
  for await (const chunk of stream) {
    let start = 0;
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, start)) {
      add(chunk.subarray(start, at));
      end();
      start = at + 1;
    }
    add(chunk.subarray(start));
  }
  end();
}
