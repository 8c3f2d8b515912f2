/**
 * What an engine is given by whoever starts it: a thread, or a test or a simulation in its own.
 *
 * Must not know: what is made of it.
 */
import type { Disk } from "../base/disk.ts";
import type { World } from "../base/world.ts";
import type { Compression } from "../format/core/compression.ts";
import type { IndexBuilder } from "../model/index/vector-index.ts";
import type { Slices } from "../sqlite/slices.ts";
import type { ObjectStore } from "../store/port/object-store.ts";
import type { EngineOptions, FromEngine } from "./api/protocol.ts";
import type { ReadPermits } from "./direct-reads/read-permits.ts";
import type { SqlWriter } from "./process-calls/sql-write.ts";
import type { SegmentMaker } from "./segments/segment-maker.ts";

/** What an engine is given by the thread that starts it. */
export interface EngineSurroundings {
  readonly options: EngineOptions;
  readonly world: World;
  readonly disk: Disk;
  readonly store: ObjectStore;
  readonly press: Compression;
  /** What makes the segments that are shipped; by default this thread does. */
  readonly maker?: SegmentMaker;
  readonly indexBuilder: IndexBuilder | undefined;
  /**
   * What runs user SQL that writes, and commands that take long; by default this thread does, which a node must never
   * do.
   */
  readonly sql?: SqlWriter | undefined;
  /** How long commands may hold this thread while others wait; by default for as long as they like. */
  readonly slices?: Slices | undefined;
  /** Permits for another thread to read open files; by default only this thread does. */
  readonly readPermits?: ReadPermits | undefined;
  readonly send: (message: FromEngine) => void;
}
