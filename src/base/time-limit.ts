/**
 * A bound on how long an outside party may take to answer.
 *
 * Always true: a caller waits no longer than the limit, whatever becomes of the act; the act hears of it by its signal,
 * and its later outcome is dropped.
 */
import type { World } from "./world.ts";

/** The time was up before there was an answer. */
export class TimeUp extends Error {
  override readonly name = "TimeUp";
}

/**
 * The act's answer, or TimeUp when there is none after `limitMs`. Its signal aborts then, and also once it has
 * answered.
 */
export async function within<T>(
  world: Pick<World, "after">,
  limitMs: number,
  act: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const { promise: timeUp, reject } = Promise.withResolvers<never>();
  const cancel = world.after(limitMs, () => reject(new TimeUp(`no answer within ${limitMs} ms`)));
  try {
    return await Promise.race([act(controller.signal), timeUp]);
  } finally {
    cancel();
    controller.abort();
  }
}
