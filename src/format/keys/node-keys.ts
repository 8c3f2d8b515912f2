/**
 * The keys of what nodes say of themselves and of each other: their copies of databases (`copies/`), orders to purge
 * them (`orders/`), the names they go by (`nodes/`), and those that never come back (`forgotten/`).
 */
import { assert } from "../../base/faults/assert.ts";
import { isNodeId, nodeText, ulidText, uuidText } from "../core/ids.ts";

/** Of a longer name this much is kept: it is part of a key. */
export const nodeNameCharsMax = 128;

/** The folder of all copies that nodes have of databases. */
export const copyPrefix = "copies/";

/** The folder of nodes that never come back. */
const forgottenPrefix = "forgotten/";

/** The folder of the names that nodes go by. */
export const nodesPrefix = "nodes/";

const copyKeyPattern = new RegExp(`^${copyPrefix}(${uuidText})/(${nodeText})/(${ulidText})$`);
const orderKeyPattern = new RegExp(`^orders/(${nodeText})/(${uuidText})/(${ulidText})$`);
const nodeNameKeyPattern = new RegExp(`^${nodesPrefix}(${nodeText})/([A-Za-z0-9_-]{1,256})$`);

/** One local copy of one database: a node that purges its copy and makes another gives it another id. */
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

/** Whose copy the key names, or undefined for a foreign object. */
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

/** The sign that a node goes by a name, of which as much is kept as a key can hold. */
export function nodeNameKey(node: string, name: string): string {
  assert(isNodeId(node), "a node's identity is safe in a key");
  return `${nodesPrefix}${node}/${Buffer.from(name.slice(0, nodeNameCharsMax)).toString("base64url")}`;
}

/** Which node goes by which name, or undefined for a foreign object. */
export function parseNodeNameKey(key: string): { readonly node: string; readonly name: string } | undefined {
  const [, node, encoded] = nodeNameKeyPattern.exec(key) ?? [];
  return node === undefined || encoded === undefined
    ? undefined
    : { node, name: Buffer.from(encoded, "base64url").toString() };
}
