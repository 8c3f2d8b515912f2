/**
 * A node's copy of a database on its own disk, as the other nodes see it: `copies/<uuid>/<node>/<copy>`.
 *
 * | member     | type    | meaning                                                                       |
 * |------------|---------|-------------------------------------------------------------------------------|
 * | v          | integer | format version, 1                                                             |
 * | node, copy | string  | the node's identity, and the copy's, as in the key                            |
 * | name       | string  | the node's name, for people                                                   |
 * | created_at | integer | Unix ms; no file of the copy is older                                         |
 * | purged     | object  | `{at, files_removed}` once the node has removed it: its word, for the receipt |
 * | forgotten_at | integer | Unix ms; when an operator has said that the node never comes back           |
 *
 * Always true: the object exists before the first file of the copy does, and says `purged` only after the last one is
 * gone. It changes once at most: to the one or the other.
 */
import { encodeUtf8, decodeUtf8 } from "../../base/bytes.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { isCount, isObject, isText, isTimeMs, matching, maybe, oneOf, shapeOf, textThat } from "../core/json-shape.ts";
import { isNodeId, isUlid } from "../core/ids.ts";
import type { CopyPlace } from "../keys/node-keys.ts";
import { formats, requireVersion } from "../core/versions.ts";

export const copyRecordBytesMax = 4 * 1024;

export interface CopyRecord extends CopyPlace {
  /** The node's name, for people. */
  readonly name: string;
  readonly createdAtMs: number;
  /** When the node had removed the copy, and how many files that were; undefined while it may be there. */
  readonly purged: { readonly atMs: number; readonly filesRemoved: number } | undefined;
  /** When an operator has said that the node never comes back and its disk is destroyed. */
  readonly forgottenAtMs?: number | undefined;
}

const isRecord = shapeOf({
  v: oneOf(...formats.copyRecord.reads),
  uuid: matching(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/),
  node: textThat(isNodeId),
  copy: textThat(isUlid),
  name: isText,
  created_at: isTimeMs,
  purged: maybe(shapeOf({ at: isTimeMs, files_removed: isCount })),
  forgotten_at: maybe(isTimeMs),
});

/** What isRecord takes. */
interface RecordFields {
  readonly v: 1;
  readonly uuid: string;
  readonly node: string;
  readonly copy: string;
  readonly name: string;
  readonly created_at: number;
  readonly purged?: { readonly at: number; readonly files_removed: number } | undefined;
  readonly forgotten_at?: number | undefined;
}

/** Whether the copy may be there, and its node can purge it. */
export function isStanding({ purged, forgottenAtMs }: CopyRecord): boolean {
  return purged === undefined && forgottenAtMs === undefined;
}

/** The object of a copy. */
export function encodeCopyRecord({
  uuid,
  node,
  copy,
  name,
  createdAtMs,
  purged,
  forgottenAtMs,
}: CopyRecord): Uint8Array {
  const said = {
    purged: purged && { at: purged.atMs, files_removed: purged.filesRemoved },
    forgotten_at: forgottenAtMs,
  };
  const fields: RecordFields = {
    v: formats.copyRecord.writes[0],
    uuid,
    node,
    copy,
    name,
    created_at: createdAtMs,
    ...said,
  };
  return encodeUtf8(JSON.stringify(fields));
}

/** Throws StoreError("corrupt") for anything but a copy, NewerFormat for one of a newer build: never "no copy". */
export function decodeCopyRecord(bytes: Uint8Array): CopyRecord {
  const value = bytes.length <= copyRecordBytesMax ? parseJson(bytes) : undefined;
  if (isObject(value)) requireVersion(formats.copyRecord, value["v"]);
  if (!isRecord(value)) throw new StoreError("corrupt", "the record of a node's copy has an unknown form");
  const {
    uuid,
    node,
    copy,
    name,
    created_at: createdAtMs,
    purged,
    forgotten_at: forgottenAtMs,
  } = value as RecordFields;
  return {
    uuid,
    node,
    copy,
    name,
    createdAtMs,
    purged: purged && { atMs: purged.at, filesRemoved: purged.files_removed },
    forgottenAtMs,
  };
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(decodeUtf8(bytes) ?? "");
  } catch (error) {
    throw new StoreError("corrupt", "the record of a node's copy is not JSON", { cause: error });
  }
}
