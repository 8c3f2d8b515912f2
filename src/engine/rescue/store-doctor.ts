/**
 * The look at a whole store: what is there, what fits together, what is missing.
 *
 * Always true: it only reads. Everything outside of databases is listed once, each database is looked at alone; in
 * memory are the names and identities of databases, and findings. Must not know: local files, who reads the findings.
 */
import { StoreError } from "../../base/faults/errors.ts";
import type { World } from "../../base/world.ts";
import { decodeBackupManifest } from "../../format/records/backup-manifest.ts";
import { isUuid } from "../../format/core/binary.ts";
import { decodeCoupon, type ErasureCoupon } from "../../format/erasure/erasure-coupon.ts";
import { decodeNameClaim } from "../../format/records/name-claim.ts";
import { isNamePart } from "../../format/core/names.ts";
import { auditPrefix, parseAuditKey } from "../../format/audit/audit-keys.ts";
import { duePrefix, parseDueKey } from "../../format/keys/expiry-keys.ts";
import {
  copyPrefix,
  nodesPrefix,
  parseCopyKey,
  parseCopyOrderKey,
  parseNodeNameKey,
} from "../../format/keys/node-keys.ts";
import {
  backupManifestKey,
  parseNameClaimKey,
  databasePrefix,
  databasesPrefix,
  deletionCountPrefix,
  erasingPrefix,
  erasureCouponKey,
  nameClaimKey,
  nameClaimPrefix,
  parseNamespacePolicyKey,
  parseErasureKey,
  parseWebhookKey,
  policyPrefix,
  publicKeyPrefix,
  purgePrefix,
  signingKeyKey,
  storeFormatKey,
  webhooksPrefix,
} from "../../format/keys/object-keys.ts";
import { parseRevocationKey, revocationPrefix } from "../../format/keys/revocation-keys.ts";
import { decodePolicy } from "../../format/records/policy.ts";
import { behindFolder, foldersUnder, listed } from "../../store/port/listing.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { requireStoreFormat } from "../../store/store-format.ts";
import { isWritten } from "../history/catalogs.ts";
import { reportDatabase } from "./database-report.ts";
import type { Findings, FindingPlace } from "./findings.ts";
import {
  emptyTally,
  takeInventory,
  lookAt,
  tallied,
  type BranchInventory,
  type DatabaseInventory,
} from "./inventory.ts";
import { checkNewest } from "../segments/newest-state.ts";
import type { PageSource } from "../segments/pool-objects.ts";

/**
 * Databases whose names one look keeps in memory, about 200 bytes each; those beyond are not looked at, which is
 * reported.
 */
const inventoryDatabasesMax = 1_000_000;
/** An erasure that is due for this long and not completed is reported. */
const erasureLateMs = 3_600_000;

export interface StoreDoctorParts {
  readonly store: ObjectStore;
  readonly world: World;
  readonly source: (uuid: string) => PageSource;
  /** Where newest states are restored when everything is read and proven; undefined for a look at names and lengths. */
  readonly scratchDirectory: string | undefined;
  readonly findings: Findings;
}

/** Which databases are looked at: one, or all. */
export type DoctorScope =
  | { readonly kind: "all" }
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "uuid"; readonly uuid: string };

/** What was looked at. */
export interface StoreLook {
  databases: number;
  branches: number;
  objects: number;
  bytes: number;
  /** Objects that were read and proven. */
  proven: number;
  /** Newest states that were restored. */
  restored: number;
  /** The one database, when one was asked for by its name. */
  only?: string | undefined;
}

/** What the store says of databases outside of their own folders. */
interface Traces {
  /** Name by uuid, of claims that hold. */
  readonly claims: Map<string, string>;
  /** Deleted databases whose objects are to be removed. */
  readonly purges: Set<string>;
  /** Databases that were written, as something else says. */
  readonly written: Set<string>;
}

export class StoreDoctor {
  readonly #parts: StoreDoctorParts;
  readonly look: StoreLook = { databases: 0, branches: 0, objects: 0, bytes: 0, proven: 0, restored: 0 };
  readonly #traces: Traces = { claims: new Map(), purges: new Set(), written: new Set() };

  constructor(parts: StoreDoctorParts) {
    this.#parts = parts;
  }

