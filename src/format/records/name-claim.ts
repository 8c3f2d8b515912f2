/**
 * The object that gives a database its name: `names/<database>.json`.
 *
 * | field      | type    | meaning                                                                    |
 * |------------|---------|----------------------------------------------------------------------------|
 * | v          | integer | format version, 1                                                          |
 * | uuid       | string  | identity of the database that holds (or last held) the name                |
 * | created_at | integer | Unix ms                                                                    |
 * | deleted_at | integer | Unix ms; present makes the object a tombstone: the name is free again, and |
 * |            |         | write tokens minted before this time are void                              |
 * | freed_at   | integer | Unix ms; when the name was last taken from a database before this one      |
 * | deletion   | integer | the number, in its namespace, of the deletion that made the name free last |
 *
 * `freed_at` and `deletion` came later than the rest. A claim without `freed_at` is read as one of a name that no
 * database has lost before; one without `deletion` is judged by its times. The uuid is given here, by a conditional
 * create, so that two nodes that race for one name agree on one database.
 */
import { encodeUtf8, decodeUtf8 } from "../../base/bytes.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { isObject } from "../core/json-shape.ts";
import { formats, requireVersion } from "../core/versions.ts";

export interface NameClaim {
  readonly uuid: string;
  readonly createdAtMs: number;
  readonly deletedAtMs: number | undefined;
  /** When the name was last taken from a database before this one, so that its tokens stay void in the next life. */
  readonly freedAtMs?: number | undefined;
  /**
   * The number of the newest deletion of a database of this name (control/databases/deletion-counts); undefined when
   * none is known.
   */
  readonly deletion?: number | undefined;
}

export function encodeNameClaim(claim: NameClaim): Uint8Array {
  return encodeUtf8(
    JSON.stringify({
      v: formats.nameClaim.writes[0],
      uuid: claim.uuid,
      created_at: claim.createdAtMs,
      deleted_at: claim.deletedAtMs,
      freed_at: claim.freedAtMs,
      deletion: claim.deletion,
    }),
  );
}

/**
 * Throws StoreError("corrupt") for anything that is not a claim, NewerFormat for one of a newer build: never "no such
 * database".
 */
export function decodeNameClaim(bytes: Uint8Array): NameClaim {
  const value = parseJson(bytes);
  if (!isObject(value)) throw new StoreError("corrupt", "a database name claim is no JSON object");
  const { v, uuid, created_at: createdAtMs, deleted_at: deletedAtMs, freed_at: freedAtMs, deletion } = value;
  requireVersion(formats.nameClaim, v);
  if (
    typeof uuid !== "string" ||
    !Number.isSafeInteger(createdAtMs) ||
    ![deletedAtMs, freedAtMs, deletion].every((time) => time === undefined || Number.isSafeInteger(time))
  ) {
    throw new StoreError("corrupt", "a database name claim has an unknown form");
  }
  return {
    uuid,
    createdAtMs: createdAtMs as number,
    deletedAtMs: deletedAtMs as number | undefined,
    freedAtMs: freedAtMs as number | undefined,
    deletion: deletion as number | undefined,
  };
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(decodeUtf8(bytes) ?? "");
  } catch (error) {
    throw new StoreError("corrupt", "a database name claim is not JSON", { cause: error });
  }
}
