/**
 * `palimpsest backup` and `palimpsest restore --all`: a fleet's objects from one store into another.
 *
 * Always true: the source store is opened for reading only; the other one is marked as incomplete until it is complete.
 * What is left undone is reported, and the same command given again does it. Exit codes: 0 complete and proven, 1 not,
 * 2 a wrong command line.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { realDisk } from "../../base/disk.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { realWorld, type World } from "../../base/world.ts";
import { makeBackup, type BackupOutcome } from "../../engine/backup/backup.ts";
import { restoreAll, type RestoreAllOutcome } from "../../engine/backup/restore-all.ts";
import type { BackupProof } from "../../format/records/backup-manifest.ts";
import { decodeCoupon, type ErasureCoupon } from "../../format/erasure/erasure-coupon.ts";
import { targetFields } from "../../format/erasure/erasure-receipt.ts";
import { isDatabaseName, parseProfileDatabaseName } from "../../format/core/names.ts";
import { erasureCouponKey, parseErasureKey } from "../../format/keys/object-keys.ts";
import { threadedPress } from "../../format/core/compression.ts";
import { isUnreadable } from "../../format/core/versions.ts";
import { listed } from "../../store/port/listing.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { openStore, openStoreToRead } from "../../store/open-store.ts";
import type { Environment } from "../config/config.ts";
import { verifyOption, type RestoreAllFlags } from "./restore-command.ts";
import { areNested, formatLocation, parseStoreLocation, type LastingLocation } from "../config/store-location.ts";

/** Where the command's words go, and the variables that say how to reach a store. */
export interface CopySurroundings {
  readonly env: Environment;
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
}

interface BackupFlags {
  readonly objectStore?: string;
  readonly to?: string;
  readonly database?: readonly string[];
  readonly withSigningKey?: true;
  readonly verify?: BackupProof;
  readonly skipDamaged?: true;
}

/** From where to where. */
interface Way {
  readonly from: LastingLocation;
  readonly to: LastingLocation;
}

const aboutBackup = `
Copies a fleet's objects into a store of its own while nodes write, and changes nothing in the first store. Each branch
is copied as of one manifest, each database with its name, erasures before the data that they are about. What the place
holds already, from an earlier backup of the same store, is not copied again if name and length are equal; what the
fleet no longer has goes from it. Every object that is copied is read back by its SHA-256; in the end every reference is
looked for by name and length, and the newest states of some branches are restored (--verify restore: of all, and every
object is read).

A backup that was cut short goes on when the command is given again. The place says of itself (object "backup") when it
was made and whether it is complete; nodes refuse to serve from it. The signing key is left out unless it is asked for.
docs/backup.md says how to make backups a habit.

Exit codes: 0 complete and proven, 1 not, 2 a wrong command line.
`;

/** The command; it hands its exit code to `ended`. */
export function backupCommand(around: CopySurroundings, ended: (code: number) => void): Command {
  return new Command("backup")
    .description("copy a fleet's objects into another store, consistently, while nodes write")
    .option("--object-store <url>", "what to copy (default: SERVICE_OBJECT_STORE)")
    .requiredOption("--to <url>", "where to: an empty prefix, or an earlier backup of the same store")
    .option(
      "--database <name>",
      "one database only; may be given again",
      (given: string, before: readonly string[] | undefined) => [...(before ?? []), given],
    )
    .option(
      "--with-signing-key",
      "copy the fleet's signing key too, where object storage keeps it; whoever reads the backup can then mint tokens",
    )
    .option("--skip-damaged", "leave out databases that do not fit together, and call the backup complete without them")
    .addOption(verifyOption().default("sample"))
    .addHelpText("after", aboutBackup)
    .action(async (flags: BackupFlags) => ended(await backup(around, flags)));
}

