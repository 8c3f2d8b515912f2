/**
 * Whether what clients were told could have been, had every call happened at one instant between its start and its end
 * (linearizability, by the search of Wing and Gong).
 */

/** One call and what came of it, in the order of some common clock. */
export interface Call<Act> {
  readonly start: number;
  /** Infinity when its effect may still come. */
  readonly end: number;
  readonly act: Act;
}

/**
 * Whether there is an order of the calls that explains all of them. `after` gives the state after an act, or
 * `"impossible"` where the act could not have been answered as it was; states are plain JSON. Calls of unknown outcome
 * may have had no effect.
 */
export function isExplained<State, Act>(
  calls: readonly Call<Act>[],
  initial: State,
  after: (state: State, act: Act) => State | "impossible",
  isUnknown: (act: Act) => boolean = () => false,
): boolean {
  const seen = new Set<string>();
  const search = (left: readonly Call<Act>[], state: State): boolean => {
    if (left.every(({ act }) => isUnknown(act))) return true;
    const known = `${left.map(({ start }) => start).join()}=${JSON.stringify(state)}`;
    if (seen.has(known)) return false;
    seen.add(known);
    const firstEnd = Math.min(...left.filter(({ act }) => !isUnknown(act)).map(({ end }) => end));
    return left.some((call) => {
      if (call.start > firstEnd) return false;
      const next = after(state, call.act);
      return (
        next !== "impossible" &&
        search(
          left.filter((one) => one !== call),
          next,
        )
      );
    });
  };
  return search(calls, initial);
}
