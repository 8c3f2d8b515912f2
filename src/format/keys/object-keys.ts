/**
 * Where things lie in object storage. No object's name has a tenant's content, topic or key in it.
 *
 * | key                    | content                                              | owner of the format               |
 * |------------------------|------------------------------------------------------|-----------------------------------|
 * | `names/<database>.json` | the claim of a database name                         | format/records/name-claim        |
 * | `db/<uuid>/catalog`    | branches and condemned objects                       | format/history/catalog            |
 * | `db/<uuid>/head/<branch>` | what a branch consists of now                        | format/history/manifest        |
 * | `db/<uuid>/seg/<id>`   | page data; the pool that all branches draw from      | format/history/segment            |
 * | `db/<uuid>/hist/<id>`  | past timelines of a branch and its named checkpoints | format/history/history            |
 * | `keys/signing`         | the signing key of the fleet, where it is kept here  | control/access/signing-key        |
 * | `keys/public/<kid>`    | a public key that a node has signed with             | control/access/key-set            |
 * | `purges/<uuid>`        | a deleted database whose objects are to be removed   | the node that purges it           |
 * | `policies/<ns>/namespace` | the policy of a namespace                            | format/records/policy          |
 * | `policies/<ns>/profiles/<profile>` | what a profile demands beyond it                     | format/records/policy |
 * | `audit/<ns>/<day>/<id>` | events of a namespace, one flush of one node         | format/audit/audit-object        |
 * | `erasures/<uuid>/<id>` | the coupon of an erasure                             | format/erasure/erasure-coupon     |
 * | `erasing/<uuid>/<id>`  | an erasure that is not complete                      | control/databases/erasure-coupons |
 * | `copies/<uuid>/<node>/<copy>` | a node's local copy of a database                    | format/records/copy-record |
 * | `orders/<node>/<uuid>/<copy>` | the order to purge a copy | control/databases/copy-records |
 * | `hooks/<uuid>/<id>`    | a webhook, and how far it has come                   | format/records/webhook            |
 * | `deletions/<ns>`       | the number of a namespace's newest deletion          | control/databases/deletion-counts |
 * | `revoked/<time>/<jti>/<db or ns>/<name>` | a revoked token, and until when | control/access/revocations |
 * | `forgotten/<node>`     | a node that never comes back                         | control/databases/copy-records    |
 * | `nodes/<node>/<name>`  | the name that a node goes by, base64url in the key   | control/databases/node-names      |
 * | `format.json`          | the version of all of this                           | store/store-format                |
 * | `due/<hour>/<uuid>/<branch>` | a branch with something that has expired | control/databases/expiry-index |
 * | `backup`               | that this is a backup, or is being restored from one | format/records/backup-manifest    |
 *
 * The table covers the whole layout. Keys that say something by themselves have files of their own:
 * format/audit/audit-keys, expiry-keys, node-keys (`copies/`, `orders/`, `nodes/`, `forgotten/`), revocation-keys.
 *
 * Always true: the objects of `seg/` and `hist/` never change; their id says who wrote them, and no id is given twice.
 */
import { assert } from "../../base/faults/assert.ts";
import type { ByteReader, ByteWriter } from "../core/binary.ts";
import { isUlid, ulidText, uuidText } from "../core/ids.ts";
import { isNamePart, mainBranch } from "../core/names.ts";

/** A ULID, or `main`. */
const branchIdBytesMax = 26;
/** An id of the pool is a branch id, an epoch and a ULID; its key adds a folder. */
const poolIdBytesMax = 80;

/** What the whole store says of its layout. */
export const storeFormatKey = "format.json";

/** The folder of name claims, one small object per database name. */
export const nameClaimPrefix = "names/";

/** The folder of deleted databases whose objects are still to be removed. */
export const purgePrefix = "purges/";

/** The signing key of the fleet, where it is kept in object storage. */
export const signingKeyKey = "keys/signing";

/** The folder of the public keys that nodes have signed with. */
export const publicKeyPrefix = "keys/public/";

/** A public key that a node has signed with, by its thumbprint. */
export function publicKeyKey(kid: string): string {
  return `${publicKeyPrefix}${kid}`;
}

/** The folder of all policies. */
export const policyPrefix = "policies/";

const namespacePolicyEnding = "/namespace";

/** The policy of a namespace. */
export function namespacePolicyKey(namespace: string): string {
  return `${policyPrefix}${namespace}${namespacePolicyEnding}`;
}

/** The namespace of a namespace policy's key, or undefined for a profile's policy or a foreign object. */
export function parseNamespacePolicyKey(key: string): string | undefined {
  if (!key.startsWith(policyPrefix) || !key.endsWith(namespacePolicyEnding)) return undefined;
  const namespace = key.slice(policyPrefix.length, -namespacePolicyEnding.length);
  return isNamePart(namespace) ? namespace : undefined;
}

/** What a profile demands of itself beyond its namespace's policy. */
export function profilePolicyKey(namespace: string, profile: string): string {
  return `${policyPrefix}${namespace}/profiles/${profile}`;
}

/** The claim of a database name: who owns it now, or the tombstone of who last did. */
export function nameClaimKey(databaseName: string): string {
  return `${nameClaimPrefix}${databaseName}.json`;
}

/** The database name of a claim's key, or undefined for a foreign object. */
export function parseNameClaimKey(key: string): string | undefined {
  if (!key.startsWith(nameClaimPrefix) || !key.endsWith(".json")) return undefined;
  return key.slice(nameClaimPrefix.length, -".json".length);
}

