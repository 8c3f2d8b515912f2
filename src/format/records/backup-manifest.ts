/**
 * What a backup says of itself, in the object `backup` beside everything that it holds: JSON.
 *
 * | member      | type    | meaning                                                                          |
 * |-------------|---------|----------------------------------------------------------------------------------|
 * | v           | integer | format version, 1                                                                |
 * | id          | string  | a ULID of the run                                                                |
 * | state       | string  | `copying`; `complete`; `restoring` in a store that is being filled from a backup |
 * | from        | string  | where it was copied from, without credentials                                    |
 * | scope       | array   | names of databases; absent when it is of all                                     |
 * | started_at, completed_at | integer | Unix ms; the second on complete ones only                           |
 * | databases, branches, objects, bytes | integer | what it holds, on complete ones only                     |
 * | verified    | string  | `sample` or `restore`: which newest states were restored, on complete ones only  |
 * | signing_key | boolean | whether it holds the fleet's signing key                                         |
 *
 * Always true: it says `complete` only after everything was copied and verified. A node refuses a store that has it.
 */
import { encodeUtf8, decodeUtf8 } from "../../base/bytes.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { isCount, isObject, isText, isTimeMs, listOf, maybe, oneOf, shapeOf, textThat } from "../core/json-shape.ts";
import { isUlid } from "../core/ids.ts";
import { formats, requireVersion } from "../core/versions.ts";

const backupManifestBytesMax = 64 * 1024;

/** What was restored to prove a backup: the newest states of some branches, or of all. */
export type BackupProof = "sample" | "restore";

/** What a backup holds. */
interface BackupCounts {
  readonly databases: number;
  readonly branches: number;
  /** Immutable objects that manifests and histories refer to. */
  readonly objects: number;
  readonly bytes: number;
}

export interface BackupManifest {
  /** A ULID of the run. */
  readonly id: string;
  readonly state: "copying" | "complete" | "restoring";
  /** Where it was copied from, without credentials. */
  readonly from: string;
  /** Names of databases; undefined for all. */
  readonly scope: readonly string[] | undefined;
  readonly startedAtMs: number;
  readonly signingKey: boolean;
  /** Of a complete one. */
  readonly done?: (BackupCounts & { readonly completedAtMs: number; readonly verified: BackupProof }) | undefined;
}

/** What isManifest takes. */
interface ManifestFields {
  readonly v: 1;
  readonly id: string;
  readonly state: BackupManifest["state"];
  readonly from: string;
  readonly scope?: readonly string[] | undefined;
  readonly started_at: number;
  readonly signing_key: boolean;
  readonly completed_at?: number | undefined;
  readonly databases?: number | undefined;
  readonly branches?: number | undefined;
  readonly objects?: number | undefined;
  readonly bytes?: number | undefined;
  readonly verified?: BackupProof | undefined;
}

const isManifest = shapeOf({
  v: oneOf(...formats.backup.reads),
  id: textThat(isUlid),
  state: oneOf("copying", "complete", "restoring"),
  from: isText,
  scope: maybe(listOf(isText, limits.backupScopeMax)),
  started_at: isTimeMs,
  signing_key: oneOf(true, false),
  completed_at: maybe(isTimeMs),
  databases: maybe(isCount),
  branches: maybe(isCount),
  objects: maybe(isCount),
  bytes: maybe(isCount),
  verified: maybe(oneOf("sample", "restore")),
});

export function encodeBackupManifest({
  id,
  state,
  from,
  scope,
  startedAtMs,
  signingKey,
  done,
}: BackupManifest): Uint8Array {
  const counts = done && {
    completed_at: done.completedAtMs,
    databases: done.databases,
    branches: done.branches,
    objects: done.objects,
    bytes: done.bytes,
    verified: done.verified,
  };
  const fields: ManifestFields = {
    v: 1,
    id,
    state,
    from,
    scope,
    started_at: startedAtMs,
    signing_key: signingKey,
    ...counts,
  };
  return encodeUtf8(JSON.stringify(fields));
}

/** Throws StoreError("corrupt") for anything but a manifest, NewerFormat for one of a newer build. */
export function decodeBackupManifest(bytes: Uint8Array): BackupManifest {
  const value = bytes.length <= backupManifestBytesMax ? parseJson(bytes) : undefined;
  if (isObject(value)) requireVersion(formats.backup, value["v"]);
  if (!isManifest(value)) throw new StoreError("corrupt", "what a backup says of itself has an unknown form");
  const {
    id,
    state,
    from,
    scope,
    started_at: startedAtMs,
    signing_key: signingKey,
    completed_at: completedAtMs,
    databases,
    branches,
    objects,
    bytes: size,
    verified,
  } = value as ManifestFields;
  const isDone =
    completedAtMs !== undefined &&
    databases !== undefined &&
    branches !== undefined &&
    objects !== undefined &&
    size !== undefined &&
    verified !== undefined;
  if (state === "complete" && !isDone)
    throw new StoreError("corrupt", "a backup calls itself complete and does not say what it holds");
  return {
    id,
    state,
    from,
    scope,
    startedAtMs,
    signingKey,
    done: isDone ? { completedAtMs, databases, branches, objects, bytes: size, verified } : undefined,
  };
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(decodeUtf8(bytes) ?? "");
  } catch (error) {
    throw new StoreError("corrupt", "what a backup says of itself is not JSON", { cause: error });
  }
}
