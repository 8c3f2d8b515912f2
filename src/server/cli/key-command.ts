/**
 * `palimpsest key rotate`: puts a new signing key in the place of the one in a data directory, so that no token is
 * refused that is good now.
 *
 * Always true: the earlier key stays behind the new one, with its public half only, for as long as a token can live;
 * the file is there whole or not at all. It needs no node; the nodes take the new key when they start again. Exit codes
 * as of the command line: 0 done, 1 not done.
 */
import { Command } from "commander";
import { StoreError } from "../../base/faults/errors.ts";
import { realWorld } from "../../base/world.ts";
import { rotatedKeys } from "../../control/access/signing-key.ts";
import type { Environment } from "../config/config.ts";
import { keyFile } from "../config/key-file.ts";

export interface KeySurroundings {
  readonly env: Environment;
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
}

const about = `
Tokens that the old key has signed are good until they expire; new ones are signed with the new key, and so are
receipts. The old public key stays in the key set. Several nodes with a file each: copy the new file to all of them,
then start them again one by one; a node that has not got it yet refuses tokens of the new key. Nodes that derive their
cluster key from the signing key (SERVICE_CLUSTER_KEY unset) do not reach each other until all have the new one. Where
the key comes from SERVICE_AUTH_KEY or object storage there is nothing to rotate here.
`;

/** The command with its flags; it hands its exit code to `ended`. */
export function keyCommand(around: KeySurroundings, ended: (code: number) => void): Command {
  return new Command("key").description("the signing key of a data directory").addCommand(
    new Command("rotate")
      .description("put a new signing key in place; tokens of the old one stay good until they expire")
      .option("--data-dir <path>", "the data directory (default: SERVICE_DATA_DIR, or ./data)")
      .addHelpText("after", about)
      .action(async ({ dataDir }: { readonly dataDir?: string }) => ended(await rotate(around, dataDir))),
  );
}

async function rotate({ env, stdout, stderr }: KeySurroundings, given: string | undefined): Promise<number> {
  const refuse = (words: string): number => {
    stderr.write(`palimpsest: nothing changed: ${words}\n`);
    return 1;
  };
  if (env["SERVICE_AUTH_KEY"]) return refuse("SERVICE_AUTH_KEY is set, and is asked before the file");
  const file = keyFile(given ?? env["SERVICE_DATA_DIR"] ?? "./data");
  const before = file.read();
  if (before === undefined) return refuse("the data directory has no signing key; a node makes one when it starts");
  try {
    const { pem, kid, retiredKid } = await rotatedKeys(before, realWorld().nowMs());
    await file.write(pem);
    stdout.write(
      `the signing key is ${kid} once the node is started again; tokens of ${retiredKid} stay good until they expire\n`,
    );
    return 0;
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return refuse(error.message);
  }
}