async function backup(around: CopySurroundings, flags: BackupFlags): Promise<number> {
  const way = resolveWay(around.env, flags);
  const wrong = typeof way === "string" ? way : scopeFault(flags.database);
  if (typeof way === "string" || wrong !== undefined) return refuse(around, "backed up", wrong!);
  return within(around, "the backup is not complete", way, async ({ from, to, world, scratchDirectory, notice }) => {
    const proof = { scratchDirectory, source: makeSource(to) };
    const order = {
      fromName: formatLocation(way.from),
      scope: flags.database,
      withSigningKey: flags.withSigningKey === true,
      verify: flags.verify ?? "sample",
      skipDamaged: flags.skipDamaged === true,
    };
    const outcome = await makeBackup({ from, to, press: threadedPress, world, notice, proof }, order);
    tell(around, outcome);
    const place = `${formatLocation(way.from)} in ${formatLocation(way.to)}`;
    around.stdout.write(outcome.isComplete ? `backup of ${place}: complete\n` : `backup of ${place}: NOT complete\n`);
    return outcome.isComplete ? 0 : 1;
  });
}

function scopeFault(names: readonly string[] | undefined): string | undefined {
  if (names === undefined) return undefined;
  if (names.length > limits.backupScopeMax)
    return `more than ${limits.backupScopeMax} databases: leave --database out to copy all`;
  const wrong = names.find((name) => !isDatabaseName(name));
  return wrong === undefined ? undefined : "--database is no name of a database";
}

/** Fills an empty store from a backup; answers the exit code. */
export async function restoreFleet(around: CopySurroundings, flags: RestoreAllFlags): Promise<number> {
  const way = resolveWay(around.env, flags);
  if (typeof way === "string") return refuse(around, "restored", way);
  const later = flags.erasuresFrom === undefined ? undefined : parseStoreLocation(around.env, flags.erasuresFrom);
  if (typeof later === "string") return refuse(around, "restored", `--erasures-from: ${later}`);
  return within(around, "the store is not whole yet", way, async ({ from, to, world, scratchDirectory, notice }) => {
    const proof = { scratchDirectory, source: makeSource(to) };
    const order = { fromName: formatLocation(way.from), verify: flags.verify ?? "sample", force: flags.force === true };
    const outcome = await restoreAll({ from, to, press: threadedPress, world, notice, proof }, order);
    tell(around, outcome);
    if (later && outcome.isComplete) await tellErasures(around, await openStoreToRead(later, world), to);
    around.stdout.write(
      outcome.isComplete ? wholeness(way, outcome) : `${formatLocation(way.to)} is NOT whole: no node serves from it\n`,
    );
    return outcome.isComplete ? 0 : 1;
  });
}

function wholeness(way: Way, { asOfMs }: RestoreAllOutcome): string {
  const asOf = asOfMs === undefined ? "" : `, as of ${new Date(asOfMs).toISOString()} or a little later`;
  return (
    `${formatLocation(way.to)} is whole${asOf}: nodes may serve from it\nWhat was erased since then is ` +
    `there again: erase it again (docs/backup.md).\n`
  );
}

/** Erasures unknown to the restored fleet, each as the call that asks for it again. */
async function tellErasures(
  { stdout, stderr }: CopySurroundings,
  later: ObjectStore,
  restored: ObjectStore,
): Promise<void> {
  for await (const { key } of listed(later, "erasures/")) {
    const named = parseErasureKey(key);
    const stored = named && (await later.get(key));
    if (!stored || (await restored.get(erasureCouponKey(named.uuid, named.id)))) continue;
    try {
      stdout.write(`erase again, ${formatCall(decodeCoupon(stored.bytes))}\n`);
    } catch (error) {
      // The later store may be broken: what can be read of it is still reported.
      if (!isUnreadable(error)) throw error;
      stderr.write(`palimpsest: an erasure that the backup lacks cannot be told: ${key}: ${error.message}\n`);
    }
  }
}

