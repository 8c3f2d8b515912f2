/**
 * Whether the main thread may read one open file by itself, and how far it may believe it.
 *
 * Always true: a permit is given only while this node holds the database, and its levels never run ahead of the disk.
 * Must not know: what is read.
 */
import type { World } from "../../base/world.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import type { ReadKind } from "../../model/commands.ts";
import type { MemoryRetention } from "../../model/core/retention.ts";
import type { PermittedFile } from "../api/protocol.ts";
import { isDirect, type ReadPermit, type ReadPermits } from "./read-permits.ts";

/** A file is permitted when it is read so often */
const readsMin = 8;
/** within this time. */
const withinMs = 1_000;

interface FilePermitOptions {
  /** Undefined where no other thread could read. */
  readonly readPermits?: ReadPermits | undefined;
  readonly world: Pick<World, "monotonicMs">;
  readonly branch: string;
  readonly expiresAtMs: number;
  readonly retention: () => MemoryRetention | undefined;
}

/** How far the file is, and whether its handle serves. */
interface FileState {
  readonly poisoned: boolean;
  readonly safeTxid: number;
  readonly writer: { readonly isHeld: boolean };
  readonly opened: {
    readonly uuid: string;
    readonly connection: { readonly path: string };
    readonly manifest: { readonly now: Pick<Manifest, "txid" | "lost"> };
  };
}

export class FilePermit {
  readonly #options: FilePermitOptions;
  readonly #state: FileState;
  #permit: ReadPermit | undefined;
  #reads = 0;
  #sinceMs = -Infinity;

  constructor(options: FilePermitOptions, state: FileState) {
    this.#options = options;
    this.#state = state;
  }

  /** This thread was asked to read: often enough, and the main thread may from now on. */
  asked(command: ReadKind): void {
    const { readPermits, world } = this.#options;
    if (!readPermits || !isDirect(command) || (this.#permit && !this.#permit.words.isClosed)) return;
    const nowMs = world.monotonicMs();
    if (nowMs > this.#sinceMs + withinMs) {
      this.#sinceMs = nowMs;
      this.#reads = 0;
    }
    if (++this.#reads < readsMin || this.#state.poisoned || !this.#state.writer.isHeld) return;
    this.#sinceMs = -Infinity;
    this.#permit = readPermits.give(this.#file, this.#state.safeTxid, this.#state.opened.manifest.now.txid);
  }

  /** The file has come further. */
  moved(): void {
    this.#permit?.words.raise(this.#state.safeTxid, this.#state.opened.manifest.now.txid);
  }

  /** Nothing is answered by it from now on: the handle has failed, or another node may have the database. */
  revoke(): void {
    if (this.#permit) this.#options.readPermits!.revoke(this.#permit);
  }

  /** Call before the file is closed: returns when the main thread has closed it. */
  end(): void {
    if (this.#permit) this.#options.readPermits!.end(this.#permit);
    this.#permit = undefined;
  }

  get #file(): PermittedFile {
    const { branch, expiresAtMs, retention } = this.#options;
    const { uuid, connection, manifest } = this.#state.opened;
    const lostTxidMax = manifest.now.lost.reduce((most, { lastTxid }) => Math.max(most, lastTxid), 0);
    return { uuid, branch, path: connection.path, expiresAtMs, lostTxidMax, retention: retention() };
  }
}
