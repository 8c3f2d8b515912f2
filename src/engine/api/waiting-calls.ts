/**
 * Who waits for an answer of an engine thread, and until when.
 *
 * Always true: every call settles once, by its answer, its deadline, or the loss of its thread. Must not know: threads,
 * what is asked.
 */
import { ServiceError, toServiceError } from "../../base/faults/errors.ts";
import type { World } from "../../base/world.ts";
import { TurnedAway } from "./engine-port.ts";
import type { EngineAnswer, Work } from "./protocol.ts";

/** A call that is under way. */
export interface WaitingCall {
  readonly lane: number;
  readonly work: Work;
  readonly deadlineMs: number;
  readonly resolve: (answer: EngineAnswer) => void;
  readonly reject: (error: unknown) => void;
}

/** Deadlines are looked at this often: a refusal may come this much late, and no call costs a timer. */
export const deadlineCheckMs = 50;

/** The calls of one node that are under way, by number. */
export class WaitingCalls {
  readonly #world: World;
  readonly #calls = new Map<number, WaitingCall>();
  #checking = false;

  constructor(world: World) {
    this.#world = world;
  }

  /** The call waits from now on. */
  add(id: number, call: WaitingCall): void {
    this.#calls.set(id, call);
    this.#checkDeadlines();
  }

  /** What the call asks for; undefined when its caller has stopped waiting. */
  findWork(id: number): Work | undefined {
    return this.#calls.get(id)?.work;
  }

  /** An answer has come. A call whose time was over before has been refused already. */
  answer(answer: EngineAnswer): void {
    const call = this.#calls.get(answer.id);
    this.#calls.delete(answer.id);
    call?.resolve(answer);
  }

  /** The thread is gone, with all its calls. */
  lose(lane: number): void {
    for (const [id, call] of this.#calls) {
      if (call.lane !== lane) continue;
      this.#calls.delete(id);
      call.reject(
        new ServiceError("unavailable", "the engine thread was lost; whether a write happened is not known", {
          retryAfterSecs: 1,
        }),
      );
    }
  }

  #checkDeadlines(): void {
    if (this.#checking) return;
    this.#checking = true;
    this.#world.after(deadlineCheckMs, () => {
      this.#checking = false;
      const nowMs = this.#world.monotonicMs();
      for (const [id, call] of this.#calls) {
        if (call.deadlineMs > nowMs) continue;
        this.#calls.delete(id);
        call.reject(outOfTime());
      }
      if (this.#calls.size > 0) this.#checkDeadlines();
    });
  }
}

/** The value that was answered. Throws what was refused or failed. */
export function unwrapAnswer(answer: EngineAnswer): unknown {
  if (answer.turnedAway) throw new TurnedAway(answer.turnedAway);
  if (answer.refusal) {
    const { detail } = answer.refusal;
    throw toServiceError({
      ...answer.refusal,
      detail: answer.txid === undefined ? detail : { ...detail, txid: answer.txid },
    });
  }
  if (answer.fault) {
    const fault = new Error(answer.fault.message);
    fault.stack = answer.fault.stack;
    throw fault;
  }
  return answer.value;
}

/** The caller's time is over. `txid`: what its read has seen. */
export function outOfTime(txid?: number): ServiceError {
  const message = "the request's time was over before it was answered; a write may still happen";
  return new ServiceError("request_timeout", message, txid === undefined ? {} : { txid });
}
