/**
 * Where things lie in object storage. No tenant's content, topic or key ever stands in an object's name.
 *
 * | key                      | content                                             | owner of the format   |
 * |--------------------------|-----------------------------------------------------|-----------------------|
 * | `names/<database>.json`  | the claim of a database name                        | format/name-claim     |
 * | `db/<uuid>/catalog`      | branches and condemned objects                      | format/catalog        |
 * | `db/<uuid>/head/<branch>`| what a branch consists of now                       | format/head           |
 * | `db/<uuid>/seg/<id>`     | page data; the pool that all branches draw from     | format/segment        |
 * | `db/<uuid>/hist/<id>`    | past lines of a branch and its named checkpoints    | format/history        |
 * | `keys/signing`           | the signing key of the fleet, where it is kept here | control/signing-key   |
 * | `keys/public/<kid>`      | a public key that a node has signed with            | control/key-set       |
 * | `purges/<uuid>`          | a deleted database whose objects are to be removed  | whoever purges        |
 * | `policies/<ns>/namespace`| the policy of a namespace                           | format/policy         |
 * | `policies/<ns>/profiles/<profile>` | what a profile demands beyond it          | format/policy         |
 * | `audit/<ns>/<day>/<id>`  | events of a namespace, one flush of one node        | format/audit-event    |
 * | `erasures/<uuid>/<id>`   | the coupon of an erasure                            | format/erasure-coupon |
 * | `erasing/<uuid>/<id>`    | an erasure that is not complete                     | control/erasure-coupons |
 * | `copies/<uuid>/<node>/<copy>` | a node's local copy of a database              | format/copy-record    |
 * | `orders/<node>/<uuid>/<copy>` | the order to purge a copy                      | control/copy-records  |
 * | `deletions/<ns>`         | the number of a namespace's newest deletion         | control/deletion-counts |
 * | `revoked/<time>/<jti>/<db or ns>/<name>` | a revoked token, until when it can matter | control/revocations |
 * | `forgotten/<node>`       | a node that never comes back                        | control/copy-records  |
 * | `nodes/<node>/<name>`    | the name that a node goes by, base64url in the key  | control/node-names    |
 * | `format.json`            | the version of all of this                          | store/store-format    |
 * | `due/<hour>/<uuid>/<branch>` | a branch with something that has expired by then | control/due-index    |
 * | `backup`                 | that this is a backup, or is being restored from one | format/backup-manifest |
 *
 * Always true: the objects of `seg/` and `hist/` never change; their id says who wrote them, and no id is given twice.
 */
import { assert } from "../base/assert.ts";
import { limits } from "../base/limits.ts";
import type { ByteReader, ByteWriter } from "./binary.ts";
import { isNamePart, mainBranch } from "./names.ts";

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

/** The folder of all audit streams. */
export const auditPrefix = "audit/";

/** The folder of all policies. */
export const policyPrefix = "policies/";

const namespacePolicyEnding = "/namespace";

/** The policy of a namespace. */
export function namespacePolicyKey(namespace: string): string {
  return `${policyPrefix}${namespace}${namespacePolicyEnding}`;
}

