/**
 * The kinds of things at rest that can be told of: how each is known, and who tells of it.
 *
 * Always true: a key says which kind its object must be, so that an object of another kind under it is damaged; bytes
 * without a key are known by their magic or by their members. Nothing that is told is content of a tenant. Must not
 * know: where the bytes came from, how an account is written.
 */
import { computeSha256 } from "../../format/core/seal.ts";
import { isUnreadable } from "../../format/core/versions.ts";
import { uuidText } from "../../format/core/ids.ts";
import { parseAuditKey } from "../../format/audit/audit-keys.ts";
import { parseCopyKey } from "../../format/keys/node-keys.ts";
import {
  backupManifestKey,
  parseNameClaimKey,
  isBranchId,
  parseErasureKey,
  parsePoolId,
  storeFormatKey,
} from "../../format/keys/object-keys.ts";
import { hex, size, type Account } from "./account.ts";
import { buildCatalogAccount, buildHistoryAccount, buildManifestAccount } from "./branch-kinds.ts";
import { buildCouponAccount, buildReceiptAccount } from "./erasure-kinds.ts";
import {
  buildAuditAccount,
  buildBackupAccount,
  buildCopyAccount,
  parseJsonObject,
  buildLayoutAccount,
  buildNameClaimAccount,
} from "./record-kinds.ts";
import { buildSegmentAccount, segmentMagic } from "./segment-kind.ts";
import { findShellDamage, buildShellFields } from "./shell.ts";

/** Throws StoreError("corrupt") and NewerFormat. */
type Tell = (bytes: Uint8Array) => Account;

interface Kind {
  /** The object's key, with `<…>` for what varies; undefined for what is no object of its own. */
  readonly key?: string;
  readonly isKey?: (key: string) => boolean;
  /** What the bytes of a binary one begin with. */
  readonly magic?: string;
  /** Whether a JSON object is one. */
  readonly isJson?: (value: Readonly<Record<string, unknown>>) => boolean;
  readonly tell: Tell;
}

/** What a database's folder holds, by what follows its uuid. */
function inDatabase(rest: RegExp, isRight: (name: string) => boolean = () => true): (key: string) => boolean {
  const pattern = new RegExp(`^db/${uuidText}/${rest.source}$`);
  return (key) => {
    const found = pattern.exec(key);
    return found !== null && isRight(found[1] ?? "");
  };
}

function isPoolId(id: string): boolean {
  return parsePoolId(id) !== undefined;
}

const kinds = {
  manifest: {
    key: "db/<uuid>/head/<branch id>",
    isKey: inDatabase(/head\/(.+)/, isBranchId),
    magic: "PLHD",
    tell: buildManifestAccount,
  },
  segment: {
    key: "db/<uuid>/seg/<id>",
    isKey: inDatabase(/seg\/(.+)/, isPoolId),
    magic: segmentMagic,
    tell: buildSegmentAccount,
  },
  history: {
    key: "db/<uuid>/hist/<id>",
    isKey: inDatabase(/hist\/(.+)/, isPoolId),
    magic: "PLHI",
    tell: buildHistoryAccount,
  },
  catalog: { key: "db/<uuid>/catalog", isKey: inDatabase(/catalog/), magic: "PLCA", tell: buildCatalogAccount },
  name_claim: {
    key: "names/<database>.json",
    isKey: (key) => parseNameClaimKey(key) !== undefined,
    isJson: (value) => "uuid" in value && "created_at" in value && !("copy" in value),
    tell: buildNameClaimAccount,
  },
  coupon: {
    key: "erasures/<uuid>/<id>",
    isKey: (key) => key.startsWith("erasures/") && parseErasureKey(key) !== undefined,
    isJson: (value) => "sum" in value,
    tell: buildCouponAccount,
  },
  receipt: { isJson: (value) => "payload" in value && "sig" in value, tell: buildReceiptAccount },
  copy_record: {
    key: "copies/<uuid>/<node>/<copy>",
    isKey: (key) => parseCopyKey(key) !== undefined,
    isJson: (value) => "copy" in value && "node" in value,
    tell: buildCopyAccount,
  },
  audit: {
    key: "audit/<ns>/<day>/<id>",
    isKey: (key) => parseAuditKey(key) !== undefined,
    isJson: (value) => "prev" in value && "action" in value,
    tell: buildAuditAccount,
  },
  backup: {
    key: backupManifestKey,
    isKey: (key) => key === backupManifestKey,
    isJson: (value) => "state" in value && "signing_key" in value,
    tell: buildBackupAccount,
  },
  layout: {
    key: storeFormatKey,
    isKey: (key) => key === storeFormatKey,
    isJson: (value) => "layout" in value,
    tell: buildLayoutAccount,
  },
} as const satisfies Record<string, Kind>;

export type KindName = keyof typeof kinds;

const table: readonly (readonly [KindName, Kind])[] = Object.entries(kinds) as [KindName, Kind][];

/** The keys that can be told of, for messages. */
export const toldKeys: readonly string[] = table.flatMap(([, { key }]) => key ?? []);
/** The kinds, for messages. */
export const toldKinds: readonly string[] = table.map(([name]) => name);

/** Which kind of object the key is of; undefined for one that cannot be told of. */
export function findKindByKey(key: string): KindName | undefined {
  return table.find(([, { isKey }]) => isKey?.(key))?.[0];
}

/** Which kind of object the bytes are; undefined for none that can be told of. */
export function findKindByBytes(bytes: Uint8Array): KindName | undefined {
  const start = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(4, bytes.length)).toString("latin1");
  const binary = table.find(([, { magic }]) => magic === start);
  if (binary) return binary[0];
  const value = tryParseJson(bytes);
  return value && table.find(([, { isJson }]) => isJson?.(value))?.[0];
}

/** The JSON object that the bytes are, or that their first line is. */
function tryParseJson(bytes: Uint8Array): Readonly<Record<string, unknown>> | undefined {
  const end = bytes.indexOf(0x0a);
  for (const part of end < 0 ? [bytes] : [bytes, bytes.subarray(0, end)]) {
    try {
      return parseJsonObject(part, "it");
    } catch (error) {
      if (!isUnreadable(error)) throw error;
    }
  }
  return undefined;
}

/** The account of an object of this kind; what cannot be read is an account of what is wrong. */
export function buildAccount(name: KindName, bytes: Uint8Array): Account {
  const { tell, magic }: Kind = kinds[name];
  const common = {
    bytes: size(bytes.length),
    sha256: hex(computeSha256(bytes)),
    ...(magic === undefined ? {} : buildShellFields(bytes)),
  };
  try {
    const { fields, tables, damage } = tell(bytes);
    return { fields: { ...common, ...fields }, tables, damage };
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    const where = magic === undefined ? [] : findShellDamage(bytes, magic);
    return { fields: common, tables: {}, damage: [error.message, ...where] };
  }
}
