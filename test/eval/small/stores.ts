/**
 * Small stores of short facts with aliases, and what an agent is told or asked beside them: how most memories of
 * agents look. Written for this set.
 *
 * Always true: the development half is what constants are chosen on; the held-out half shares no store and no case with
 * it, and is looked at only to confirm. Each case names every fact that an agent would want to be reminded of, and no
 * other.
 */
import { developmentStores } from "./development.ts";
import { heldOutStores } from "./held-out.ts";
import type { Store } from "./build.ts";

export const smallStores: Readonly<Record<"development" | "held-out", readonly Store[]>> = {
  development: developmentStores,
  "held-out": heldOutStores,
};