/** The namespace of a namespace policy's key, or undefined for a profile's policy or a foreign object. */
export function namespaceOfPolicyKey(key: string): string | undefined {
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
export function databaseNameOfClaimKey(key: string): string | undefined {
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
export function headKey(uuid: string, branchId: string): string {
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

/** The folder of all copies that nodes have of databases. */
export const copyPrefix = "copies/";

/** The folder of nodes that never come back. */
const forgottenPrefix = "forgotten/";

/** The folder of the numbers of deletions. */
export const deletionCountPrefix = "deletions/";

/** The number of the newest deletion of a database in a namespace. */
export function deletionCountKey(namespace: string): string {
  return `${deletionCountPrefix}${namespace}`;
}

/** The folder of revoked tokens. */
export const revocationPrefix = "revoked/";

/** Whose tokens a revocation is for: a database's own, or a namespace's with those of its profiles. */
export interface RevocationSubject {
  readonly kind: "db" | "ns";
  readonly name: string;
}

/** A revoked token. */
export interface Revocation {
  /** In Unix seconds: no token that it can be of is good after this. */
  readonly expiresAtSecs: number;
  /** The token's id, a ULID. */
  readonly jti: string;
  readonly subject: RevocationSubject;
}

/** The sign that a token is revoked. Keys sort by the time at which they cease to matter. */
export function revocationKey({ expiresAtSecs, jti, subject }: Revocation): string {
  assert(isUlid(jti), "a token's id is a ULID");
  return `${revocationsAfter(expiresAtSecs)}${jti}/${subject.kind}/${subject.name}`;
}

/** What sorts before every revocation that matters at this time, and after the others. */
export function revocationsAfter(atSecs: number): string {
  return `${revocationPrefix}${String(atSecs).padStart(12, "0")}/`;
}

/** What the key revokes, or undefined for a foreign object. */
export function parseRevocationKey(key: string): Revocation | undefined {
  const [, digits, jti, kind, name] = revocationKeyPattern.exec(key) ?? [];
  if (digits === undefined || jti === undefined || kind === undefined || name === undefined) return undefined;
  return { expiresAtSecs: Number(digits), jti, subject: { kind: kind as RevocationSubject["kind"], name } };
}

/** The folder of the names that nodes go by. */
export const nodesPrefix = "nodes/";

/** The folder of what is due. */
export const duePrefix = "due/";

const ulid = "[0-7][0-9A-HJKMNP-TV-Z]{25}";
const ulidPattern = new RegExp(`^${ulid}$`);
const poolIdPattern = new RegExp(`^(${mainBranch}|${ulid})-(0|[1-9][0-9]{0,15})-(${ulid})$`);

const auditKeyPattern = new RegExp(`^${auditPrefix}([a-z0-9_-]+)/(\\d{4}-\\d{2}-\\d{2})/(${ulid})-(${ulid})\\.jsonl$`);
const ulidDigits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const ulidTimeDigits = 10;

/** When a ULID was made, in Unix milliseconds. */
export function ulidTimeMs(id: string): number {
  let timeMs = 0;
  for (const digit of id.slice(0, ulidTimeDigits)) timeMs = timeMs * ulidDigits.length + ulidDigits.indexOf(digit);
  return timeMs;
}

/** The beginning of every ULID that is made in this millisecond. */
function ulidTime(atMs: number): string {
  let text = "";
  for (let rest = atMs; text.length < ulidTimeDigits; rest = Math.floor(rest / ulidDigits.length)) text = ulidDigits[rest % ulidDigits.length]! + text;
  return text;
}

/** Whether the text is a ULID. */
export function isUlid(text: string): boolean {
  return ulidPattern.test(text);
}

const uuidText = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}";
const nodeText = "[A-Za-z0-9_-]{1,64}";
const nodePattern = new RegExp(`^${nodeText}$`);
const copyKeyPattern = new RegExp(`^${copyPrefix}(${uuidText})/(${nodeText})/(${ulid})$`);
const orderKeyPattern = new RegExp(`^orders/(${nodeText})/(${uuidText})/(${ulid})$`);
const dueKeyPattern = new RegExp(`^${duePrefix}(\\d{10})/(${uuidText})/(${mainBranch}|${ulid})$`);
const revocationKeyPattern = new RegExp(`^${revocationPrefix}(\\d{12})/(${ulid})/(db|ns)/([a-z0-9_-]{1,200})$`);
const nodeNameKeyPattern = new RegExp(`^${nodesPrefix}(${nodeText})/([A-Za-z0-9_-]{1,256})$`);
const hourMs = 3_600_000;

/** Whether the text can be a node's identity. */
export function isNodeId(text: string): boolean {
  return nodePattern.test(text);
}

/** Which local copy of which database: a node that purges its copy and makes another gives it another id. */
export interface CopyPlace {
  readonly uuid: string;
  /** The node's identity. */
  readonly node: string;
  /** A ULID. */
  readonly copy: string;
}

/** The copies of a database on all nodes, or on one. */
export function copiesPrefix(uuid: string, node?: string): string {
  return node === undefined ? `${copyPrefix}${uuid}/` : `${copyPrefix}${uuid}/${node}/`;
}

/** A node's copy of a database. */
export function copyKey({ uuid, node, copy }: CopyPlace): string {
  assert(isNodeId(node), "a node's identity is safe in a key");
  return `${copiesPrefix(uuid, node)}${copy}`;
}

/** Whose copy the key is of, or undefined for a foreign object. */
export function parseCopyKey(key: string): CopyPlace | undefined {
  const [, uuid, node, copy] = copyKeyPattern.exec(key) ?? [];
  return uuid === undefined || node === undefined || copy === undefined ? undefined : { uuid, node, copy };
}

/** The copies that a node is to purge. */
export function copyOrderPrefix(node: string): string {
  assert(isNodeId(node), "a node's identity is safe in a key");
  return `orders/${node}/`;
}

/** The order to purge a copy. */
export function copyOrderKey({ uuid, node, copy }: CopyPlace): string {
  return `${copyOrderPrefix(node)}${uuid}/${copy}`;
}

/** Which copy the order is about, or undefined for a foreign object. */
export function parseCopyOrderKey(key: string): CopyPlace | undefined {
  const [, node, uuid, copy] = orderKeyPattern.exec(key) ?? [];
  return uuid === undefined || node === undefined || copy === undefined ? undefined : { uuid, node, copy };
}

/** The sign that a node never comes back. */
export function forgottenNodeKey(node: string): string {
  assert(isNodeId(node), "a node's identity is safe in a key");
  return `${forgottenPrefix}${node}`;
}

/** The sign that a node goes by a name, of which so much is kept as a key can hold. */
export function nodeNameKey(node: string, name: string): string {
  assert(isNodeId(node), "a node's identity is safe in a key");
  return `${nodesPrefix}${node}/${Buffer.from(name.slice(0, limits.nodeNameCharsMax)).toString("base64url")}`;
}

/** Which node goes by which name, or undefined for a foreign object. */
export function parseNodeNameKey(key: string): { readonly node: string; readonly name: string } | undefined {
  const [, node, encoded] = nodeNameKeyPattern.exec(key) ?? [];
  return node === undefined || encoded === undefined ? undefined : { node, name: Buffer.from(encoded, "base64url").toString() };
}

/** A branch of which something is due. */
export interface DuePlace {
  /** Unix milliseconds: the first full hour at which all of it has expired. */
  readonly atMs: number;
  readonly uuid: string;
  readonly branchId: string;
}

/** The first full hour that is not before the time: `2026013117` in UTC. */
function dueHour(atMs: number): string {
  return new Date(Math.ceil(atMs / hourMs) * hourMs).toISOString().slice(0, "2026-01-31T17".length).replaceAll(/[-T]/g, "");
}

/** The entry of a branch of which something is due at `atMs`; all times of one hour give one key. */
export function dueKey({ atMs, uuid, branchId }: DuePlace): string {
  return `${duePrefix}${dueHour(atMs)}/${uuid}/${branchId}`;
}

/** Where the uuid begins in the key of an entry of what is due: behind the hour. */
export const dueUuidAt = duePrefix.length + "2026013117/".length;

/** What sorts after every entry that is due at that time, and before all others. */
export function dueKeysUntil(nowMs: number): string {
  return `${duePrefix}${dueHour(Math.floor(nowMs / hourMs) * hourMs)}~`;
}

/** What the key says is due, or undefined for a foreign object. */
export function parseDueKey(key: string): DuePlace | undefined {
  const [, hour, uuid, branchId] = dueKeyPattern.exec(key) ?? [];
  if (hour === undefined || uuid === undefined || branchId === undefined) return undefined;
  const atMs = Date.parse(`${hour.slice(0, 4)}-${hour.slice(4, 6)}-${hour.slice(6, 8)}T${hour.slice(8, 10)}:00:00Z`);
  return Number.isNaN(atMs) ? undefined : { atMs, uuid, branchId };
}

const memoryIdPattern = new RegExp(`^mem_${ulid}$`);
const erasureIdPattern = new RegExp(`^ers_${ulid}$`);
const erasureKeyPattern = new RegExp(`^(?:erasures|erasing)/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/(ers_${ulid})$`);

/** Whether the value can be a memory's id: `mem_` and a ULID. */
export function isMemoryId(value: unknown): value is string {
  return typeof value === "string" && memoryIdPattern.test(value);
}

/** Whether the value can be an erasure's id: `ers_` and a ULID. */
export function isErasureId(value: unknown): value is string {
  return typeof value === "string" && erasureIdPattern.test(value);
}

/** Which erasure the key of a coupon or of a marker is of, or undefined for a foreign object. */
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
  writer.text(branchId, limits.branchIdBytesMax);
}

/** Reads what writeBranchId wrote. */
export function readBranchId(reader: ByteReader): string {
  const branchId = reader.text(limits.branchIdBytesMax);
  reader.require(isBranchId(branchId), "a branch's id is neither main nor a ULID");
  return branchId;
}

/** Writes the id of an object of `seg/` or `hist/` into a format at rest. */
export function writePoolId(writer: ByteWriter, id: string): void {
  assert(parsePoolId(id) !== undefined, "an object's id says which branch and epoch it is of");
  writer.text(id, limits.poolIdBytesMax);
}

/** Reads what writePoolId wrote. */
export function readPoolId(reader: ByteReader): string {
  const id = reader.text(limits.poolIdBytesMax);
  reader.require(parsePoolId(id) !== undefined, "an object's id does not say which branch and epoch it is of");
  return id;
}

/** The folder of a namespace's audit stream. */
export function auditStreamPrefix(namespace: string): string {
  return `${auditPrefix}${namespace}/`;
}

/** The day of a time, in UTC, as `2026-01-31`. */
export function dayOf(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, "2026-01-31".length);
}

/** One flush of a node into a namespace's audit stream. Keys sort by the time of their first event. */
export interface AuditKey {
  readonly namespace: string;
  /** Of all its events, in UTC. */
  readonly day: string;
  /** The id of its first event. */
  readonly firstId: string;
  /** The identity of the node. */
  readonly node: string;
}

/** The key of one flush. */
export function auditKey({ namespace, day, firstId, node }: AuditKey): string {
  return `${auditStreamPrefix(namespace)}${day}/${firstId}-${node}.jsonl`;
}

/** What sorts after every object whose first event happened before `atMs`, and before all others. */
export function auditKeyAt(namespace: string, atMs: number): string {
  return `${auditStreamPrefix(namespace)}${dayOf(atMs)}/${ulidTime(atMs)}`;
}

/** The parts of a key, or undefined for a foreign object. */
export function parseAuditKey(key: string): AuditKey | undefined {
  const [, namespace, day, firstId, node] = auditKeyPattern.exec(key) ?? [];
  if (namespace === undefined || day === undefined || firstId === undefined || node === undefined) return undefined;
  return { namespace, day, firstId, node };
}
