/** What processes run for callers, from its arrival to its end: who waits, what runs, how it ended. */
import type { ServiceError } from "../../base/faults/errors.ts";
import type { Cancel } from "../../base/world.ts";
import type { FromSqlProcess, ReadCall } from "./sql-messages.ts";
import type { WriteCall } from "../process-calls/sql-write.ts";

/** How many batches run at once. */
export interface SqlPlaces {
  readonly reads: number;
  readonly writes: number;
}

/** The tenant and the database that the batch belongs to. */
export interface JobOwner {
  readonly uuid: string;
  readonly tenant: string;
}

/** What is to be run for an owner. */
export interface Job {
  readonly kind: keyof SqlPlaces;
  readonly owner: JobOwner;
  readonly call: ReadCall | WriteCall;
  /** What ends when this engine thread does. */
  readonly lane: number | undefined;
  readonly complete: (end: JobEnd) => void;
}

/** The outcome of a batch. */
export type JobEnd =
  | { readonly kind: "answered"; readonly message: FromSqlProcess }
  /** It has not begun, and never will. */
  | { readonly kind: "refused"; readonly refusal: ServiceError }
  /** Its process is gone. */
  | { readonly kind: "lost"; readonly refusal: ServiceError };

/** A batch that waits for a process, or has one. */
export interface Waiting {
  readonly job: Job;
  /** Has run for a slice: begins, and begins again, only where a process stays free for fresh ones. */
  long: boolean;
  /**
   * Its time is over or its caller gone. Noted, not reckoned anew: a timer may fire a moment before its time by the
   * clock.
   */
  late: boolean;
  cancelTimer: Cancel;
}

/** One run of a batch in a process. */
export interface Running {
  readonly waiting: Waiting;
  readonly begunMs: number;
  /** Of this very run: a process remembers the tickets of interrupts that came between two statements. */
  readonly ticket: number;
  /** Stopped to make room; it waits again and then starts from its beginning, which a read may. */
  preempted: boolean;
  /** Interrupted, and killed when that is not heard in time. */
  stopping: boolean;
  /** Killed by us. */
  killed: boolean;
  readonly cancels: Cancel[];
}
