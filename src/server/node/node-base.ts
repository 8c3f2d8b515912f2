/**
 * What everything else of a node needs: its data directory, object storage, and the time.
 *
 * Always true:
 * - the directory belongs to this process alone
 * - what it and the store hold is of a build that this one can read
 * - a server that speaks S3 has been seen to keep its promises
 *
 * Must not know: what is kept there.
 */
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import type { Log } from "../../base/log.ts";
import { realWorld, type World } from "../../base/world.ts";
import { refuseBackup } from "../../engine/backup/backup.ts";
import { lockDirectory } from "../../sqlite/connection/directory-lock.ts";
import { MeasuredStore } from "../../store/measured-store.ts";
import { openStore } from "../../store/open-store.ts";
import { proveStore } from "../../store/probe.ts";
import { claimStoreFormat } from "../../store/store-format.ts";
import { ClockKeeper } from "./clock-keeper.ts";
import type { Config } from "../config/config.ts";
import { claimDataFormat } from "../config/data-format.ts";
import { packageVersion } from "../config/package-version.ts";

/** What the steps of a start work with. */
export interface NodeBase {
  readonly config: Config;
  readonly world: World;
  readonly log: Log;
  /** The data directory, locked. */
  readonly directory: string;
  readonly store: MeasuredStore;
  /** The version of what the store says of itself (store/store-format). */
  readonly storeLayout: number;
  readonly clock: ClockKeeper;
  /** What has been opened, to be closed from the top. */
  readonly stack: AsyncDisposableStack;
}

/** Opens it. Rejects with a message for the operator; the stack closes what was opened. */
export async function openBase(config: Config, log: Log, stack: AsyncDisposableStack): Promise<NodeBase> {
  const world = realWorld();
  const directory = resolve(config.dataDirectory);
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const lock = lockDirectory(directory);
  stack.defer(() => lock.release());
  const store = new MeasuredStore(await openStore(config.objectStore, world), world);
  await refuseBackup(store);
  // What the other stores promise is code of ours and tested; a server that speaks S3 may be any product.
  if (config.objectStore.kind === "s3") await proveStore(store, world);
  const clock = stack.use(
    new ClockKeeper({ world, log, store, hasClock: config.objectStore.kind === "s3", directory }),
  );
  const build = packageVersion();
  await claimDataFormat(directory, build);
  const storeLayout = await claimStoreFormat(store, build);
  return { config, world, log, directory, store, storeLayout, clock, stack };
}