  /** Looks at what the scope asks for. Throws StoreError when the store does not answer. */
  async examine(scope: DoctorScope): Promise<void> {
    await requireStoreFormat(this.#parts.store);
    if (scope.kind === "all") return this.#examineAll();
    if (scope.kind === "uuid") return this.#examineDatabase(scope.uuid, undefined, true);
    const uuid = await this.#claim(scope.name);
    this.look.only = uuid;
    if (uuid !== undefined) await this.#examineDatabase(uuid, scope.name, true);
  }

  async #examineAll(): Promise<void> {
    await this.#walk();
    const seen = new Set<string>();
    for await (const { name, isFolder } of foldersUnder(this.#parts.store, databasesPrefix)) {
      if (!isFolder || !isUuid(name))
        this.#parts.findings.add("foreign", { key: databasesPrefix + name }, "an object that belongs to no database");
      else if (seen.size >= inventoryDatabasesMax)
        return this.#parts.findings.add("not_all", {}, `there are more than ${inventoryDatabasesMax} databases`);
      else {
        seen.add(name);
        await this.#examineDatabase(name, this.#traces.claims.get(name), false);
      }
    }
    for (const [uuid, database] of this.#traces.claims) if (!seen.has(uuid)) this.#unwritten(uuid, database);
  }

  /** Everything that lies outside of databases. */
  async #walk(): Promise<void> {
    const { store, findings } = this.#parts;
    const foreign = emptyTally();
    for await (const { key, bytes } of this.#outside()) if (!(await this.#known(key))) tallied(foreign, key, bytes);
    if (foreign.count > 0)
      findings.add(
        "foreign",
        { key: foreign.keys[0] },
        `${foreign.count} objects of ${foreign.bytes} bytes: ${foreign.keys.join(", ")}`,
      );
    await this.#erasures(store);
  }

  async *#outside(): ReturnType<typeof listed> {
    const { store } = this.#parts;
    for await (const object of listed(store, "")) {
      // The databases' own objects, which may be millions, are looked at one database at a time.
      if (object.key.startsWith(databasesPrefix)) return yield* listed(store, "", behindFolder(databasesPrefix));
      yield object;
    }
  }

  /** Whether the key is one of ours; looks at what may be looked at alone. */
  async #known(key: string): Promise<boolean> {
    if (key === backupManifestKey) return this.#backup();
    if (key.startsWith(nameClaimPrefix)) {
      const name = parseNameClaimKey(key);
      if (name !== undefined) await this.#claim(name);
      return name !== undefined;
    }
    if (key.startsWith(policyPrefix)) return this.#policy(key);
    if (key.startsWith(purgePrefix)) return this.#noted(this.#traces.purges, key.slice(purgePrefix.length));
    if (key.startsWith(duePrefix)) return this.#noted(this.#traces.written, parseDueKey(key)?.uuid);
    if (key.startsWith(erasingPrefix) || key.startsWith("erasures/"))
      return this.#noted(this.#traces.written, parseErasureKey(key)?.uuid);
    if (key.startsWith(webhooksPrefix)) return parseWebhookKey(key) !== undefined;
    if (key.startsWith(auditPrefix)) return parseAuditKey(key) !== undefined;
    if (key.startsWith(copyPrefix)) return parseCopyKey(key) !== undefined;
    if (key.startsWith(deletionCountPrefix)) return isNamePart(key.slice(deletionCountPrefix.length));
    if (key.startsWith(revocationPrefix)) return parseRevocationKey(key) !== undefined;
    if (key.startsWith(nodesPrefix)) return parseNodeNameKey(key) !== undefined;
    return (
      parseCopyOrderKey(key) !== undefined ||
      key.startsWith("forgotten/") ||
      key.startsWith(publicKeyPrefix) ||
      key === signingKeyKey ||
      key === storeFormatKey
    );
  }

