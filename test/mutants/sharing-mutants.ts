/** Faults in what several nodes make of one database: who may change it, and what copies show. */
import type { Mutant } from "./mutant.ts";

const shared = [{ seeds: 40, shared: true }] as const;

export const sharingMutants: readonly Mutant[] = [
  {
    name: "old-line-rolled-forward",
    why: "A copy of a timeline that a rewind has left is rolled forward: the old tail shows through.",
    file: "engine/opening/file-standing.ts",
    find: ['  if (txid < manifest.fromTxid) return "stale";'],
    replace: [],
    suites: shared,
  },
  {
    name: "fork-shares-later-pages",
    why: "A fork refers to its parent's objects beyond its point, and shows what was written there later.",
    file: "engine/history/timelines.ts",
    find: ["    refs: [...plan.images, ...plan.deltas.map((ref) => cutRef(ref, txid))],"],
    replace: ["    refs: [...plan.images, ...plan.deltas],"],
    suites: shared,
  },
  {
    name: "deletion-leaves-the-catalog",
    why: "A deleted database is served on by nodes that have a copy, and by whoever has it open.",
    file: "engine/engine.ts",
    find: [
      "    await catalogs.update(uuid, ({ seq, deletedAtMs }) =>",
      "      (seq === 0 && !coordinated) || deletedAtMs !== undefined ? undefined : { deletedAtMs: " +
        "this.#world.nowMs() },",
      "    );",
    ],
    replace: [],
    suites: shared,
  },
  {
    name: "name-goes-back-to-the-deleted",
    why: "Who takes a free name gets the database that had it before, with all its data.",
    file: "control/databases/databases.ts",
    find: ["          uuid: spare ?? newUuid(this.#world),"],
    replace: ["          uuid: claim?.uuid ?? spare ?? newUuid(this.#world),"],
    suites: shared,
  },
  {
    name: "copies-believe-their-first-catalog",
    why: "A copy of a deleted branch, or database, is read on, also by the name of its successor.",
    file: "engine/replica/manifest-watcher.ts",
    find: ["    const catalog = await this.#permits.run(() => registry.catalogs.fresh(uuid));"],
    replace: ["    const catalog = await this.#permits.run(() => registry.catalogs.get(uuid));"],
    suites: shared,
  },
  {
    name: "catalog-not-confirmed",
    why: "A fork or deletion that the last holder has sent lands behind the next one's back.",
    file: "engine/pool/ownership-transfer.ts",
    find: ["    await registry.catalogs.confirm(uuid);"],
    replace: [],
    suites: [{ file: "test/unit/engine/writer/overtaken.test.ts" }],
  },
  {
    name: "branched-without-a-lease",
    why: "A node that does not know that it lost the database forks and deletes behind the holder's back.",
    file: "engine/branches/branches.ts",
    find: ["    if (this.#parts.isCertain(uuid)) return;"],
    replace: ['    if (this.#parts.isCertain(uuid) || uuid !== "") return;'],
    suites: [{ file: "test/unit/engine/writer/overtaken.test.ts" }],
  },
  {
    name: "sync-asks-nobody",
    why:
      "A node that does not know that it lost the database calls everything durable without what its holder " +
      "answered.",
    file: "engine/database/database.ts",
    find: [
      "    if (this.#state.opened.manifest.exists)",
      "      return this.#answers.afterShip(txid, () => this.#answers.asWriter(txid, done, completion), completion);",
    ],
    replace: ["    if (this.#state.opened.manifest.exists) return this.#answers.afterShip(txid, done, completion);"],
    suites: [...shared, { file: "test/unit/engine/writer/overtaken.test.ts" }],
  },
  {
    name: "own-gap-taken-for-anothers",
    why: "What a node acknowledged and did not ship is set aside, because it claimed once more and died.",
    file: "engine/opening/file-standing.ts",
    find: ["  return claimsSince(manifest, state)?.every(({ firstTxid }) => firstTxid <= nextTxid) ?? false;"],
    replace: [
      "  return claimsSince(manifest, state)?.every(({ firstTxid }) => firstTxid === state.txid + 1) ?? false;",
    ],
    suites: [{ file: "test/unit/engine/opening/restored-files.test.ts" }],
  },
  {
    name: "proof-forgotten-with-the-process",
    why:
      "The next process appends to log frames that a failed fsync left out, and a loss of power takes what it " +
      "acknowledged.",
    file: "engine/opening/branch-opening.ts",
    find: ["    await proveIfOwed(this.#path, disk);"],
    replace: [],
    suites: [{ file: "test/crash/power-loss.test.ts", named: "failed before" }],
  },
];
