/** What a command reads: a file that was named, or standard input where that is `-`. */
import { createReadStream } from "node:fs";
import { CommandFailure } from "./command-failure.ts";
import { fileText } from "./credential.ts";
import type { Surroundings } from "./session.ts";

/** More than any request may hold. */
const inputBytesMax = 64 * 1024 * 1024;
/** More than any memory may hold. */
const lineCharsMax = 16 * 1024 * 1024;

/** All of it. */
export async function readInput({ stdin }: Surroundings, file: string): Promise<string> {
  if (file !== "-") return fileText(file);
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of stdin) {
    const piece = Buffer.from(chunk as string | Uint8Array);
    bytes += piece.length;
    if (bytes > inputBytesMax) throw new CommandFailure(2, `standard input holds more than ${inputBytesMax} bytes`);
    chunks.push(piece);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** Line by line, however many there are. */
export async function* readLines({ stdin }: Surroundings, file: string): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder();
  let begun = "";
  try {
    for await (const chunk of file === "-" ? stdin : createReadStream(file)) {
      begun += typeof chunk === "string" ? chunk : decoder.decode(chunk as Uint8Array, { stream: true });
      const lines = begun.split("\n");
      begun = lines.pop()!;
      if (begun.length > lineCharsMax) throw new CommandFailure(2, `a line is longer than ${lineCharsMax} characters`);
      yield* lines;
    }
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (syscall === undefined) throw error;
    throw new CommandFailure(2, `${file} cannot be read: ${code ?? "fault"}`);
  }
  begun += decoder.decode();
  if (begun !== "") yield begun;
}
