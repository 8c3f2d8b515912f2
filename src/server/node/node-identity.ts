/**
 * Who a node is: its identity, which its data directory keeps, and the name that people know it by.
 *
 * Always true: the identity is made once per data directory and never changes; a name may be used twice, and is
 * reported then.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { encodeUtf8 } from "../../base/bytes.ts";
import { placeFile, realDisk } from "../../base/disk.ts";
import { StoreError } from "../../base/faults/errors.ts";
import type { World } from "../../base/world.ts";
import { NodeNames } from "../../control/databases/node-names.ts";
import type { NodeBase } from "./node-base.ts";

const namesakesToldMax = 10;

/** What a node without a given name is called. */
const defaultNodeName = /^node-\d+$/;

/**
 * The node's identity, made once per data directory: manifests say who claimed them, and it identifies a copy of a
 * disk.
 */
export async function nodeIdentity(directory: string, world: World): Promise<string> {
  const path = join(directory, "node-id");
  // Whole or not at all, and kept: a node that forgets its name does not know its own writes again.
  if (!existsSync(path)) await placeFile(realDisk, path, encodeUtf8(world.ulid()));
  return readFileSync(path, "utf8").trim();
}

/**
 * Writes down which name the node goes by, and tells of another identity that has it: the old disk of this one, or a
 * node that lives.
 */
export async function announceName(
  { config, store, world, log }: Pick<NodeBase, "config" | "store" | "world" | "log">,
  node: string,
): Promise<NodeNames> {
  const name = config.nodeId;
  const names = new NodeNames(store, world);
  log.info("node", { node, name });
  try {
    await names.announce(node, name);
    const others = defaultNodeName.test(name) ? [] : (await names.named(name)).filter((other) => other !== node);
    if (others.length > 0)
      log.warn(
        "another identity goes by this node's name: a node whose disk was lost, or one that lives and needs " +
          "another name",
        { name, others: others.slice(0, namesakesToldMax).join(" ") },
      );
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    log.warn("the node's name was not written down: audit and receipts show its identity alone", {
      reason: error.kind,
    });
  }
  return names;
}
