/**
 * What crosses between the main thread and the engine threads: plain data, many calls in one message.
 */
import type { TimeMemory } from "../../base/trusted-time.ts";
import type { RefusalData } from "../../base/faults/errors.ts";
import type { Difference } from "../../model/core/state-diff.ts";
import type { SqlBatch } from "../../model/sql/sql.ts";
import type { Erased } from "../../model/erasure.ts";
import type { ErasedRecords } from "../../model/erasure-records.ts";
import type { ReadKind, WriteKind } from "../../model/commands.ts";
import type { MemoryRetention } from "../../model/core/retention.ts";
import type { WrittenVersions } from "../../format/core/versions.ts";
import type { AwaitedCopies, ErasureBlockers, ErasurePoint, Traces } from "../../format/erasure/erasure-coupon.ts";
import type { NamedCheckpoint } from "../../format/history/refs.ts";
import type { StoreLocation } from "../../store/open-store.ts";
import type { ErasureEvidence, ErasureTarget } from "../../format/erasure/erasure-receipt.ts";
import type { AlarmCounts } from "./alarms.ts";
import type { Sight } from "../process-calls/command-call.ts";
import type { LeaseSpan } from "./lease-expiry.ts";
import type { EngineMeasures, EngineCounters } from "./measures.ts";
import type { WriteCall, SqlWriteReply } from "../process-calls/sql-write.ts";

/**
 * Where a read may be answered from: `primary` is the branch's writer alone, as of the call; `cached` any copy, however
 * old.
 */
export type Consistency = "primary" | "cached";

/** Why an engine did not take a call that another node's may take. Nothing has happened. */
export type TurnedAwayReason =
  /** This node does not hold the database's lease, or not under the lease epoch that the caller believes. */
  | "unheld"
  /** This node's copy is older than the caller may be answered from. */
  | "behind";

/** An answer together with the state it speaks of. */
export interface Answer<Value = unknown> {
  readonly value: Value;
  readonly txid: number;
  /** How far object storage covers the branch. */
  readonly durableTxid: number;
  /** Of a write: whether an earlier call with the same key carried it out. */
  readonly isRepeat?: boolean;
}

export interface Completion {
  done(answer: Omit<Answer, "durableTxid">): void;
  failed(error: unknown, txid: number): void;
}

/** How long policy lets a database keep things, within the node's own bounds. */
export interface Retention extends MemoryRetention {
  readonly pitrMs: number;
}

/** Which states of a database are compared, and which page of what differs is wanted. */
export interface DiffAsked {
  /** The earlier state, as a caller names one, and its branch; by default the newest, and that of the call. */
  readonly from?: string | undefined;
  readonly fromBranch?: string | undefined;
  /** The later state of the call's branch; by default the newest. */
  readonly to?: string | undefined;
  readonly limit: number;
  readonly cursor?: string | undefined;
}

/** A page of what differs between two states. */
export interface DiffPage {
  /** Transaction ids of the two states. */
  readonly from: number;
  readonly to: number;
  readonly differences: readonly Difference[];
  readonly cursor: string | undefined;
}

/** Which open file a call is for. */
export interface Target {
  readonly uuid: string;
  readonly branch: string;
  /** What the database's policy says now; undefined when it has none, or the caller does not know. */
  readonly retention?: Retention | undefined;
  /**
   * The database's name, by which its policy is found when there is no caller; undefined when the caller does not know.
   */
  readonly database?: string | undefined;
}

/** The key of a branch. Uuids and branch names hold no slash, so the two parts can never run into each other. */
export function buildBranchKey({ uuid, branch }: Pick<Target, "uuid" | "branch">): string {
  return `${uuid}/${branch}`;
}

