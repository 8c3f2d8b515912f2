/**
 * What this node has seen of each branch in object storage: how far along its manifests it was served from, and how far
 * each claim has been shipped. And the number of each database's catalog.
 *
 * It is kept under `seen/` in the data directory, one small file for each branch, whole or not at all, and synced a
 * moment later, a few at a time: what a loss of power takes from it makes this node less suspicious, never wrong. A
 * write notes nothing: a branch is noted when it is opened, claimed and closed, and every `seenNotedMs` between. It is
 * forgotten only when the branch is deleted, or an operator accepts the older state.
 *
 * Always true: what was noted only rises, so that a reader here never sees the branch go back, whatever a cache before
 * object storage gives, and a storage that was put back to an older state is found out, also after a restart. Must not
 * know: files of databases, handles.
 */
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { toHex } from "../../base/bytes.ts";
import { getErrorCode, StoreError } from "../../base/faults/errors.ts";
import { writeWhole, type Disk } from "../../base/disk.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import type { World } from "../../base/world.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import { formats, requireVersion } from "../../format/core/versions.ts";
import type { DatabaseState } from "../../model/schema.ts";

/** Branches for which a thread remembers the newest manifest that it served from. */
const seenManifestsMax = 100_000;
/**
 * How often what was seen of a branch is noted on disk while it is written, and for how many branches of a thread in
 * one second: 0.1 ms each.
 */
export const seenNotedMs = 30_000;
const seenNotedPerTickMax = 256;
/** And how many of these a second are synced: commits wait for the same disk. */
const seenSyncedPerTickMax = 4;
/** Claims of a branch for which it is noted how far they were shipped: twice what a manifest lists. */
const seenClaimsMax = 32;

/** Which of a branch's manifests one is: manifests follow each other by epoch, within one by number. */
export type ManifestPosition = Pick<Manifest, "epoch" | "seq">;

/** Whether the manifest comes after the other. */
export function isNewer(manifest: ManifestPosition, other: ManifestPosition): boolean {
  return manifest.epoch > other.epoch || (manifest.epoch === other.epoch && manifest.seq > other.seq);
}

export interface SeenManifestsOptions {
  /** Where it is kept; undefined keeps it in memory alone. */
  readonly directory: string | undefined;
  readonly disk: Disk;
  readonly world: Pick<World, "monotonicMs">;
  /** Something an operator should know; never content. */
  readonly notice: (message: string, uuid: string) => void;
}

interface Seen extends ManifestPosition {
  /** How far each claim was shipped, by its id, the newest last. */
  readonly claims: Map<string, number>;
  /** The table of the newest manifest that was noted; taken into `claims` when that is needed. */
  writerEpochs: Manifest["writerEpochs"];
  isSaved: boolean;
  savedAtMs: number;
}

/** The catalog's key among the branches of a database: no branch has such an id. */
const catalogName = "catalog";

export class SeenManifests {
  readonly #options: SeenManifestsOptions;
  /** By uuid and branch. One that is not here is read again. */
  readonly #seen: LruMap<string, Seen>;
  /** Of those, what is not saved yet. */
  readonly #unsaved = new Set<string>();
  /** Files that were saved and are not synced yet. */
  readonly #unsynced = new Set<string>();
  #syncing: Promise<void> | undefined;
  #isTold = false;

  constructor(options: SeenManifestsOptions) {
    this.#options = options;
    this.#seen = new LruMap<string, Seen>(seenManifestsMax, (key, seen) => this.#save(key, seen));
  }

  /**
   * The branch was served from a state of this manifest. `state`: the local file has it, and the manifest covers it.
   */
  note({ uuid, branchId, epoch, seq, writerEpochs }: Manifest, state?: DatabaseState): void {
    const key = `${uuid}/${branchId}`;
    const before = this.#of(key);
    const isSame = before !== undefined && !isNewer({ epoch, seq }, before);
    if (
      isSame &&
      (state?.writerEpochId === undefined || (before.claims.get(hex(state.writerEpochId)) ?? -1) >= state.txid)
    )
      return;
    const seen: Seen = isSame
      ? before
      : {
          epoch,
          seq,
          writerEpochs,
          claims: before?.claims ?? new Map(),
          isSaved: false,
          savedAtMs: before?.savedAtMs ?? -Infinity,
        };
    if (state?.writerEpochId !== undefined) raise(seen.claims, hex(state.writerEpochId), state.txid);
    this.#set(key, seen);
  }

