/**
 * What erasures of a database have erased, by name: what an import must not bring back.
 *
 * Always true: every coupon counts, whatever became of it, as its erasure was asked for; of those that are completed
 * nothing else is known. Only ids that the import names are looked for.
 */
import type { ErasureCoupon } from "../../format/erasure/erasure-coupon.ts";
import type { ErasedNames } from "../../model/transfer/erased.ts";

/** The names that these coupons speak of. */
export function erasedNames(coupons: readonly ErasureCoupon[]): ErasedNames {
  const targets = coupons.flatMap(({ target, requestedAtMs: untilMs }): ErasedNames["targets"] => {
    if (target.kind === "memory" || target.kind === "topic") return [];
    return [{ target, untilMs }];
  });
  return { memoryIds: coupons.flatMap(({ memoryIds }) => memoryIds), targets };
}

/** Of the names those that the text of the records may hold. */
export function namesIn(texts: readonly { readonly text: string }[], erased: ErasedNames): ErasedNames {
  const { memoryIds, targets } = erased;
  if (memoryIds.length === 0) return erased;
  const all = new Set(memoryIds);
  const named = texts.flatMap(({ text }) => text.match(/mem_[0-9A-Z]{26}/g) ?? []);
  return { memoryIds: [...new Set(named)].filter((id) => all.has(id)), targets };
}
