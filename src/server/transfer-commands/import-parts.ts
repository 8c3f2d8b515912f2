/**
 * The lines of an export's file, a part at a time, decompressed as its name says.
 *
 * Always true: a part is whole lines. Must not know: what stands in them, nodes.
 */
import { createReadStream } from "node:fs";
import { pipeline, type Transform } from "node:stream";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { CommandFailure } from "../client-session/command-failure.ts";

export interface Part {
  readonly bytes: Uint8Array;
  readonly lines: number;
}

/** Bytes of a part, unless a line has more. */
export const partBytes = 2 * 1024 * 1024;

const lineFeed = 10;

export async function* fileParts(file: string): AsyncGenerator<Part, void, undefined> {
  let held: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of chunksOf(file)) {
    held.push(chunk);
    bytes += chunk.length;
    if (bytes < partBytes) continue;
    const all = Buffer.concat(held);
    const end = all.lastIndexOf(lineFeed) + 1;
    if (end > 0) yield toPart(all.subarray(0, end));
    held = [all.subarray(end)];
    bytes = all.length - end;
  }
  const rest = Buffer.concat(held);
  if (rest.length > 0) yield toPart(rest);
}

async function* chunksOf(file: string): AsyncGenerator<Buffer, void, undefined> {
  const unpacker = unpackerOf(file);
  const read = createReadStream(file);
  // What becomes of it is told by the stream that is read here.
  const stream = unpacker === undefined ? read : pipeline(read, unpacker, () => {});
  try {
    for await (const chunk of stream) yield chunk as Buffer;
  } catch (error) {
    throw new CommandFailure(2, `${file} cannot be read: ${(error as NodeJS.ErrnoException).code ?? "fault"}`);
  }
}

function unpackerOf(file: string): Transform | undefined {
  if (file.endsWith(".gz")) return createGunzip();
  return file.endsWith(".zst") ? createZstdDecompress() : undefined;
}

export function toPart(bytes: Uint8Array): Part {
  let lines = bytes.at(-1) === lineFeed ? 0 : 1;
  for (let at = bytes.indexOf(lineFeed); at >= 0; at = bytes.indexOf(lineFeed, at + 1)) lines++;
  return { bytes, lines };
}
