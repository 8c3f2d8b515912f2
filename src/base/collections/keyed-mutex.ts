/**
 * Acts on one thing, one after the other, in the order in which they were asked for; acts on different things do not
 * wait for each other. The callers bound how many wait: each waiter is a call that has its own bound.
 */
export class KeyedMutex {
  /** The end of the line for each thing that has one. */
  readonly #ends = new Map<string, Promise<void>>();

  /** Begins the act when those before it have ended, well or not; gives what it comes to. */
  take<Value>(key: string, act: () => Promise<Value>): Promise<Value> {
    const mine = (this.#ends.get(key) ?? Promise.resolve()).then(act);
    const end = mine.then(
      () => {},
      () => {},
    );
    this.#ends.set(key, end);
    void end.then(() => this.#ends.get(key) === end && this.#ends.delete(key));
    return mine;
  }
}
