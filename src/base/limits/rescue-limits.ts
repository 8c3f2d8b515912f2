/**
 * Bounds of the tools for the worst day (engine/rescue/inventory, engine/doctor, engine/rescue/repair,
 * engine/backup/backup, engine/erasure/secret-scan, server/inspect); part of `limits`.
 */
const KiB = 1024;
const MiB = 1024 * KiB;

export const rescueLimits = {
  /** A database that changes while it is looked at is looked at again so often. */
  inventoryRoundsMax: 4,
  /** Objects that are read at once to prove them; each may be a full pack. */
  inventoryFetchesMax: 4,
  /** Objects that one finding names; the others it counts. */
  findingKeysMax: 5,
  /** Findings that are kept to be told in order, about half a KiB each; further ones are counted. */
  findingsMax: 10_000,
  /**
   * Databases whose names one look keeps in memory, about 200 bytes each; those beyond are not looked at, and that is
   * said.
   */
  inventoryDatabasesMax: 1_000_000,
  /** An erasure that is due for so long and not completed is told of. */
  erasureLateMs: 3_600_000,
  /** A database that loses objects to the collector while it is copied is begun again so often. */
  backupRoundsMax: 16,
  /** Objects that are copied at once; each may be a full pack. */
  backupCopiesAtOnceMax: 4,
  /** Databases that are copied at once; their objects share the places above. */
  backupDatabasesAtOnceMax: 8,
  backupManifestBytesMax: 64 * KiB,
  /** Databases that one backup of some of them may name. */
  backupScopeMax: 100,
  /** Branches whose newest state a backup restores when it is not asked for all. */
  backupSampleMax: 8,
  /** Older versions of one object that are looked at: a store in a directory keeps sixteen. */
  olderVersionsMax: 64,
  /** An object that is younger than this may be of a writer that still runs. */
  quietMs: 60_000,
  /**
   * How far a branch skips ahead when nobody knows any more which transaction ids were given: one that commits twenty
   * thousand times a second needs two years for as many.
   */
  txidsSkipped: 2 ** 40,
  /**
   * How far a manifest's epoch and a catalog's number skip ahead when nobody knows what the lost one had: a node that
   * has seen that one refuses what is older (engine/local/seen-manifests).
   */
  epochsSkipped: 2 ** 20,
  catalogsSkipped: 2 ** 32,

  // Looking at single objects (server/inspect)
  /** Rows of a table that are shown unless more are asked for. */
  inspectRowsShown: 50,
  /** No table of any format has more. */
  inspectRowsMax: 10_000_000,
  /** Larger files are no objects of ours: a pack has 64 MiB, an image of a large database some hundred. */
  inspectFileBytesMax: 1024 * MiB,
  /** Branches of one database that are looked at: a catalog names a thousand, and manifests of deleted ones linger. */
  inspectedBranchesMax: 10_000,

  // Search for residue (engine/erasure/secret-scan)
  /** Shorter texts are found wherever one looks. */
  residueSecretBytesMin: 4,
  residueSecretsMax: 10_000,
  residueHitsMax: 10_000,
  /** Files are read in pieces of this size. */
  residuePieceBytes: 4 * MiB,
} as const;
