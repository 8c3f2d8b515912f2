/**
 * How far long work has come, in one line of standard error that is written over.
 *
 * Always true: nothing is written where that is no terminal, and the line is gone before anything else is written.
 */
import type { World } from "../../base/world.ts";
import type { Stream } from "./style.ts";
import { cutText, visibleText } from "./visible-text.ts";

/** A person sees no more than this. */
const everyMs = 100;
const widthDefault = 80;

export class Progress {
  readonly #stream: Stream;
  readonly #world: Pick<World, "monotonicMs">;
  #toldAtMs = Number.NEGATIVE_INFINITY;
  #isThere = false;

  constructor(stream: Stream, world: Pick<World, "monotonicMs">) {
    this.#stream = stream;
    this.#world = world;
  }

  /** Tells it, unless something was told a moment ago. */
  tell(text: string): void {
    const nowMs = this.#world.monotonicMs();
    if (this.#stream.isTTY !== true || nowMs - this.#toldAtMs < everyMs) return;
    this.#toldAtMs = nowMs;
    this.#isThere = true;
    this.#stream.write(`\r\x1b[K${cutText(visibleText(text), (this.#stream.columns ?? widthDefault) - 1)}`);
  }

  /** Takes the line away. */
  clear(): void {
    if (this.#isThere) this.#stream.write("\r\x1b[K");
    this.#isThere = false;
    this.#toldAtMs = Number.NEGATIVE_INFINITY;
  }
}
