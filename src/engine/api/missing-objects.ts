/**
 * What is wrong when object storage lacks what it must have, or was put back to an older state than this node has seen.
 *
 * Always true of both: waiting does not help, and nothing is deleted, forgotten or taken for empty because of it. The
 * message names the object and says what an operator can do; it never holds content.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { catalogKey, manifestKey } from "../../format/keys/object-keys.ts";

/** An object that must be there is not. */
export class LostObject extends StoreError {
  constructor(what: string) {
    super("corrupt", what);
  }
}

/** The branch's manifest, which a catalog, a local file or this node's memory says was there. */
export function lostManifest(uuid: string, branchId: string): LostObject {
  return new LostObject(
    `the branch's manifest is missing from object storage (${manifestKey(uuid, branchId)}): it must be put back or ` +
      "rebuilt, or the branch or its database deleted; until then nothing of the database is collected",
  );
}

/** The object at the key of a branch's manifest is not one that was written. */
export function brokenManifest(uuid: string, branchId: string, { kind, message }: StoreError): StoreError {
  return new StoreError(
    kind,
    `${message} (${manifestKey(uuid, branchId)}): an earlier version of it must be put back or it must be ` +
      "rebuilt, or the branch or its database deleted",
  );
}

/** The catalog of a database that has been written. */
export function lostCatalog(uuid: string): LostObject {
  return new LostObject(
    `the database's catalog is missing from object storage (${catalogKey(uuid)}), and with it which ` +
      "branches there are: it must be put back or rebuilt; until then only main is served, and nothing of the " +
      "database is collected",
  );
}

/** Object storage gives an older state than this node has seen. */
export class StoreWentBack extends StoreError {
  constructor(what: string) {
    super("corrupt", what);
  }
}

/**
 * `place`: the epoch and number of what object storage has; `seen`: of what this node has seen, if that is how it is
 * known.
 */
export function wentBack(uuid: string, key: string, place: string, seen: string): StoreWentBack {
  return new StoreWentBack(
    `object storage was put back to an older state than this node has seen of ${key} (${place}, ` +
      `seen: ${seen}): put the newer state back, or accept its loss with --accept-rollback ${uuid}`,
  );
}

/** A manifest that can be read and does not say what it must. Nothing is wrong with the local file for it. */
export class UnusableManifest extends StoreError {
  constructor(what: string) {
    super("corrupt", what);
  }
}
