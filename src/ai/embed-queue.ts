/**
 * Texts that wait for a model that takes one after the other, and whose turn it is.
 *
 * Always true:
 * - questions come before what is written, whoever came first: a recall never waits behind a bulk of writes
 * - calls of one kind take turns, a few texts each: a call with few texts does not wait for one with many
 * - what waits is bounded, in texts; a call whose time is over has no text here
 *
 * Must not know: what makes the vectors, clocks.
 */
import type { EmbedUse } from "./embedding-models.ts";

/**
 * Texts of each kind that may wait, of 8 KiB each at most: ten times what a core can do while a write waits for it.
 */
export const embedWaitingTextsMax = 4_096;
/** A group: what the model is given at once, and so what a question may have to wait for. */
export const embedGroupTextsMax = 8;
/** Letters of a group of several: as many as the model looks at in a long text of its own, some 256 tokens. */
const embedGroupLettersMax = 1_024;

/** Texts of one caller. */
export interface EmbedCall {
  readonly texts: readonly string[];
  readonly use: EmbedUse;
  /** The first text that was not handed out. */
  next: number;
}

/** A text of a call. */
export interface EmbedItem<Call extends EmbedCall> {
  readonly call: Call;
  readonly at: number;
}

export class EmbedQueue<Call extends EmbedCall> {
  /** In the order of their turns. */
  readonly #calls: Readonly<Record<EmbedUse, Set<Call>>> = { query: new Set(), document: new Set() };
  readonly #waiting: Record<EmbedUse, number> = { query: 0, document: 0 };

  /** Texts that wait. */
  get waiting(): number {
    return this.#waiting.query + this.#waiting.document;
  }

  /** Lets a call wait, or says no where too much of its kind does. */
  offer(call: Call): boolean {
    const { use, texts } = call;
    if (this.#waiting[use] + texts.length > embedWaitingTextsMax) return false;
    this.#waiting[use] += texts.length;
    this.#calls[use].add(call);
    return true;
  }

  /** The next texts, of several calls; none when none waits. */
  take(): EmbedItem<Call>[] {
    const use = this.#waiting.query > 0 ? "query" : "document";
    const calls = this.#calls[use];
    const items: EmbedItem<Call>[] = [];
    for (let letters = 0; items.length < embedGroupTextsMax;) {
      const call = calls.values().next().value;
      if (call === undefined) break;
      letters += call.texts[call.next]!.length;
      if (items.length > 0 && letters > embedGroupLettersMax) break;
      items.push({ call, at: call.next++ });
      this.#waiting[use]--;
      // To the end of the row, if there is more of it.
      calls.delete(call);
      if (call.next < call.texts.length) calls.add(call);
    }
    return items;
  }

  /** Takes out what waits of a call. */
  drop(call: Call): void {
    if (this.#calls[call.use].delete(call)) this.#waiting[call.use] -= call.texts.length - call.next;
  }

  /** Takes out every call that waits. */
  drain(): readonly Call[] {
    const all = Object.values(this.#calls).flatMap((calls) => [...calls]);
    for (const call of all) this.drop(call);
    return all;
  }
}