function formatCall({ database, target, branch }: ErasureCoupon): string {
  const profile = parseProfileDatabaseName(database);
  const path = profile ? `/v1/memory/${profile.namespace}/${profile.profile}` : `/v1/db/${database}/memory`;
  return `on branch ${branch}: POST ${path}/erasures ${JSON.stringify(targetFields(target))}`;
}

/** From where to where, or what is wrong with the command line. */
function resolveWay(env: Environment, flags: { readonly objectStore?: string; readonly to?: string }): Way | string {
  const url = flags.objectStore ?? env["SERVICE_OBJECT_STORE"];
  if (!url) return "give --object-store or set SERVICE_OBJECT_STORE";
  if (flags.to === undefined) return "give --to";
  const from = parseStoreLocation(env, url);
  if (typeof from === "string") return from;
  const to = parseStoreLocation(env, flags.to, true);
  if (typeof to === "string") return `--to: ${to}`;
  return areNested(from, to) ? "--to lies within what is copied, or the other way round" : { from, to };
}

function refuse({ stderr }: CopySurroundings, done: string, why: string): number {
  stderr.write(`palimpsest: nothing ${done}\n  ${why}\n`);
  return 2;
}

function makeSource(store: ObjectStore): (uuid: string) => {
  readonly store: ObjectStore;
  readonly uuid: string;
  readonly press: typeof threadedPress;
  readonly disk: typeof realDisk;
} {
  return (uuid) => ({ store, uuid, press: threadedPress, disk: realDisk });
}

interface OpenWay {
  readonly from: ObjectStore;
  readonly to: ObjectStore;
  readonly world: World;
  readonly scratchDirectory: string;
  readonly notice: (message: string) => void;
}

/**
 * Opens both stores and a place for restored states for as long as the act runs, and says what keeps it from its end.
 */
async function within(
  { stderr }: CopySurroundings,
  failed: string,
  way: Way,
  act: (open: OpenWay) => Promise<number>,
): Promise<number> {
  const world = realWorld();
  const scratchDirectory = mkdtempSync(join(tmpdir(), "palimpsest-copy-"));
  try {
    const notice = (message: string): void => void stderr.write(`palimpsest: ${message}\n`);
    return await act({
      from: await openStoreToRead(way.from, world),
      to: await openStore(way.to, world),
      world,
      scratchDirectory,
      notice,
    });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (!(error instanceof StoreError) && code === undefined) throw error;
    stderr.write(`palimpsest: ${failed}: ${error instanceof StoreError ? error.message : code}\n`);
    return 1;
  } finally {
    rmSync(scratchDirectory, { recursive: true, force: true });
  }
}

/** What was copied and proven, and what was not. */
function tell(
  { stdout, stderr }: CopySurroundings,
  { counts, leftOut, proven }: Pick<BackupOutcome, "counts" | "leftOut" | "proven">,
): void {
  const { databases, branches, objects, bytes, copied, copiedBytes, unclaimed, foreign } = counts;
  stdout.write(
    `${databases} databases, ${branches} branches, ${objects} objects of ${bytes} bytes; ${copied} of ` +
      `them, ${copiedBytes} bytes, were copied now and read back\n`,
  );
  if (unclaimed > 0) stdout.write(`${unclaimed} of the databases have no name\n`);
  if (foreign > 0) stdout.write(`${foreign} objects of unknown names were left out\n`);
  if (proven)
    stdout.write(
      `proven: every reference is there with its length, ${proven.read} objects read by their ` +
        `SHA-256, ${proven.restored} newest states restored and checked\n`,
    );
  for (const { uuid, name, why } of leftOut)
    stderr.write(`palimpsest: left out: ${name ?? uuid}: ${why}; palimpsest doctor tells more\n`);
  for (const fault of proven?.faults ?? []) stderr.write(`palimpsest: ${fault}\n`);
  if (proven && proven.rotten.length > 0)
    stderr.write(
      `palimpsest: ${proven.rotten.length} objects that are not what was written were removed from the copy; ` +
        `the same command copies them anew\n`,
    );
}
