/**
 * Something that happens now and then, and its waiters.
 *
 * Always true: a waiter goes on in a turn of its own, when everything that the same event has set in motion has been
 * done; raising it costs nothing while there is no waiter.
 */
import { turn, type World } from "./world.ts";

export class Signal {
  #waiting: PromiseWithResolvers<void> | undefined;

  /** Whether anything waits for it. */
  get isAwaited(): boolean {
    return this.#waiting !== undefined;
  }

  /** It has happened. */
  raise(): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.resolve();
  }

  /** Resolves after the next time that it happens, or at `untilMs` on `world.monotonicMs()`. */
  async next(world: Pick<World, "soon" | "after" | "monotonicMs">, untilMs = Infinity): Promise<void> {
    const { promise } = (this.#waiting ??= Promise.withResolvers());
    if (untilMs === Infinity) await promise;
    else {
      const timeUp = Promise.withResolvers<void>();
      const cancel = world.after(Math.max(0, untilMs - world.monotonicMs()), timeUp.resolve);
      await Promise.race([promise, timeUp.promise]);
      cancel();
    }
    await turn(world);
  }
}
