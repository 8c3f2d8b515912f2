/**
 * `palimpsest scan`: whether secrets that should be gone lie anywhere in a directory or an object store, without a
 * node.
 *
 * Always true: it only reads, and never writes a secret: secrets are named by their number, in the order given. Exit
 * codes: 0 everything was read and nothing found; 1 something was found or could not be read; 2 a wrong command line.
 */
import { existsSync, readFileSync } from "node:fs";
import { Command, Option } from "commander";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { realWorld } from "../../base/world.ts";
import { isSecret } from "../../engine/erasure/secret-patterns.ts";
import { scanDirectory, scanStore, type Residue, type ResidueHit } from "../../engine/erasure/secret-scan.ts";
import { openStore, type StoreLocation } from "../../store/open-store.ts";
import type { Environment } from "../config/config.ts";
import { parseStoreLocation } from "../config/store-location.ts";

const residueSecretsMax = 10_000;

/** Where the command's words go, and the variables that say how to reach a store. */
export interface ScanSurroundings {
  readonly env: Environment;
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
}

/** Files, or a store that outlives its process. */
type Place = { readonly kind: "path"; readonly path: string } | Exclude<StoreLocation, { kind: "memory" }>;

interface ScanFlags {
  readonly for: readonly string[];
}

const about = `
Looks at every byte of every file or object, and at the pages inside the segments of object storage; for each TOKEN as
text (UTF-8, UTF-16), as JSON escapes it, in Base64, and, if it is a JSON array of numbers, as a vector of 32-bit
floats. What is found is told by the number of the token, never by the token.

A token on the command line can be read by other users of the machine; @FILE keeps it out of their sight.

Not found: tokens of fewer than 16 bytes that lie across two pages of a database; words of a search index; what others
have compressed or encrypted. A scan of a bucket sees its current objects, not versions that the bucket still keeps.

Exit codes: 0 nothing found, 1 something found or not readable, 2 a wrong command line.
`;

/** The command; it hands its exit code to `ended`. */
export function scanCommand(around: ScanSurroundings, ended: (code: number) => void): Command {
  return new Command("scan")
    .description("look for secrets that should be gone, in a directory or in object storage")
    .addOption(
      new Option("--for <token>", "what to look for, or @FILE with one token per line")
        .argParser((given: string, before: readonly string[] | undefined) => [...(before ?? []), given])
        .makeOptionMandatory(),
    )
    .argument("<where>", "a directory or file, or a store: file://… or s3://…")
    .addHelpText("after", about)
    .action(async (where: string, flags: ScanFlags) => ended(await scan(around, where, flags.for)));
}

async function scan(around: ScanSurroundings, where: string, given: readonly string[]): Promise<number> {
  const secrets = readSecrets(given);
  if (typeof secrets === "string") return refuse(around, secrets);
  const place = parsePlace(around.env, where);
  if (typeof place === "string") return refuse(around, place);
  try {
    return report(around, await residueIn(place, secrets));
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    around.stderr.write(`palimpsest: not all was scanned: ${error.message}\n`);
    return 1;
  }
}

function refuse({ stderr }: ScanSurroundings, why: string): number {
  stderr.write(`palimpsest: nothing scanned\n  ${why}\n`);
  return 2;
}

/** Every token, or what is wrong with the flags. */
function readSecrets(given: readonly string[]): readonly string[] | string {
  const secrets: string[] = [];
  for (const one of given) {
    if (!one.startsWith("@")) {
      secrets.push(one);
      continue;
    }
    try {
      secrets.push(
        ...readFileSync(one.slice(1), "utf8")
          .split(/\r?\n/)
          .filter((line) => line !== ""),
      );
    } catch (error) {
      return `${one.slice(1)} cannot be read (${(error as NodeJS.ErrnoException).code ?? "fault"})`;
    }
  }
  if (secrets.length === 0) return "there is no token to look for";
  if (secrets.length > residueSecretsMax) return `more than ${residueSecretsMax} tokens`;
  const short = secrets.findIndex((secret) => !isSecret(secret));
  return short < 0 ? secrets : `token ${short + 1} has fewer than ${limits.residueSecretBytesMin} bytes`;
}

/** Where to look, or what is wrong with it. */
function parsePlace(env: Environment, where: string): Place | string {
  if (/^(?:file|s3|mem):\/\//.test(where)) return parseStoreLocation(env, where);
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(where))
    return `${where} is no store: give file://path, s3://bucket or s3://bucket/prefix`;
  return existsSync(where) ? { kind: "path", path: where } : `there is no ${where}`;
}

async function residueIn(place: Place, secrets: readonly string[]): Promise<Residue> {
  if (place.kind === "path") return scanDirectory(place.path, secrets);
  // All that lies there, not only what a store would show of it.
  if (place.kind === "file") return scanDirectory(place.directory, secrets);
  return scanStore(await openStore(place, realWorld()), secrets);
}

function report(
  { stdout, stderr }: ScanSurroundings,
  { hits, hitsTotal, unread, places, bytes, pages }: Residue,
): number {
  for (const hit of hits) stdout.write(`${formatLine(hit)}\n`);
  if (hitsTotal > hits.length) stdout.write(`and ${hitsTotal - hits.length} more\n`);
  for (const { where, why } of unread) stderr.write(`palimpsest: could not read all of ${where}: ${why}\n`);
  stdout.write(
    `${hitsTotal === 0 ? "nothing" : hitsTotal} found in ${places} files or objects of ${bytes} bytes, ` +
      `with ${pages} pages inside segments\n`,
  );
  return hitsTotal === 0 && unread.length === 0 ? 0 : 1;
}

function formatLine({ where, secret, form, isWhole, inPage, offset }: ResidueHit): string {
  const what = `${isWhole ? "" : "part of "}token ${secret + 1} as ${form}`;
  return (
    `${where}: ${what} at ` +
    `byte ${offset}${inPage ? ` of page ${inPage.page} of transaction id ${inPage.txid}` : ""}`
  );
}
