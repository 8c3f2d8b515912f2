/** Whether what clients were told of one key of an object store is linearizable. Values are written once. */
import { type Call, isExplained } from "./linear-history.ts";

type KeyAct =
  /** `over` is the value that must stand there; undefined for none. */
  | {
      readonly kind: "put";
      readonly value: string;
      readonly over: string | undefined;
      readonly outcome: "stored" | "conflict" | "unknown";
    }
  | { readonly kind: "get"; readonly found: string | undefined }
  | { readonly kind: "delete"; readonly outcome: "done" | "unknown" };

/** One call of a client. */
export interface KeyCall extends Call<KeyAct> {
  readonly client: string;
}

/** What stands there. */
interface Register {
  readonly value: string | undefined;
}

function after(state: Register, act: KeyAct): Register | "impossible" {
  switch (act.kind) {
    case "get":
      return act.found === state.value ? state : "impossible";
    case "delete":
      return { value: undefined };
    case "put":
      if (act.outcome === "conflict") return act.over === state.value ? "impossible" : state;
      return act.over === state.value ? { value: act.value } : "impossible";
  }
}

/** Whether there is an order of the calls that explains all of them. */
export function isLinearizable(calls: readonly KeyCall[]): boolean {
  return isExplained<Register, KeyAct>(
    calls,
    { value: undefined },
    after,
    (act) => "outcome" in act && act.outcome === "unknown",
  );
}