  /**
   * Whether the branch was served from a newer manifest than this one, which must then not be believed to be the
   * newest.
   */
  isPast({ uuid, branchId, epoch, seq }: Pick<Manifest, "uuid" | "branchId"> & ManifestPosition): boolean {
    const seen = this.#of(`${uuid}/${branchId}`);
    return seen !== undefined && isNewer(seen, { epoch, seq });
  }

  /** The newest manifest of the branch that was seen; undefined when none was. */
  newest(uuid: string, branchId: string): ManifestPosition | undefined {
    return this.#of(`${uuid}/${branchId}`);
  }

  /** How far the claim is known to have been shipped. */
  shippedTo(uuid: string, branchId: string, writerEpoch: Uint8Array): number | undefined {
    const seen = this.#of(`${uuid}/${branchId}`);
    return seen && mergeClaims(seen).get(hex(writerEpoch));
  }

  /** The number of the newest catalog that was seen; 0 when none was, or none of a database that had been written. */
  catalogSeq(uuid: string): number {
    return this.#of(`${uuid}/${catalogName}`)?.seq ?? 0;
  }

  /** A catalog of this number was seen. */
  noteCatalog(uuid: string, seq: number): void {
    if (seq > this.catalogSeq(uuid))
      this.#set(`${uuid}/${catalogName}`, {
        epoch: 0,
        seq,
        writerEpochs: [],
        claims: new Map(),
        isSaved: false,
        savedAtMs: -Infinity,
      });
  }

  /** Object storage is believed from now on, older than what was seen as it is: an operator has said so. */
  accept({ uuid, branchId, epoch, seq, writerEpochs }: Manifest, state?: DatabaseState): void {
    const claims = new Map(state?.writerEpochId ? [[hex(state.writerEpochId), state.txid]] : []);
    this.#set(`${uuid}/${branchId}`, { epoch, seq, writerEpochs, claims, isSaved: false, savedAtMs: -Infinity });
    this.save(uuid, branchId);
  }

  /** As `accept`, of a catalog. */
  acceptCatalog(uuid: string, seq: number): void {
    this.#set(`${uuid}/${catalogName}`, {
      epoch: 0,
      seq,
      writerEpochs: [],
      claims: new Map(),
      isSaved: false,
      savedAtMs: -Infinity,
    });
    this.save(uuid, catalogName);
  }

  /** Keeps what was noted of the branch over a restart, from now on. */
  save(uuid: string, branchId: string): void {
    const key = `${uuid}/${branchId}`;
    const seen = this.#seen.peek(key);
    if (seen) this.#save(key, seen);
  }

  /** Keeps what has changed a while ago, and syncs what was kept, some of it at a time. */
  tick(): void {
    if (this.#unsynced.size > 0) this.#syncing ??= this.#syncSome().finally(() => (this.#syncing = undefined));
    const dueMs = this.#options.world.monotonicMs() - seenNotedMs;
    let left = seenNotedPerTickMax;
    for (const key of this.#unsaved) {
      const seen = this.#seen.peek(key);
      if (!seen) this.#unsaved.delete(key);
      else if (seen.savedAtMs <= dueMs && left-- > 0) this.#save(key, seen);
      if (left <= 0) return;
    }
  }

  /** Keeps everything. */
  close(): void {
    for (const key of [...this.#unsaved]) {
      const seen = this.#seen.peek(key);
      if (seen) this.#save(key, seen);
    }
  }

  /** The branch, or the whole database, was deleted: nothing will ever be served of it. */
  forget(uuid: string, branchId?: string): void {
    for (const key of branchId === undefined
      ? [...this.#seen.keys()].filter((one) => one.startsWith(`${uuid}/`))
      : [`${uuid}/${branchId}`]) {
      this.#seen.delete(key);
      this.#unsaved.delete(key);
    }
    const { directory } = this.#options;
    if (directory !== undefined) rmSync(join(directory, uuid, branchId ?? ""), { recursive: true, force: true });
  }

  #set(key: string, seen: Seen): void {
    seen.isSaved = false;
    this.#seen.set(key, seen);
    this.#unsaved.add(key);
  }

  #of(key: string): Seen | undefined {
    const held = this.#seen.get(key);
    if (held) return held;
    const read = this.#read(key);
    if (read) this.#seen.set(key, read);
    return read;
  }

  #read(key: string): Seen | undefined {
    const path = this.#buildPath(key);
    if (path === undefined || !existsSync(path)) return undefined;
    const kept = keptIn(readFileSync(path, "utf8"));
    // A loss of power may have taken it: then this node has seen nothing.
    if (!kept)
      this.#options.notice(
        "what was seen of a branch in object storage cannot be read; it is noted anew",
        key.slice(0, key.indexOf("/")),
      );
    return (
      kept && {
        epoch: kept.epoch,
        seq: kept.seq,
        claims: new Map(kept.claims),
        writerEpochs: [],
        isSaved: true,
        savedAtMs: -Infinity,
      }
    );
  }

  #save(key: string, seen: Seen): void {
    this.#unsaved.delete(key);
    const path = this.#buildPath(key);
    if (path === undefined || seen.isSaved) return;
    const { disk, world, notice } = this.#options;
    const kept: Kept = { v: formats.seen.writes[0], epoch: seen.epoch, seq: seen.seq, claims: [...mergeClaims(seen)] };
    const temporary = `${path}.tmp`;
    try {
      mkdirSync(join(path, ".."), { recursive: true, mode: 0o700 });
      const descriptor = openSync(temporary, "w", 0o600);
      try {
        writeWhole(disk, descriptor, temporary, Buffer.from(JSON.stringify(kept)), 0);
      } finally {
        closeSync(descriptor);
      }
      renameSync(temporary, path);
      this.#unsynced.add(path);
      seen.isSaved = true;
      seen.savedAtMs = world.monotonicMs();
      this.#isTold = false;
    } catch (error) {
      rmSync(temporary, { force: true });
      if (!this.#isTold)
        notice(
          `what was seen of object storage could not be noted (${getErrorCode(error)})`,
          key.slice(0, key.indexOf("/")),
        );
      this.#isTold = true;
    }
  }

  async #syncSome(): Promise<void> {
    const { disk, directory, notice } = this.#options;
    if (directory === undefined) return;
    // The folders of the first ones are new themselves.
    const folders = new Set([dirname(directory), directory]);
    try {
      for (const path of [...this.#unsynced].slice(0, seenSyncedPerTickMax)) {
        this.#unsynced.delete(path);
        // Its branch was deleted meanwhile.
        if (!existsSync(path)) continue;
        folders.add(dirname(path));
        const descriptor = openSync(path, "r");
        try {
          await disk.fdatasync(descriptor, path);
        } finally {
          closeSync(descriptor);
        }
      }
      for (const folder of folders) if (existsSync(folder)) await disk.syncDirectory(folder);
    } catch (error) {
      if (!this.#isTold) notice(`what was seen of object storage could not be synced (${getErrorCode(error)})`, "");
      this.#isTold = true;
    }
  }

  #buildPath(key: string): string | undefined {
    const { directory } = this.#options;
    return directory === undefined ? undefined : join(directory, ...key.split("/"));
  }
}