export type Work =
  | { readonly kind: "write"; readonly command: WriteKind; readonly input: unknown; readonly bytes: number }
  /** `at` names an earlier state, as it was asked for: a transaction id, a checkpoint, a time. */
  | { readonly kind: "read"; readonly command: ReadKind; readonly input: unknown; readonly at?: string | undefined }
  /**
   * User SQL that may write: alone in a transaction. Its ticket names it to the process that runs it and to what stops
   * it.
   */
  | { readonly kind: "sql"; readonly batch: SqlBatch; readonly ticket: number; readonly bytes: number }
  /** Holds the file open for a process that reads it; answered with a Pinned, ended by `unpin`. */
  | { readonly kind: "pin"; readonly at?: string | undefined }
  /** Compares two states. */
  | { readonly kind: "diff"; readonly asked: DiffAsked }
  /** Ends a pin; answered once the state that the reader saw cannot be lost. */
  | { readonly kind: "unpin"; readonly token: number; readonly seenTxid: number }
  /** Answered at once, whatever the thread holds. */
  | { readonly kind: "ping" }
  /** Answered once object storage covers everything that is committed. */
  | { readonly kind: "sync" }
  /** A change of branches, checkpoints or history; `target.branch` is the branch it starts from. */
  | { readonly kind: "branch"; readonly act: BranchAct }
  /**
   * Removes what this node has of the database on its disk, and tells the other nodes; answered with false while this
   * node writes it.
   */
  | { readonly kind: "purge-copies" }
  /** Closes every branch of the database and removes its files: it is deleted. Its objects are purged later. */
  | { readonly kind: "drop" }
  /** This node holds the database's lease, under this lease epoch. */
  | { readonly kind: "hold"; readonly leaseEpoch: number }
  /** Hands the database over: answered once it is shipped, closed and not held any more. */
  | { readonly kind: "let-go" }
  /** Gives a database that was made ahead to the name; answered with its uuid, or undefined when there is none. */
  | { readonly kind: "take-spare"; readonly name: string }
  /** What became of the claim of the name that it was given to. */
  | { readonly kind: "settle-spare"; readonly outcome: NameOutcome };

/** What became of a claim of a name: `unknown` may be named yet. */
export type NameOutcome = "named" | "unnamed" | "unknown";

/** What can be done to the branches of a database. */
export type BranchAct =
  /** Forks `target.branch`, as it is or as it was `at` a checkpoint or txid. */
  | {
      readonly act: "fork";
      readonly name: string;
      readonly at?: string | undefined;
      readonly ttlSecs?: number | undefined;
    }
  | { readonly act: "list" }
  | { readonly act: "delete"; readonly name: string }
  | { readonly act: "checkpoint"; readonly name: string }
  | { readonly act: "checkpoints" }
  | { readonly act: "forget-checkpoint"; readonly name: string }
  /** Back to a checkpoint or a txid. */
  | { readonly act: "rewind"; readonly to: string }
  /** Removes what is due of the branch of that id, and branches whose time is over; the branch may be gone by now. */
  | { readonly act: "sweep"; readonly branchId: string }
  /** Hard-deletes the target on `target.branch`. Asked again with the same coupon it gives the same answer. */
  | { readonly act: "erase"; readonly couponId: string; readonly erase: ErasureTarget; readonly traceKey: Uint8Array }
  /** Takes what was erased out of everything that is stored of the database, and proves it. */
  | { readonly act: "expunge"; readonly coupons: readonly ErasedCoupon[] };

/** An erasure whose data is to go from history, as far as the engine needs to know it. */
export interface ErasedCoupon {
  readonly id: string;
  readonly memoryIds: readonly string[];
  /** Where records were erased by their names. */
  readonly records?: ErasedRecords | undefined;
  readonly points: readonly ErasurePoint[];
  readonly traces: Traces;
  /** The copies that were there when history had been cut for it, as a run before has found them. */
  readonly awaiting?: AwaitedCopies | undefined;
  /** Whether its grace is over. One that is not due is only asked about: who holds its data as live content. */
  readonly isDue: boolean;
}

/** The outcome of an `expunge`. */
export interface Expunged {
  /** For each coupon, by its id, what keeps its data; nothing for one that nothing keeps. */
  readonly blocked: Readonly<Record<string, ErasureBlockers>>;
  /**
   * For the blocked coupons, by their ids, that something other than live content blocks: what it is, in words for
   * their reader.
   */
  readonly reasons?: Readonly<Record<string, string>> | undefined;
  /** Ids of the due coupons that nothing blocks and whose data is provably gone. */
  readonly clean: readonly string[];
  /**
   * Why the other due and unblocked coupons are not clean yet, in words for the coupon's reader; undefined when there
   * are none.
   */
  readonly waitingFor: string | undefined;
  /** Whether that may be over soon by itself. Another erasure's grace has its own time. */
  readonly mayChangeSoon: boolean;
  /** How it was proven; present when `clean` names a coupon. */
  readonly evidence: ErasureEvidence | undefined;
  /**
   * For coupons that are due and not blocked, by their ids, where nodes have or had copies of the database. A coupon
   * that is missing here waits for none, whatever was found before. The next run has to be told what is awaited.
   */
  readonly copies?: Readonly<Record<string, CopiesFound>> | undefined;
}

