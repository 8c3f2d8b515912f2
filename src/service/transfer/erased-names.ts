/**
 * What erasures of a database have erased, by name: what an import must not bring back.
 *
 * Always true: every coupon counts, whatever became of it, as its erasure was asked for; of those that are completed
 * nothing else is known. Only ids that the import names are looked for.
 */
import type { ErasureCoupon } from "../../format/erasure/erasure-coupon.ts";
import type { ErasedNames } from "../../model/transfer/erased.ts";

/** All that is known of a database's erasures. */
export interface KnownErasures {
  readonly memoryIds: ReadonlySet<string>;
  readonly targets: ErasedNames["targets"];
}

/** The names that these coupons speak of. */
export function knownErasures(coupons: readonly ErasureCoupon[]): KnownErasures {
  const targets = coupons.flatMap(({ target, requestedAtMs: untilMs }): ErasedNames["targets"] => {
    if (target.kind === "memory" || target.kind === "topic") return [];
    return [{ target, untilMs }];
  });
  return { memoryIds: new Set(coupons.flatMap(({ memoryIds }) => memoryIds)), targets };
}

/** Of the names those that the text of the records may hold. */
export function namesIn(
  texts: readonly { readonly text: string }[],
  { memoryIds, targets }: KnownErasures,
): ErasedNames {
  if (memoryIds.size === 0) return { memoryIds: [], targets };
  const named = texts.flatMap(({ text }) => text.match(/mem_[0-9A-Z]{26}/g) ?? []);
  return { memoryIds: [...new Set(named)].filter((id) => memoryIds.has(id)), targets };
}