  #noted(set: Set<string>, uuid: string | undefined): boolean {
    if (uuid !== undefined && set.size < inventoryDatabasesMax) set.add(uuid);
    return uuid !== undefined;
  }

  async #backup(): Promise<boolean> {
    const { store, findings } = this.#parts;
    const looked = await lookAt(store, backupManifestKey, decodeBackupManifest);
    if (looked.kind === "unreadable") findings.add("backup_incomplete", { key: backupManifestKey }, looked.why);
    if (looked.kind !== "sound") return true;
    const { state, from, done, startedAtMs } = looked.value;
    if (state === "complete")
      findings.add(
        "backup_complete",
        { key: backupManifestKey },
        `a backup of ${from}, completed ${new Date(done!.completedAtMs).toISOString()}`,
      );
    else
      findings.add(
        "backup_incomplete",
        { key: backupManifestKey },
        `${state === "copying" ? "a backup" : "a restore"} from ${from}, ` +
          `begun ${new Date(startedAtMs).toISOString()} and not completed`,
      );
    return true;
  }

  /** Reads the claim of a name; gives the database that has the name. */
  async #claim(name: string): Promise<string | undefined> {
    const { store, findings } = this.#parts;
    const key = nameClaimKey(name);
    const looked = await lookAt(store, key, decodeNameClaim);
    if (looked.kind === "unreadable")
      findings.add(looked.isNewer ? "format_newer" : "claim_unreadable", { database: name, key }, looked.why);
    if (looked.kind === "missing")
      throw new StoreError("misconfigured", `there is no claim of the name ${name}; give --uuid`);
    if (looked.kind !== "sound" || looked.value.deletedAtMs !== undefined) return undefined;
    const { uuid } = looked.value;
    const other = this.#traces.claims.get(uuid);
    if (other !== undefined)
      findings.add("claim_twice", { uuid, database: name, key }, `the database is also called ${other}`);
    else if (this.#traces.claims.size < inventoryDatabasesMax) this.#traces.claims.set(uuid, name);
    return uuid;
  }

  async #policy(key: string): Promise<boolean> {
    const { store, findings } = this.#parts;
    const looked = await lookAt(store, key, (bytes) =>
      decodePolicy(bytes, parseNamespacePolicyKey(key) === undefined ? "profile" : "namespace"),
    );
    if (looked.kind === "unreadable") findings.add("policy_unreadable", { key }, looked.why);
    return true;
  }

  async #erasures(store: ObjectStore): Promise<void> {
    for await (const { key } of listed(store, erasingPrefix)) {
      const named = parseErasureKey(key);
      if (!named) continue;
      const looked = await lookAt(store, erasureCouponKey(named.uuid, named.id), decodeCoupon);
      const place = { uuid: named.uuid, key: erasureCouponKey(named.uuid, named.id) };
      if (looked.kind === "unreadable") this.#parts.findings.add("coupon_unreadable", place, looked.why);
      // A marker without a coupon is either under way or left by a crash: nodes tell the two apart.
      if (looked.kind === "sound") this.#erasure(looked.value, { ...place, database: looked.value.database });
    }
  }

  #erasure({ id, status, graceUntilMs, waitingFor }: ErasureCoupon, place: FindingPlace): void {
    const { world, findings } = this.#parts;
    if (status === "completed") return;
    if (status === "blocked") return findings.add("erasure_blocked", place, `the erasure ${id} is blocked`);
    const isLate = world.nowMs() > graceUntilMs + erasureLateMs;
    findings.add(
      isLate ? "erasure_late" : "erasure_unfinished",
      place,
      `the erasure ${id} is ${status}${waitingFor === undefined ? "" : `: ${waitingFor}`}`,
    );
  }

  #unwritten(uuid: string, database: string): void {
    const place = { uuid, database, key: databasePrefix(uuid) };
    const isLost = this.#traces.written.has(uuid) && !this.#traces.purges.has(uuid);
    this.#parts.findings.add(isLost ? "database_lost" : "claim_unwritten", place, "there is no object of the database");
  }

  async #examineDatabase(uuid: string, name: string | undefined, alone: boolean): Promise<void> {
    const { scratchDirectory, source, findings } = this.#parts;
    const inventory = await takeInventory(source(uuid), scratchDirectory !== undefined);
    this.look.databases++;
    this.look.branches += inventory.branches.filter(({ listed: branch }) => branch !== undefined).length;
    this.look.objects += inventory.objects;
    this.look.bytes += inventory.bytes;
    this.look.proven += inventory.proven;
    const place = { uuid, database: name };
    if (inventory.objects === 0) return this.#unwritten(uuid, name ?? uuid);
    if (this.#isDeleted(inventory, name))
      return findings.add(
        "database_deleted",
        place,
        `${inventory.objects} objects of ${inventory.bytes} bytes are left`,
      );
    if (name === undefined && !alone)
      findings.add(
        isUnwritten(inventory) ? "database_spare" : "database_unclaimed",
        place,
        `no name leads to this database of ${inventory.objects} objects and ${inventory.bytes} bytes`,
      );
    if (name !== undefined && this.#traces.purges.has(uuid))
      findings.add("purge_unneeded", place, "the database has its name still");
    reportDatabase(findings, inventory, place);
    for (const branch of inventory.branches) await this.#restore(branch, inventory, place);
  }

  #isDeleted({ catalog, uuid }: DatabaseInventory, name: string | undefined): boolean {
    return (
      (catalog.kind === "sound" && catalog.value.deletedAtMs !== undefined) ||
      (name === undefined && this.#traces.purges.has(uuid))
    );
  }

  /** Restores the newest state of a branch that nothing is known to be missing of. */
  async #restore(branch: BranchInventory, { uuid, faults }: DatabaseInventory, place: FindingPlace): Promise<void> {
    const { scratchDirectory, source, world, findings } = this.#parts;
    if (scratchDirectory === undefined || branch.manifest.kind !== "sound" || branch.listed === undefined) return;
    const manifest = branch.manifest.value;
    if (manifest.refs.length === 0 || manifest.refs.some(({ id }) => faults.has(`seg/${id}`))) return;
    try {
      await checkNewest({ source: source(uuid), world, scratchDirectory }, manifest);
      this.look.restored++;
    } catch (error) {
      if (!(error instanceof StoreError) || error.kind !== "corrupt") throw error;
      findings.add("state_unsound", { ...place, branch: branch.listed.name }, error.message);
    }
  }
}

/** Whether the database is whole, or only begun, and nothing was ever written into it. */
function isUnwritten({ catalog, branches }: DatabaseInventory): boolean {
  return (
    catalog.kind === "sound" &&
    branches.length <= 1 &&
    branches.every(
      ({ manifest }) =>
        (manifest.kind === "sound" && manifest.value.txid === 0) ||
        (manifest.kind === "missing" && !isWritten(catalog.value)),
    )
  );
}
