/**
 * Colours and weights of what a person reads: there on a terminal, and never anywhere else.
 *
 * Always true: without colours every function gives its text as it is, except that what is highlighted stands in
 * brackets. NO_COLOR switches them off, FORCE_COLOR on (https://no-color.org).
 */
import { styleText } from "node:util";
import type { Environment } from "../config/config.ts";

type Paint = (text: string) => string;

/** How texts are shown. They must be visible text already. */
export interface Style {
  readonly strong: Paint;
  readonly faint: Paint;
  readonly good: Paint;
  readonly bad: Paint;
  readonly warned: Paint;
  readonly named: Paint;
  /** A word that was looked for. */
  readonly matched: Paint;
}

/** Where something is written, as far as it matters here. */
export interface Stream {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string, told?: (error?: Error | null) => void): unknown;
}

const plain: Style = {
  strong: (text) => text,
  faint: (text) => text,
  good: (text) => text,
  bad: (text) => text,
  warned: (text) => text,
  named: (text) => text,
  matched: (text) => `[${text}]`,
};

const paint = (format: Parameters<typeof styleText>[0]): Paint => {
  return (text) => styleText(format, text, { validateStream: false });
};

const coloured: Style = {
  strong: paint("bold"),
  faint: paint("dim"),
  good: paint("green"),
  bad: paint("red"),
  warned: paint("yellow"),
  named: paint("cyan"),
  matched: paint(["bold", "yellow", "underline"]),
};

/** The style for a stream. */
export function styleFor(stream: Stream, env: Environment): Style {
  if (env["NO_COLOR"]) return plain;
  const forced = env["FORCE_COLOR"];
  if (forced) return forced === "0" ? plain : coloured;
  return stream.isTTY === true && env["TERM"] !== "dumb" ? coloured : plain;
}
