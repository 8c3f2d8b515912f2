/**
 * `palimpsest formats`: which versions of the formats at rest this build writes and reads; with `--raise`, gives a
 * store the newest layout.
 *
 * Always true: without `--raise` nothing is opened, and with it the store's own object is all that changes; a layout
 * never falls. Exit codes as of the command line: 0 done, 1 not done, 2 a wrong command line.
 */
import { Command } from "commander";
import { StoreError } from "../../base/faults/errors.ts";
import { realWorld } from "../../base/world.ts";
import { formatsMarkdown, newestLayout } from "../../format/core/versions.ts";
import { openStore } from "../../store/open-store.ts";
import { raiseStoreFormat } from "../../store/store-format.ts";
import type { Environment } from "../config/config.ts";
import { packageVersion } from "../config/package-version.ts";
import { parseStoreLocation } from "../config/store-location.ts";

/** Where the command's words go, and the variables that say how to reach a store. */
export interface FormatsSurroundings {
  readonly env: Environment;
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
}

interface FormatsFlags {
  readonly objectStore?: string;
  readonly raise?: true;
}

const about = `
A store keeps the layout that it was made with, so that after an upgrade the build before can take over again. Once all
nodes run this build and none is to go back, give the store the newest layout with --raise. From its next start on each
node writes the newest formats into databases that are made anew; older builds refuse the store from then on. What is
there stays as it is.
`;

/** The command with its flags; it hands its exit code to `ended`. */
export function formatsCommand(around: FormatsSurroundings, ended: (code: number) => void): Command {
  return new Command("formats")
    .description("print which versions of the formats at rest this build writes and reads, in Markdown")
    .option("--raise", "give the store the newest layout: builds that do not read it can no longer use the store")
    .option("--object-store <url>", "where the objects are (default: SERVICE_OBJECT_STORE)")
    .addHelpText("after", about)
    .action(async (flags: FormatsFlags) => ended(await runFormats(around, flags)));
}

async function runFormats(around: FormatsSurroundings, { objectStore, raise }: FormatsFlags): Promise<number> {
  const { env, stdout, stderr } = around;
  if (!raise) {
    stdout.write(formatsMarkdown());
    return 0;
  }
  const refuse = (code: number, words: string): number => {
    stderr.write(`palimpsest: nothing raised: ${words}\n`);
    return code;
  };
  const url = objectStore ?? env["SERVICE_OBJECT_STORE"];
  if (!url) return refuse(2, "give --object-store or set SERVICE_OBJECT_STORE");
  const location = parseStoreLocation(env, url);
  if (typeof location === "string") return refuse(2, location);
  try {
    const before = await raiseStoreFormat(await openStore(location, realWorld()), packageVersion());
    stdout.write(
      before === newestLayout
        ? `the store has layout ${newestLayout} already\n`
        : `the store has layout ${newestLayout} now; before it had ${before}. Start each node anew\n`,
    );
    return 0;
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return refuse(1, error.message);
  }
}