/** What is known of a coupon's awaited copies. */
export interface CopiesFound {
  readonly awaiting: AwaitedCopies;
  /** Those that hold the coupon up. */
  readonly holding: AwaitedCopies["copies"];
  /** Those that nodes have purged since, by their word; part of the coupon's evidence. */
  readonly purged: ErasureEvidence["local"];
  /** Nodes of which nothing will be heard any more. */
  readonly unattested: readonly string[];
}

/** A branch as lists show it. */
export interface BranchRecord {
  readonly name: string;
  readonly parent: string | undefined;
  readonly forkTxid: number | undefined;
  readonly txid: number;
  readonly createdAtMs: number;
  readonly ttlAtMs: number | undefined;
}

/** What each act on branches gives. */
export interface BranchResults {
  readonly fork: {
    readonly branch: string;
    readonly parent: string;
    readonly forkTxid: number;
    readonly ttlAtMs: number | undefined;
  };
  readonly list: { readonly branches: readonly BranchRecord[] };
  readonly delete: undefined;
  readonly checkpoint: { readonly checkpoint: string; readonly txid: number };
  readonly checkpoints: { readonly checkpoints: readonly NamedCheckpoint[] };
  readonly "forget-checkpoint": undefined;
  /** The answer's own txid is the rewind's. */
  readonly rewind: { readonly rewoundTo: number };
  /**
   * The answer's own txid is the erasure's. `found` is false when what was named is unknown: then nothing was
   * changed.
   */
  readonly erase: Erased & Pick<ErasurePoint, "branchId" | "ancestors">;
  readonly expunge: Expunged;
  readonly sweep: undefined;
}

/** A file that is held open, and the token that ends it; and what a command would see. */
export interface Pinned extends Sight {
  readonly path: string;
  readonly token: number;
}

/** A file that an engine thread permits the main thread to read. */
export interface PermittedFile {
  readonly uuid: string;
  readonly branch: string;
  readonly path: string;
  /** When the branch ceases to exist, Unix ms. */
  readonly expiresAtMs: number;
  /** Of transaction ids up to this one some may have been lost. */
  readonly lostTxidMax: number;
  readonly retention: MemoryRetention | undefined;
}

export interface EngineCall {
  readonly id: number;
  readonly target: Target;
  readonly work: Work;
  /** Milliseconds from receipt after which no caller waits for the answer. */
  readonly budgetMs: number;
  /** The caller has seen this transaction id; an answer from an older state is refused. */
  readonly minTxid: number;
  /** A write is answered only when object storage covers it. */
  readonly durable: boolean;
  readonly consistency?: Consistency | undefined;
}

export interface EngineAnswer {
  readonly id: number;
  /** The transaction id of the state that the answer speaks of; undefined when no state was reached. */
  readonly txid: number | undefined;
  /** How far object storage covers the branch; known together with `txid`. */
  readonly durableTxid?: number | undefined;
  readonly value?: unknown;
  readonly refusal?: RefusalData;
  /** The read takes longer than its time slice while another caller waits: a process is to run it. */
  readonly isLong?: true;
  /** The call was not for this engine and has had no effect. */
  readonly turnedAway?: TurnedAwayReason;
  /** A fault that is not the caller's: logged on the main thread, never shown. */
  readonly fault?: { readonly message: string; readonly stack: string };
}

/** Main to engine thread. */
export type ToEngine =
  | { readonly kind: "calls"; readonly calls: readonly EngineCall[] }
  /** Until when this node's leases surely hold; undefined when they are lost, and every database with them. */
  | { readonly kind: "lease"; readonly until: LeaseSpan | undefined }
  /** Whether other nodes follow the database: then it is shipped sooner, and they are told. */
  | { readonly kind: "followed"; readonly uuid: string; readonly isFollowed: boolean }
  /** A newer manifest of one of the database's branches is said to have landed. */
  | { readonly kind: "hint"; readonly uuid: string }
  /** The outcome of a batch of user SQL that was to be run. */
  | { readonly kind: "sql-ran"; readonly ticket: number; readonly reply: SqlWriteReply }
  /** Asks what the thread measures of itself. */
  | { readonly kind: "measure"; readonly id: number }
  | { readonly kind: "close" };

