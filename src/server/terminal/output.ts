/**
 * What a command prints: tables and records for a person at a terminal, and JSON, one value a line, for a program.
 *
 * Always true: standard output holds the answer alone, remarks go to standard error; whatever comes from a node is made
 * visible before it is written. Must not know: commands, nodes.
 */
import type { Environment } from "../config/config.ts";
import { styleFor, type Stream, type Style } from "./style.ts";
import { recordLines, tableLines, type Column } from "./table.ts";
import { visibleJson, visibleStyled, visibleText } from "./visible-text.ts";

/** Where a command writes, and what says how. */
export interface Outlets {
  readonly env: Environment;
  readonly stdout: Stream;
  readonly stderr: Stream;
}

const widthDefault = 100;

export class Output {
  /** Whether a person reads it: a terminal, and no JSON asked for. */
  readonly isForPeople: boolean;
  /** Whether JSON was asked for by name. */
  readonly asksForJson: boolean;
  readonly style: Style;
  readonly #stdout: Stream;
  readonly #stderr: Stream;
  readonly #remarkStyle: Style;

  /** `asks` is what the flags say: JSON, tables, or as standard output is one or the other. */
  constructor({ env, stdout, stderr }: Outlets, asks: "json" | "table" | undefined) {
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.asksForJson = asks === "json";
    this.isForPeople = asks === undefined ? stdout.isTTY === true : asks === "table";
    this.style = styleFor(stdout, env);
    this.#remarkStyle = styleFor(stderr, env);
  }

  /** Columns of the terminal; where there is none, nothing is cut. */
  get width(): number {
    return this.#stdout.isTTY === true ? (this.#stdout.columns ?? widthDefault) : Infinity;
  }

  /** A value for programs, in one line. */
  json(value: unknown): void {
    this.#stdout.write(`${visibleJson(JSON.stringify(value))}\n`);
  }

  /** Lines for a person. Of what could command a terminal only colours and weights pass. */
  lines(lines: readonly string[]): void {
    for (const line of lines) this.#stdout.write(`${visibleStyled(line)}\n`);
  }

  table(columns: readonly Column[], rows: readonly (readonly string[])[]): void {
    this.lines(tableLines(columns, rows, this.width, this.style));
  }

  /** One thing, its values made of visible text already. */
  record(fields: readonly (readonly [name: string, value: string | undefined])[]): void {
    this.lines(recordLines(fields, this.style));
  }

  /** A remark for the person who gave the command. */
  remark(text: string): void {
    this.#stderr.write(`${this.#remarkStyle.faint(`palimpsest: ${visibleText(text)}`)}\n`);
  }
}
