/**
 * The answers of one engine thread on their way to the callers: those of one turn of the loop share a message.
 *
 * Always true: the only call that is under way is answered at once, as no other answer can come with its own. Must not
 * know: what was asked.
 */
import type { World } from "../base/world.ts";
import { toFailureAnswer, needsOperator } from "./api/failures.ts";
import type { EngineAnswer, FromEngine } from "./api/protocol.ts";

/** Collects answers until they are sent. */
export class AnswerBatches {
  readonly #world: World;
  readonly #send: (message: FromEngine) => void;
  #answers: EngineAnswer[] = [];
  #underWay = 0;
  #flushing = false;

  constructor(world: World, send: (message: FromEngine) => void) {
    this.#world = world;
    this.#send = send;
  }

  /** `calls` more calls are under way. */
  begin(calls: number): void {
    this.#underWay += calls;
  }

  /** Whether one call at most is under way. */
  get alone(): boolean {
    return this.#underWay <= 1;
  }

  /** A call has its answer. */
  answer(answer: EngineAnswer): void {
    this.#underWay--;
    this.#answers.push(answer);
    if (this.#flushing) return;
    // No other call's answer can come with it.
    if (this.#underWay === 0) return this.flush();
    this.#flushing = true;
    this.#world.soon(() => this.flush());
  }

  /** A call was refused, or has failed. */
  fail(id: number, error: unknown, txid: number | undefined): void {
    if (needsOperator(error))
      this.#send({ kind: "event", level: "warn", message: `stored data cannot be used: ${error.message}`, uuid: "" });
    this.answer({ id, txid, ...toFailureAnswer(error) });
  }

  /** Sends what there is. */
  flush(): void {
    this.#flushing = false;
    const answers = this.#answers;
    this.#answers = [];
    if (answers.length > 0) this.#send({ kind: "answers", answers });
  }
}
