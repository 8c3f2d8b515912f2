/**
 * Counts what left this node for outside models, or was not let out: every entry of the audit log about that.
 *
 * Always true: told apart by use, provider and outcome only; sizes, never content.
 */
import type { AuditEntry } from "../../control/audit/audit-entry.ts";

/** What was sent alike. */
export interface EgressCount {
  /** `embed`, `ask` or `extract`. */
  readonly use: string;
  readonly provider: string;
  /** `ok`, `denied` by policy, or `error`. */
  readonly outcome: string;
  requests: number;
  items: number;
  bytes: number;
}

export class EgressCounts {
  readonly #counts = new Map<string, EgressCount>();

  /** Hears an entry of the audit log. */
  note({ action, outcome, egress }: AuditEntry): void {
    if (!egress) return;
    const { provider, inputItems, inputBytes } = egress;
    const use = action.slice(action.indexOf(".") + 1);
    const key = `${use} ${provider} ${outcome}`;
    let count = this.#counts.get(key);
    if (!count) this.#counts.set(key, (count = { use, provider, outcome, requests: 0, items: 0, bytes: 0 }));
    count.requests++;
    // What policy has kept back is told with its size too, but has not left.
    if (outcome === "denied") return;
    count.items += inputItems;
    count.bytes += inputBytes;
  }

  get counts(): readonly Readonly<EgressCount>[] {
    return [...this.#counts.values()];
  }
}
