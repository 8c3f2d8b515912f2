/**
 * Questions to the person at the terminal: yes or no, and secrets, which are not shown.
 *
 * Always true: a question is asked only where both ends are a terminal; what is typed as a secret is never written.
 */
import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import type { Stream } from "./style.ts";

/** The two ends of a terminal. */
export interface Desk {
  readonly stdin: NodeJS.ReadableStream & { readonly isTTY?: boolean };
  readonly stderr: Stream;
}

/** Whether there is somebody to ask. */
export function canAsk({ stdin, stderr }: Desk): boolean {
  return stdin.isTTY === true && stderr.isTTY === true;
}

/** Whether the answer is yes; anything but `y` and `yes` is no. */
export async function confirm(desk: Desk, question: string): Promise<boolean> {
  return /^y(?:es)?$/i.test((await ask(desk, `${question} [y/N] `, true)).trim());
}

/** What is typed, which nobody sees. */
export async function askSecret(desk: Desk, question: string): Promise<string> {
  const typed = await ask(desk, question, false);
  desk.stderr.write("\n");
  return typed.trim();
}

async function ask({ stdin, stderr }: Desk, question: string, isShown: boolean): Promise<string> {
  stderr.write(question);
  // The terminal's own echo is off while readline reads; what it would write itself goes nowhere where it is secret.
  const output = new Writable({
    write(chunk: Buffer, _encoding, done) {
      if (isShown) stderr.write(chunk.toString());
      done();
    },
  });
  const reader = createInterface({ input: stdin, output, terminal: true, historySize: 0 });
  const closed = Promise.withResolvers<string>();
  // The end of the input, or Ctrl-C, is no answer.
  reader.once("close", () => closed.resolve(""));
  try {
    return await Promise.race([reader.question(""), closed.promise]);
  } finally {
    reader.close();
  }
}