/** The folder of all databases' objects. */
export const databasesPrefix = "db/";

/** What a backup says of itself. A store that has it is no store of a node. */
export const backupManifestKey = "backup";

/** The folder of everything that a database consists of. */
export function databasePrefix(uuid: string): string {
  return `${databasesPrefix}${uuid}/`;
}

/** What a branch consists of now. */
export function manifestKey(uuid: string, branchId: string): string {
  return `${databasePrefix(uuid)}head/${branchId}`;
}

/** A database's branches and condemned objects. */
export function catalogKey(uuid: string): string {
  return `${databasePrefix(uuid)}catalog`;
}

/** Page data of the pool. */
export function segmentKey(uuid: string, id: string): string {
  return `${databasePrefix(uuid)}seg/${id}`;
}

/** A branch's past. */
export function historyKey(uuid: string, id: string): string {
  return `${databasePrefix(uuid)}hist/${id}`;
}

/** The order to remove a deleted database's objects. */
export function purgeKey(uuid: string): string {
  return `${purgePrefix}${uuid}`;
}

/** The folder of all erasures that are not complete, so that a node that starts finds them by one listing. */
export const erasingPrefix = "erasing/";

/** The coupons of a database. Ids sort by the time of the request. */
export function erasureCouponPrefix(uuid: string): string {
  return `erasures/${uuid}/`;
}

/** The coupon of an erasure. */
export function erasureCouponKey(uuid: string, id: string): string {
  return `${erasureCouponPrefix(uuid)}${id}`;
}

/** The erasures of a database that are not complete. */
export function erasureMarkerPrefix(uuid: string): string {
  return `${erasingPrefix}${uuid}/`;
}

/** The sign that an erasure is not complete. */
export function erasureMarkerKey(uuid: string, id: string): string {
  return `${erasureMarkerPrefix(uuid)}${id}`;
}

/** The folder of all webhooks, so that a node finds those in its shards by one listing. */
export const webhooksPrefix = "hooks/";

/** The webhooks of a database. Ids sort by the time at which they were made. */
export function webhookPrefix(uuid: string): string {
  return `${webhooksPrefix}${uuid}/`;
}

/** A webhook. */
export function webhookKey(uuid: string, id: string): string {
  return `${webhookPrefix(uuid)}${id}`;
}

/** The webhook of the key, or undefined for a foreign object. */
export function parseWebhookKey(key: string): { readonly uuid: string; readonly id: string } | undefined {
  const [, uuid, id] = webhookKeyPattern.exec(key) ?? [];
  return uuid === undefined || id === undefined ? undefined : { uuid, id };
}

/** The folder of the numbers of deletions. */
export const deletionCountPrefix = "deletions/";

/** The number of the newest deletion of a database in a namespace. */
export function deletionCountKey(namespace: string): string {
  return `${deletionCountPrefix}${namespace}`;
}

const poolIdPattern = new RegExp(`^(${mainBranch}|${ulidText})-(0|[1-9][0-9]{0,15})-(${ulidText})$`);
const webhookKeyPattern = new RegExp(`^hooks/(${uuidText})/(whk_${ulidText})$`);
const erasureKeyPattern = new RegExp(`^(?:erasures|erasing)/(${uuidText})/(ers_${ulidText})$`);

/** The erasure that the key of a coupon or of a marker belongs to, or undefined for a foreign object. */
export function parseErasureKey(key: string): { readonly uuid: string; readonly id: string } | undefined {
  const [, uuid, id] = erasureKeyPattern.exec(key) ?? [];
  return uuid === undefined || id === undefined ? undefined : { uuid, id };
}

/** Whether the text can be a branch's id: `main` or a ULID. */
export function isBranchId(text: string): boolean {
  return text === mainBranch || isUlid(text);
}

/** Who wrote an object of the pool: the branch, its epoch then, and when within it. */
export interface PoolId {
  readonly branchId: string;
  readonly epoch: number;
  readonly ulid: string;
}

/** The id of an object that a branch's writer adds to the pool or to its history. */
export function poolId(branchId: string, epoch: number, ulid: string): string {
  return `${branchId}-${epoch}-${ulid}`;
}

/** The parts of an id, or undefined for a foreign object. */
export function parsePoolId(id: string): PoolId | undefined {
  const [, branchId, digits, ulid] = poolIdPattern.exec(id) ?? [];
  const epoch = Number(digits);
  if (branchId === undefined || ulid === undefined || !Number.isSafeInteger(epoch)) return undefined;
  return { branchId, epoch, ulid };
}

/** Writes a branch's id into a format at rest. */
export function writeBranchId(writer: ByteWriter, branchId: string): void {
  assert(isBranchId(branchId), "a branch's id is main or a ULID");
  writer.text(branchId, branchIdBytesMax);
}

/** Reads what writeBranchId wrote. */
export function readBranchId(reader: ByteReader): string {
  const branchId = reader.text(branchIdBytesMax);
  reader.require(isBranchId(branchId), "a branch's id is neither main nor a ULID");
  return branchId;
}

/** Writes the id of an object of `seg/` or `hist/` into a format at rest. */
export function writePoolId(writer: ByteWriter, id: string): void {
  assert(parsePoolId(id) !== undefined, "an object's id says which branch and epoch it is of");
  writer.text(id, poolIdBytesMax);
}

/** Reads what writePoolId wrote. */
export function readPoolId(reader: ByteReader): string {
  const id = reader.text(poolIdBytesMax);
  reader.require(parsePoolId(id) !== undefined, "an object's id does not say which branch and epoch it is of");
  return id;
}
