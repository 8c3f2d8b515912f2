/**
 * The object that gives a database its name: `names/<database>.json`.
 *
 * | field      | type    | meaning                                                                   |
 * |------------|---------|---------------------------------------------------------------------------|
 * | v          | integer | format version, 1                                                         |
 * | uuid       | string  | identity of the database that holds (or last held) the name               |
 * | created_at | integer | Unix ms                                                                   |
 * | deleted_at | integer | Unix ms; present makes the object a tombstone: the name is free again, and |
 * |            |         | write tokens minted before this time are void                             |
 *
 * The uuid is born here, by a conditional create, so that two nodes that race for one name agree on one database.
 */
import { bytesOf, utf8Of } from "../base/bytes.ts";
import { StoreError } from "../base/errors.ts";

export interface NameClaim {
  readonly uuid: string;
  readonly createdAtMs: number;
  readonly deletedAtMs: number | undefined;
}

const formatVersion = 1;

export function encodeNameClaim(claim: NameClaim): Uint8Array {
  return bytesOf(
    JSON.stringify({ v: formatVersion, uuid: claim.uuid, created_at: claim.createdAtMs, deleted_at: claim.deletedAtMs }),
  );
}

/** Throws StoreError("corrupt") for anything that is not a claim of a version we know: never "no such database". */
export function decodeNameClaim(bytes: Uint8Array): NameClaim {
  const text = utf8Of(bytes);
  try {
    const value = JSON.parse(text ?? "") as Record<string, unknown>;
    const { v, uuid, created_at: createdAtMs, deleted_at: deletedAtMs } = value;
    if (v === formatVersion && typeof uuid === "string" && Number.isSafeInteger(createdAtMs)
      && (deletedAtMs === undefined || Number.isSafeInteger(deletedAtMs))) {
      return { uuid, createdAtMs: createdAtMs as number, deletedAtMs: deletedAtMs as number | undefined };
    }
  } catch (error) {
    throw new StoreError("corrupt", "a database name claim is not JSON", { cause: error });
  }
  throw new StoreError("corrupt", "a database name claim has an unknown form or version");
}
