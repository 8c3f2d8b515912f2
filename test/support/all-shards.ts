/** All shards, for a node of a test that owns everything or nothing. */
import type { OwnedShards } from "../../src/control/databases/owned-pages.ts";
import { shardsCount } from "../../src/format/core/shards.ts";

export function shardsWhile(owns: () => boolean): OwnedShards {
  return { has: () => owns(), from: (shard) => (owns() && shard < shardsCount ? shard : undefined) };
}
