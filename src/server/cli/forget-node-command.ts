/**
 * `palimpsest forget-node`: says that a node never comes back, so that no erasure waits for it any more.
 *
 * Always true: it needs no node and only writes what it says; the node is not let in again with its old disk. A person
 * must know that the disk is destroyed, as no program can, and receipts say so. Exit codes as of the command line: 0
 * done, 1 not done, 2 a wrong command line.
 */
import { Command } from "commander";
import { StoreError } from "../../base/faults/errors.ts";
import { realWorld } from "../../base/world.ts";
import { CopyRecords } from "../../control/databases/copy-records.ts";
import { NodeNames } from "../../control/databases/node-names.ts";
import { isNodeId, isUlid } from "../../format/core/ids.ts";
import { openStore } from "../../store/open-store.ts";
import type { Environment } from "../config/config.ts";
import { parseStoreLocation } from "../config/store-location.ts";

/** Where the command's words go, and the variables that say how to reach a store. */
export interface ForgetSurroundings {
  readonly env: Environment;
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
}

interface ForgetFlags {
  readonly objectStore?: string;
  readonly diskDestroyed?: true;
}

const about = `
While a node is down, erasures of databases that it has a copy of stay pending: its disk may hold what was erased. For a
node that never comes back this command ends the wait. Before you give it, its disk MUST have been destroyed or wiped:
nobody will look at it again. Receipts of erasures that were waiting for the node name it as unattested. Give its name
(SERVICE_NODE_ID), or its identity where several had the name: that is the one in an erasure's waiting_for, in the audit
stream, and in the file node-id of the node's data directory. A node that is started with that directory afterwards
refuses to start.
`;

/** The command with its flags; it hands its exit code to `ended`. */
export function forgetNodeCommand(around: ForgetSurroundings, ended: (code: number) => void): Command {
  return new Command("forget-node")
    .description("give up a node that never comes back, so that erasures do not wait for its copies")
    .argument("<node>", "the node's name or its identity")
    .option("--object-store <url>", "where the objects are (default: SERVICE_OBJECT_STORE)")
    .option("--disk-destroyed", "you have made sure that the node's disk is destroyed or wiped")
    .addHelpText("after", about)
    .action(async (node: string, flags: ForgetFlags) => ended(await forget(around, node, flags)));
}

/** The identity that is meant, or why it is ambiguous. */
async function resolveIdentity(
  names: NodeNames,
  copies: CopyRecords,
  text: string,
): Promise<{ readonly node: string } | { readonly refusal: string }> {
  if (isUlid(text)) return { node: text };
  const named = await names.named(text);
  const standing: string[] = [];
  for (const node of named) if (!(await copies.isForgotten(node))) standing.push(node);
  const [only] = standing;
  if (standing.length > 1)
    return {
      refusal:
        `several nodes go by the name ${text}; give the identity of the one that never comes ` +
        `back: ${standing.join(", ")}`,
    };
  if (only !== undefined) return { node: only };
  if (named.length > 0) return { refusal: `every node that went by the name ${text} is forgotten already` };
  return isNodeId(text) ? { node: text } : { refusal: "it is neither the name nor the identity of a node" };
}

async function forget(
  { env, stdout, stderr }: ForgetSurroundings,
  given: string,
  { objectStore, diskDestroyed }: ForgetFlags,
): Promise<number> {
  const refuse = (code: number, words: string): number => {
    stderr.write(`palimpsest: nothing forgotten: ${words}\n`);
    return code;
  };
  if (!diskDestroyed)
    return refuse(2, "the node's disk must have been destroyed or wiped; say so with --disk-destroyed");
  const url = objectStore ?? env["SERVICE_OBJECT_STORE"];
  if (!url) return refuse(2, "give --object-store or set SERVICE_OBJECT_STORE");
  const location = parseStoreLocation(env, url);
  if (typeof location === "string") return refuse(2, location);
  try {
    const world = realWorld();
    const store = await openStore(location, world);
    const records = new CopyRecords(store, world);
    const meant = await resolveIdentity(new NodeNames(store, world), records, given);
    if ("refusal" in meant) return refuse(2, meant.refusal);
    const { node } = meant;
    const copies = await records.forget(node);
    stdout.write(
      `node ${node} is forgotten: ${copies} ${copies === 1 ? "copy" : "copies"} that it had are not waited ` +
        `for any more, and count as destroyed by your word\n`,
    );
    return 0;
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    stderr.write(`palimpsest: the node may be forgotten in part; give the command again: ${error.message}\n`);
    return 1;
  }
}
