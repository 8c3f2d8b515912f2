/**
 * Whether what clients were told of one key of an object store could have been, had every call happened at one instant
 * between its start and its end (linearizability, by the search of Wing and Gong). Values are written once.
 */

/** One call and what came of it, in the order of some common clock. */
export interface KeyCall {
  readonly client: string;
  readonly start: number;
  /** Infinity when its effect may still come: the outcome is unknown. */
  readonly end: number;
  readonly act:
    /** `over` is the value that must stand there; undefined for none. */
    | {
        readonly kind: "put";
        readonly value: string;
        readonly over: string | undefined;
        readonly outcome: "stored" | "conflict" | "unknown";
      }
    | { readonly kind: "get"; readonly found: string | undefined }
    | { readonly kind: "delete"; readonly outcome: "done" | "unknown" };
}

/** What stands there after the act, or `"impossible"`. */
function after({ act }: KeyCall, state: string | undefined): { readonly state: string | undefined } | "impossible" {
  switch (act.kind) {
    case "get":
      return act.found === state ? { state } : "impossible";
    case "delete":
      return { state: undefined };
    case "put":
      if (act.outcome === "conflict") return act.over === state ? "impossible" : { state };
      return act.over === state ? { state: act.value } : "impossible";
  }
}

/**
 * Whether there is an order of the calls that explains all of them. Calls of unknown outcome may have had no effect.
 */
export function isLinearizable(calls: readonly KeyCall[]): boolean {
  const isOpen = ({ act }: KeyCall): boolean => "outcome" in act && act.outcome === "unknown";
  const seen = new Set<string>();
  const search = (left: readonly KeyCall[], state: string | undefined): boolean => {
    if (left.every(isOpen)) return true;
    const known = `${left.map(({ start }) => start).join()}=${state}`;
    if (seen.has(known)) return false;
    seen.add(known);
    const firstEnd = Math.min(...left.filter((call) => !isOpen(call)).map(({ end }) => end));
    return left.some((call) => {
      if (call.start > firstEnd) return false;
      const next = after(call, state);
      return (
        next !== "impossible" &&
        search(
          left.filter((one) => one !== call),
          next.state,
        )
      );
    });
  };
  return search(calls, undefined);
}
