/**
 * The catalog of a database: its branches by name, and the objects that will be deleted.
 *
 * Sealed (format/core/seal, magic PLCA). The body (varints unless said otherwise):
 *
 * | field       | content                                                                            |
 * |-------------|------------------------------------------------------------------------------------|
 * | uuid        | 16 bytes: the database                                                             |
 * | seq         | number of this catalog, one more than the one before                               |
 * | nonce       | 16 bytes, random                                                                   |
 * | createdAtMs |                                                                                    |
 * | branches    | their number, and for each: text name, text id, createdAtMs,                       |
 * |             | parent (one byte: 0 none, 1 one, then: text name, text id, forkTxid),              |
 * |             | ttlAtMs (one byte: 0 none, 1 one, then: Unix ms)                                   |
 * | condemned   | their number, and for each: text key, atMs                                         |
 * | deletedAtMs | one byte: 0 none, 1 one, then: Unix ms                                             |
 *
 * Always true: it is replaced only by compare-and-set; names are unique, `main` first, the others in code unit order.
 * Why forks and garbage collection meet here: what is once condemned may never be referred to again, and a fork that
 * slips in changes the catalog, so the condemning compare-and-set fails.
 */
import { assert } from "../../base/faults/assert.ts";
import { limits } from "../../base/limits.ts";
import type { ByteReader, ByteWriter } from "../core/binary.ts";
import { mainBranch } from "../core/names.ts";
import { readBranchId, writeBranchId } from "../keys/object-keys.ts";
import { decodeSealed, encodeSealed, type SealedFormat } from "../core/seal.ts";
import { formats } from "../core/versions.ts";

export const poolKeyBytesMax = 96;
export const catalogBytesMax = 4 * 1024 * 1024;

export interface CatalogBranch {
  readonly name: string;
  /** Names its manifest; a name that is used again gets another id. */
  readonly id: string;
  readonly createdAtMs: number;
  /** Where it was forked from; undefined for `main`. */
  readonly parent: { readonly name: string; readonly id: string; readonly forkTxid: number } | undefined;
  /** When it ends by itself, Unix ms. */
  readonly ttlAtMs: number | undefined;
}

/** An object that nothing may refer to any more. */
export interface Condemned {
  /** Below `db/<uuid>/`, such as `seg/<id>`. */
  readonly key: string;
  readonly atMs: number;
}

export interface Catalog {
  readonly uuid: string;
  /** Grows by one with each catalog of the database. */
  readonly seq: number;
  /** 16 random bytes: a store's version may be a hash of the content, so no two catalogs may be the same bytes. */
  readonly nonce: Uint8Array;
  readonly createdAtMs: number;
  /** `main` first, then by name. */
  readonly branches: readonly CatalogBranch[];
  readonly condemned: readonly Condemned[];
  /** When the database was deleted, Unix ms. */
  readonly deletedAtMs: number | undefined;
}

const format: SealedFormat = { versions: formats.catalog, magic: "PLCA", bytesMax: catalogBytesMax };
const nonceBytes = 16;

/** The order of branches: below 0 when `left` comes first, 0 when both are one. */
export function compareBranchNames(left: string, right: string): number {
  if (left === right) return 0;
  if (left === mainBranch || right === mainBranch) return left === mainBranch ? -1 : 1;
  return left < right ? -1 : 1;
}

/** The catalog as bytes. Its writer has kept every bound and the order of branches. */
export function encodeCatalog(catalog: Catalog): Uint8Array {
  assert(areInOrder(catalog.branches), "branches stand in order, each name once");
  return encodeSealed(format, (writer) => {
    writer.uuid(catalog.uuid);
    writer.varint(catalog.seq);
    writer.fixed(catalog.nonce, nonceBytes);
    writer.varint(catalog.createdAtMs);
    writer.list(catalog.branches, limits.branchesMax, (branch) => writeBranch(writer, branch));
    writer.list(catalog.condemned, limits.condemnedMax, ({ key, atMs }) => {
      writer.text(key, poolKeyBytesMax);
      writer.varint(atMs);
    });
    writer.optional(catalog.deletedAtMs, (atMs) => writer.varint(atMs));
  });
}

/** The catalog in the bytes. Throws StoreError("corrupt") for anything else: never "no branches". */
export function decodeCatalog(bytes: Uint8Array): Catalog {
  return decodeSealed(format, bytes, (reader) => {
    const catalog: Catalog = {
      uuid: reader.uuid(),
      seq: reader.varint(),
      nonce: reader.fixed(nonceBytes),
      createdAtMs: reader.varint(),
      branches: reader.list(limits.branchesMax, () => readBranch(reader)),
      condemned: reader.list(limits.condemnedMax, () => ({
        key: reader.text(poolKeyBytesMax),
        atMs: reader.varint(),
      })),
      deletedAtMs: reader.optional(() => reader.varint()),
    };
    reader.require(areInOrder(catalog.branches), "its branches are out of order");
    return catalog;
  });
}

function areInOrder(branches: readonly CatalogBranch[]): boolean {
  return branches.every(({ name }, index) => index === 0 || compareBranchNames(branches[index - 1]!.name, name) < 0);
}

function writeBranch(writer: ByteWriter, { name, id, createdAtMs, parent, ttlAtMs }: CatalogBranch): void {
  writer.text(name, limits.nameCharsMax);
  writeBranchId(writer, id);
  writer.varint(createdAtMs);
  writer.optional(parent, (from) => {
    writer.text(from.name, limits.nameCharsMax);
    writeBranchId(writer, from.id);
    writer.varint(from.forkTxid);
  });
  writer.optional(ttlAtMs, (atMs) => writer.varint(atMs));
}

function readBranch(reader: ByteReader): CatalogBranch {
  return {
    name: reader.text(limits.nameCharsMax),
    id: readBranchId(reader),
    createdAtMs: reader.varint(),
    parent: reader.optional(() => ({
      name: reader.text(limits.nameCharsMax),
      id: readBranchId(reader),
      forkTxid: reader.varint(),
    })),
    ttlAtMs: reader.optional(() => reader.varint()),
  };
}
