/**
 * What erasures of one database have erased, by name, so that what some records may be of is found without looking at
 * the rest.
 *
 * Always true: every erasure counts, whatever became of it, as it was asked for; what is found costs by the names that
 * are looked for, however many are written down. Must not know: where erasures are kept, what a record is.
 */
import type { ErasureCoupon } from "../../format/erasure/erasure-coupon.ts";
import type { ErasedNames } from "../../model/transfer/erased.ts";

type Erased = ErasedNames["targets"][number];
type Target = Erased["target"];

/** What names are made of: texts, and the numbers of turns. */
export type NamePart = string | number;

/** What is looked up of an erasure, and when it was asked for. */
export type NamedErasure = Pick<ErasureCoupon, "target" | "memoryIds" | "requestedAtMs">;

export class ErasedBook {
  readonly #memoryIds = new Set<string>();
  /** By the two parts of their names; what has one part has it twice. */
  readonly #targets = new Map<NamePart, Map<NamePart, Erased[]>>();
  #newestSubject: Erased | undefined;
  #targetsTotal = 0;

  /** How many names are written down. */
  get size(): number {
    return this.#memoryIds.size + this.#targetsTotal;
  }

  add({ target, memoryIds, requestedAtMs: untilMs }: NamedErasure): void {
    for (const id of memoryIds) this.#memoryIds.add(id);
    if (target.kind === "memory" || target.kind === "topic") return;
    const one = { target, untilMs };
    const [first, second] = partsOf(target);
    const ofFirst = this.#targets.get(first) ?? new Map<NamePart, Erased[]>();
    this.#targets.set(first, ofFirst);
    const same = ofFirst.get(second) ?? [];
    const at = same.findIndex((other) => isSame(other.target, target));
    // Asked for again: the later time covers the earlier.
    if (at < 0) this.#targetsTotal++;
    if (at < 0) ofFirst.set(second, [...same, one]);
    else if (same[at]!.untilMs < untilMs) same[at] = one;
    if (target.kind === "subject" && !(this.#newestSubject && this.#newestSubject.untilMs >= untilMs))
      this.#newestSubject = one;
  }

  /**
   * What records may be of: `each` has for every record the parts of all names that it may speak of. The newest erasure
   * of a subject is always among it, as nobody knows any more what else was its.
   */
  find(each: Iterable<ReadonlySet<NamePart>>): ErasedNames {
    const memoryIds = new Set<string>();
    const targets = new Set<Erased>(this.#newestSubject && [this.#newestSubject]);
    for (const parts of each) {
      for (const part of parts) {
        if (typeof part === "string" && this.#memoryIds.has(part)) memoryIds.add(part);
        const ofFirst = this.#targets.get(part);
        if (!ofFirst) continue;
        for (const second of parts) for (const one of ofFirst.get(second) ?? []) targets.add(one);
      }
    }
    return { memoryIds: [...memoryIds], targets: [...targets] };
  }
}

function partsOf(target: Target): readonly [NamePart, NamePart] {
  switch (target.kind) {
    case "session":
      return [target.sessionId, target.sessionId];
    case "turn":
      return [target.sessionId, target.seq];
    case "path":
      return [target.path, target.path];
    case "key":
      return [target.ns, target.key];
    case "document":
    case "vector":
      return [target.collection, target.id];
    case "subject":
      return [target.subject, target.subject];
  }
}

/** Of two targets of the same parts. */
function isSame(one: Target, other: Target): boolean {
  return one.kind === other.kind && (one.kind !== "session" || one.turns === (other as typeof one).turns);
}
