/**
 * Makes open databases: the file, its head, its shipper and its actor, tied together.
 *
 * Owns what outlives a handle on this thread: the heads that were claimed (so that a branch which was closed for a while
 * is not claimed anew) and the branches that were lost to another writer (which this node must not take back by itself,
 * or two nodes without coordination would duel for ever).
 */
import { join } from "node:path";
import { ServiceError, StoreError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import { Recent } from "../base/recent.ts";
import { sleep, type World } from "../base/world.ts";
import type { Tenure } from "../format/head.ts";
import { VectorCache, type VectorPool } from "../model/vector-index.ts";
import type { Disk } from "../sqlite/wal.ts";
import { BranchHead, Fenced } from "./branch-head.ts";
import type { Catalogs } from "./catalogs.ts";
import { Database, type DatabaseEvents } from "./database.ts";
import { branchPath, databaseUuids, emptyDatabase, removeDatabase, removeLeftovers } from "./files.ts";
import { openBranch, removeFile, type Opened } from "./opening.ts";
import type { PageSource } from "./pool-objects.ts";
import { laneOf, type EngineOptions, type Target } from "./protocol.ts";
import { Shipper, type ShippingParts } from "./shipper.ts";
import { shipDifference, takeTenure } from "./tenure.ts";

export interface DockyardParts {
  readonly engine: EngineOptions;
  readonly world: World;
  readonly disk: Disk;
  readonly shipping: ShippingParts;
  readonly catalogs: Catalogs;
  readonly vectorPool: VectorPool;
  readonly source: (uuid: string) => PageSource;
  /** A head of so many bytes has landed. */
  readonly headLanded: (bytes: number) => void;
  /** Groups of the branch were published. */
  readonly published: (head: BranchHead) => void;
  /** There may be something to collect: the branch was claimed, and whoever wrote it before may have left objects behind. */
  readonly mayCollect: (uuid: string) => void;
}

export class Dockyard {
  readonly #parts: DockyardParts;
  readonly #empty: Uint8Array;
  /** Claimed heads of branches, by file. */
  readonly #held = new Recent<string, BranchHead>(limits.headsHeldMax);
  /**
   * Branches that another node has claimed from us. One that is forgotten may be taken back once, which loses nothing:
   * claims fence each other; and two nodes that must each lose so many others in between do not duel.
   */
  readonly #lost = new Recent<string, true>(limits.lostRememberedMax);
  /** How far each branch was answered from a handle that was given up, until its next claim: its file may come back with less. */
  readonly #answered = new Recent<string, number>(limits.answeredRememberedMax, (_, txid) => {
    this.#answeredByForgotten = Math.max(this.#answeredByForgotten, txid);
  });
  /** No branch that `#answered` has forgotten was answered beyond this: whose file has less is taken to lack something. */
  #answeredByForgotten = 0;

  constructor(parts: DockyardParts) {
    this.#parts = parts;
    const { databasesDirectory, lane, lanes, scratchDirectory } = parts.engine;
    // Before anything is opened: what looks like a leftover is one.
    for (const uuid of databaseUuids(databasesDirectory)) if (laneOf(uuid, lanes) === lane) removeLeftovers(databasesDirectory, uuid);
    this.#empty = emptyDatabase(scratchDirectory, parts.world);
  }

  /** Opens the branch of that name. Throws branch_not_found. */
  async open(target: Target, events: DatabaseEvents): Promise<Database> {
    const { catalogs, engine, world, disk } = this.#parts;
    const { uuid } = target;
    const branch = await catalogs.branch(uuid, target.branch);
    const key = `${uuid}/${branch.id}`;
    const source = this.#parts.source(uuid);
    const catalog = await catalogs.get(uuid);
    // Branches whose time is over must not stay because the node was started anew meanwhile.
    if (catalog?.branches.some(({ ttlAtMs }) => ttlAtMs !== undefined)) this.#parts.mayCollect(uuid);
    const opening = { world, disk, store: source.store, press: source.press, databasesDirectory: engine.databasesDirectory, nodeId: engine.nodeId, empty: this.#empty, notice: events.notice, headLanded: this.#parts.headLanded };
    const found = await openBranch(opening, uuid, branch.id, this.#held.get(key), catalog !== undefined);
    const opened: Opened = { ...found, knowsAll: found.knowsAll && found.state.txid >= (this.#answered.peek(key) ?? this.#answeredByForgotten) };
    let database: Database | undefined;
    const shipper = engine.shipping ? this.#shipper(opened, events, () => database!) : undefined;
    try {
      if (opened.logIsLost) await shipDifference(this.#tenureParts(uuid), opened);
      database = new Database({
        opened,
        world,
        disk,
        vectors: new VectorCache(this.#parts.vectorPool),
        writeQueueDepth: engine.writeQueueDepth,
        writership: { shipper, claim: () => this.#claim(key, opened), unshippedMsMax: engine.unshippedMsMax, unshippedBytesMax: engine.unshippedBytesMax },
        expiresAtMs: branch.ttlAtMs ?? Infinity,
        logCheckpointBytes: engine.logCheckpointBytes,
        events,
      });
      return database;
    } catch (error) {
      opened.log.close();
      opened.connection.close();
      throw error;
    }
  }

  /** A handle was given up: what was held of its branch is not certain any more. */
  forget(database: Database, error: unknown): void {
    const { uuid, branchId, head } = database.opened;
    const key = `${uuid}/${branchId}`;
    this.#held.delete(key);
    if (error instanceof Fenced && head.tenure) this.#lost.set(key, true);
    this.#answered.set(key, Math.max(database.safeTxid, this.#answered.peek(key) ?? 0));
  }

  /**
   * Gives back the transaction ids that were reserved and never used: whoever claims a branch next, on whatever disk,
   * then knows that nothing is missing. For when nothing is written any more, and only where object storage covers all
   * that was: `isCovered` says of which heads. What is not given back by `untilMs` stays reserved and costs a gap.
   */
  async giveBackIds(isCovered: (head: BranchHead) => boolean, untilMs: number): Promise<void> {
    const { engine, world, shipping } = this.#parts;
    // With shipping off nothing is covered, whatever a handle says.
    if (!engine.shipping) return;
    const heads = [...this.#held.values()].filter((head) => !head.fenced && isCovered(head));
    const givings = heads.map((head) =>
      shipping.permits.run(async () => {
        if (world.monotonicMs() < untilMs) await giveBack(head);
      }),
    );
    await Promise.race([Promise.all(givings), sleep(world, Math.max(0, untilMs - world.monotonicMs()))]);
  }

  /** Removes a deleted branch's file, which is closed. */
  removeBranch(uuid: string, branchId: string): void {
    this.#held.delete(`${uuid}/${branchId}`);
    removeFile(branchPath(this.#parts.engine.databasesDirectory, uuid, branchId));
  }

  /** Removes a deleted database's files. */
  async removeDatabase(uuid: string): Promise<void> {
    const { engine, disk } = this.#parts;
    for (const key of this.#held.keys()) if (key.startsWith(`${uuid}/`)) this.#held.delete(key);
    await removeDatabase(engine.databasesDirectory, uuid, disk);
    await removeDatabase(join(engine.databasesDirectory, "..", "quarantine"), uuid, disk);
  }

  #tenureParts(uuid: string): Parameters<typeof takeTenure>[0] {
    const { catalogs, world, shipping } = this.#parts;
    return { source: this.#parts.source(uuid), catalogs, world, bytesPut: shipping.bytesPut };
  }

  async #claim(key: string, opened: Opened): Promise<Tenure> {
    if (this.#lost.get(key)) {
      throw new ServiceError("unavailable", "another node has claimed this branch; this one does not write it again until it is started anew", { retryAfterSecs: 30 });
    }
    if (opened.head.tenure) return opened.head.tenure;
    const tenure = await takeTenure(this.#tenureParts(opened.uuid), opened);
    this.#answered.delete(key);
    this.#held.set(key, opened.head);
    this.#parts.mayCollect(opened.uuid);
    return tenure;
  }

  #shipper(opened: Opened, events: DatabaseEvents, database: () => Database): Shipper {
    return new Shipper({
      parts: this.#parts.shipping,
      head: opened.head,
      source: this.#parts.source(opened.uuid),
      branchId: opened.branchId,
      log: opened.log,
      statePage: opened.statePage,
      events: {
        published: () => {
          database().shippingMoved();
          this.#parts.published(opened.head);
        },
        stalled: () => database().shippingMoved(),
        failed: (error) => database().giveUp(error),
        notice: events.notice,
      },
    });
  }
}

async function giveBack(head: BranchHead): Promise<void> {
  try {
    await head.update(({ reservedTo, txid }) => (reservedTo > txid ? { reservedTo: txid } : undefined));
  } catch (error) {
    // A store that does not answer, or a branch that is another node's by now: the ids stay reserved.
    if (!(error instanceof StoreError) && !(error instanceof Fenced)) throw error;
  }
}