/** Engine thread to main. */
export type FromEngine =
  | { readonly kind: "answers"; readonly answers: readonly EngineAnswer[] }
  /**
   * A process is to run a batch of user SQL that writes, or a write that takes long, while the database's other writes
   * wait; answered with `sql-ran`.
   */
  | { readonly kind: "sql-run"; readonly call: WriteCall; readonly uuid: string; readonly leftMs: number }
  | { readonly kind: "event"; readonly level: "info" | "warn"; readonly message: string; readonly uuid: string }
  /** Another node's claim is in a branch's manifest: the belief that this node holds the database is wrong. */
  | { readonly kind: "fenced"; readonly uuid: string; readonly leaseEpoch: number }
  /** A manifest of a branch that this node writes has landed, of a database that other nodes follow. */
  | { readonly kind: "shipped"; readonly uuid: string }
  /** The main thread may read the file until it is told otherwise; `shared` is the memory of the permit's words. */
  | {
      readonly kind: "read-permit";
      readonly id: number;
      readonly file: PermittedFile;
      readonly shared: SharedArrayBuffer;
    }
  | { readonly kind: "read-permit-ended"; readonly id: number }
  /** What an operator must look at has changed. */
  | { readonly kind: "alarms"; readonly counts: AlarmCounts }
  | { readonly kind: "measured"; readonly id: number; readonly measures: EngineMeasures }
  /** How many databases the thread has made ahead that are nobody's yet. */
  | { readonly kind: "spares"; readonly ready: number }
  | { readonly kind: "closed"; readonly counters: EngineCounters };

/** Where an engine thread keeps its files and how much it may hold; crosses the thread once, at start. */
export interface EngineOptions {
  /** Which of how many threads this is: a database belongs to the one that laneOf gives. */
  readonly lane: number;
  readonly lanes: number;
  /** Folder of database files. */
  readonly databasesDirectory: string;
  /** Private folder for sorter spills and index builds; purged at start. */
  readonly scratchDirectory: string;
  readonly hotHandlesMax: number;
  readonly writeQueueDepth: number;
  readonly idleCloseMs: number;
  /** Where the objects are. */
  readonly store: StoreLocation;
  /** What the main thread knows of the time when the thread begins. */
  readonly time?: TimeMemory | undefined;
  /** What this node writes into the manifests it claims; stays with the data directory. */
  readonly nodeId: string;
  /** The node's name, for people. */
  readonly nodeName?: string | undefined;
  /** Whether there are other nodes: then a database is written only while its lease is held. */
  readonly coordinated: boolean;
  /** Whether page data is shipped to the store at all; off only to measure what shipping costs. */
  readonly shipping: boolean;
  /** Versions of what is written anew: the newest unless the store's layout says otherwise. */
  readonly written?: WrittenVersions | undefined;
  readonly pitrMs: number;
  readonly gcGraceMs: number;
  readonly unshippedMsMax: number;
  readonly unshippedBytesMax: number;
  /** Bytes of earlier states that the node keeps restored, all threads together; 1 GiB by default. */
  readonly pastBytesMax?: number | undefined;
  /** The log is checkpointed when it has this many bytes. */
  readonly logCheckpointBytes: number;
  /**
   * Databases, by uuid, or `all`, whose object storage is believed although it is older than what this node has seen.
   */
  readonly acceptRollback?: readonly string[] | undefined;
  /** Databases that the node keeps made ahead, all threads together; none by default. */
  readonly spareDatabases?: number | undefined;
  /** Whether a thread of this process had the lane before and was lost. */
  readonly isRestarted?: boolean | undefined;
}

/** Which thread owns the database: FNV-1a over its uuid. */
export function computeLane(uuid: string, lanes: number): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < uuid.length; index++) hash = Math.imul(hash ^ uuid.charCodeAt(index), 0x01000193);
  return (hash >>> 0) % lanes;
}
