/**
 * `palimpsest repair`: mends a database in object storage whose manifest, catalog or claim is gone or cannot be read,
 * and branches whose objects are.
 *
 * Always true:
 * - without the digest of a plan nothing changes
 * - with it exactly that plan is carried out, or none
 * - a plan names what is lost by it
 *
 * Exit codes: 0 there was nothing to mend, or it is mended; 1 there is a plan that was not carried out, or something
 * cannot be mended; 2 a wrong command line.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command, Option } from "commander";
import { realDisk } from "../../base/disk.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { realWorld, type World } from "../../base/world.ts";
import { applyRepair, isQuiet, planRepair, type RepairPlan } from "../../engine/rescue/repair.ts";
import { isUuid } from "../../format/core/binary.ts";
import { decodeNameClaim } from "../../format/records/name-claim.ts";
import { isDatabaseName } from "../../format/core/names.ts";
import { nameClaimKey } from "../../format/keys/object-keys.ts";
import { threadedPress } from "../../format/core/compression.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { openStore, openStoreToRead } from "../../store/open-store.ts";
import type { Environment } from "../config/config.ts";
import { parseStoreLocation, type LastingLocation } from "../config/store-location.ts";

/** Where the command's words go, and the variables that say how to reach a store. */
export interface RepairSurroundings {
  readonly env: Environment;
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
}

interface RepairFlags {
  readonly objectStore?: string;
  readonly database?: string;
  readonly uuid?: string;
  readonly branch?: string;
  readonly name?: string;
  readonly apply?: string | true;
  readonly nodesStopped?: true;
}

const about = `
Reads everything that the database has, and proposes what would mend it: a manifest from an older version that the
store has kept, or laid again from the objects of the pool; a catalog of the branches that have a manifest; with --name
the claim of the database's name. It prints the plan, what is lost by it, and the plan's digest; --apply DIGEST carries
that plan out, and nothing else. Stop the nodes first. A new manifest fences every node that still holds the old one.

What no manifest refers to afterwards is collected. Copy the database's folder first if you may want to try otherwise.

Exit codes: 0 nothing to mend, or mended; 1 not mended; 2 a wrong command line.
`;

/** The command; it hands its exit code to `ended`. */
export function repairCommand(around: RepairSurroundings, ended: (code: number) => void): Command {
  return new Command("repair")
    .description("mend a database in object storage: first a plan, then with --apply what it says")
    .option("--object-store <url>", "where the objects are (default: SERVICE_OBJECT_STORE)")
    .addOption(new Option("--database <name>", "name of the database").conflicts("uuid"))
    .option("--uuid <uuid>", "identity of the database")
    .option("--branch <name>", "one branch only, by its name or id")
    .option("--name <name>", "the name that the database had: its claim is put back")
    .option("--apply [digest]", "carry out the plan of this digest")
    .option(
      "--nodes-stopped",
      "you have made sure that no node writes the database, though objects were put a moment ago",
    )
    .addHelpText("after", about)
    .action(async (flags: RepairFlags) => ended(await repair(around, flags)));
}

async function repair(around: RepairSurroundings, flags: RepairFlags): Promise<number> {
  const location = resolveLocation(around.env, flags);
  if (typeof location === "string") {
    around.stderr.write(`palimpsest: nothing repaired\n  ${location}\n`);
    return 2;
  }
  const scratchDirectory = mkdtempSync(join(tmpdir(), "palimpsest-repair-"));
  try {
    return await repairIn(around, location, flags, scratchDirectory);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (!(error instanceof StoreError) && code === undefined) throw error;
    around.stderr.write(`palimpsest: not repaired: ${error instanceof StoreError ? error.message : code}\n`);
    return 1;
  } finally {
    rmSync(scratchDirectory, { recursive: true, force: true });
  }
}

/** Where the objects are, or what is wrong with the command line. */
function resolveLocation(env: Environment, flags: RepairFlags): LastingLocation | string {
  if ((flags.database === undefined) === (flags.uuid === undefined)) return "give --database or --uuid";
  if (flags.database !== undefined && !isDatabaseName(flags.database)) return "--database is no name of a database";
  if (flags.name !== undefined && !isDatabaseName(flags.name)) return "--name is no name of a database";
  if (flags.uuid !== undefined && !isUuid(flags.uuid)) return "--uuid must be a lower-case UUID";
  const url = flags.objectStore ?? env["SERVICE_OBJECT_STORE"];
  if (!url) return "give --object-store or set SERVICE_OBJECT_STORE";
  return parseStoreLocation(env, url);
}

async function repairIn(
  around: RepairSurroundings,
  location: LastingLocation,
  flags: RepairFlags,
  scratchDirectory: string,
): Promise<number> {
  const world = realWorld();
  const store = await openStoreToRead(location, world);
  const uuid = flags.uuid ?? (await findUuid(store, flags.database!));
  const source = { store, uuid, press: threadedPress, disk: realDisk };
  const plan = await planRepair(
    { place: { source, world, scratchDirectory }, world },
    { branch: flags.branch, name: flags.name },
  );
  around.stdout.write(formatPlan(plan));
  if (plan.actions.length === 0) return plan.hopeless.length === 0 ? 0 : 1;
  const refusal = findRefusal(plan, flags, world);
  if (refusal !== undefined) {
    around.stdout.write(`nothing was changed: ${refusal}\n`);
    return 1;
  }
  await applyRepair(await openStore(location, world), plan, ({ key }) => around.stdout.write(`put ${key}\n`));
  around.stdout.write(
    plan.hopeless.length === 0
      ? "mended: start the nodes, and look with palimpsest doctor --deep\n"
      : "mended, but for what cannot be\n",
  );
  return plan.hopeless.length === 0 ? 0 : 1;
}

/** Why the plan is not carried out; undefined when it is to be. */
function findRefusal(plan: RepairPlan, { apply, nodesStopped }: RepairFlags, world: World): string | undefined {
  if (apply === undefined || apply === true) return `--apply ${plan.digest} carries this out`;
  if (apply !== plan.digest) return `this is another plan than ${apply}; --apply ${plan.digest} carries this one out`;
  if (nodesStopped || isQuiet(plan, world)) return undefined;
  const secs = Math.max(0, Math.round((world.nowMs() - plan.newestMs) / 1_000));
  return (
    `an object was put ${secs} seconds ago: a node may be writing. Stop the nodes and give the ` +
    `command ${limits.quietMs / 1_000} seconds after that, or with --nodes-stopped`
  );
}

async function findUuid(store: ObjectStore, name: string): Promise<string> {
  const claim = await store.get(nameClaimKey(name));
  if (!claim)
    throw new StoreError(
      "misconfigured",
      `there is no claim of the name ${name}: give --uuid, and --name to put the claim back`,
    );
  return decodeNameClaim(claim.bytes).uuid;
}

function formatPlan({ uuid, actions, hopeless, digest }: RepairPlan): string {
  const lines = [
    actions.length === 0 && hopeless.length === 0
      ? `database ${uuid}: nothing is to be mended`
      : `plan ${digest} for database ${uuid}:`,
  ];
  for (const { does, loses, key } of actions)
    lines.push(`  ${does} (${key})`, ...loses.map((lost) => `    LOST: ${lost}`));
  for (const one of hopeless)
    lines.push(`  cannot be mended: ${one}; restore the database from a backup, or delete the branch`);
  if (actions.some(({ key }) => key.includes("/head/")))
    lines.push(
      "  a node that holds an old manifest is fenced by the new one: what it has on its disk beyond it is set " +
        "aside or shipped, never lost silently",
    );
  return `${lines.join("\n")}\n`;
}