/** What is kept of a branch. */
interface Kept extends ManifestPosition {
  readonly v: number;
  readonly claims: readonly (readonly [claim: string, shippedTo: number])[];
}

/** Throws NewerFormat for what a newer build has noted. */
function keptIn(text: string): Kept | undefined {
  try {
    const kept = JSON.parse(text) as Kept;
    requireVersion(formats.seen, kept.v);
    return Number.isSafeInteger(kept.epoch) && Number.isSafeInteger(kept.seq) && Array.isArray(kept.claims)
      ? kept
      : undefined;
  } catch (error) {
    if (error instanceof SyntaxError || (error instanceof StoreError && error.kind === "corrupt")) return undefined;
    throw error;
  }
}

/** The claims with those of the newest manifest, at most so many of the newest. */
function mergeClaims({ claims, writerEpochs }: Seen): ReadonlyMap<string, number> {
  for (const { id, lastTxid } of writerEpochs) raise(claims, hex(id), lastTxid);
  for (const claim of claims.keys()) {
    if (claims.size <= seenClaimsMax) break;
    claims.delete(claim);
  }
  return claims;
}

function raise(claims: Map<string, number>, claim: string, txid: number): void {
  const before = claims.get(claim) ?? -1;
  claims.delete(claim);
  claims.set(claim, Math.max(before, txid));
}

function hex(id: Uint8Array): string {
  return toHex(id);
}
