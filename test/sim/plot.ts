/** What one run does to the service, drawn from its seed. */
import type { EngineOptions } from "../../src/engine/api/protocol.ts";
import type { StoreBugs, StoreDose } from "./hostile-store.ts";
import { stream } from "./scheduler.ts";
import { soundDisk, type DiskDose } from "./sim-disk.ts";

/** What a run does to the service. */
export interface Plot {
  readonly databases: number;
  /** Databases that get their names while the story runs: where the node makes some ahead, of those. */
  readonly named: number;
  readonly clientsPerDatabase: number;
  readonly callsPerClient: number;
  /** Of the removals of tokens, how many are undos of their writing; absent: none. */
  readonly undos?: number;
  readonly faults: number;
  /**
   * Chance of a crash at each place that the engine calls interesting, and after each request that the store applied.
   */
  readonly crashAtPoint: number;
  /** Chance that the power goes just as an answer has left. */
  readonly crashAtAnswer: number;
  /** Chance that a fault is another node's taking over. */
  readonly takeovers: number;
  /** Chance that a fault is a disk that goes back to an earlier state. */
  readonly rollbacks: number;
  /** Chance that the power goes soon after an fsync has failed. */
  readonly powerAfterFailure: number;
  readonly store: StoreDose;
  readonly disk: DiskDose;
  readonly engine: Partial<EngineOptions>;
}

/** Planted bugs. */
export interface Bugs extends StoreBugs {
  readonly diskLies?: boolean;
}

/** The plot of a seed: most runs have some of everything, some have much of one thing. */
export function drawPlot(seed: number): Plot {
  const random = stream(seed, "plot");
  const some = (chance: number, most: number): number => (random() < chance ? random() * most : 0);
  const small = random() < 0.5;
  const crashAtAnswer = stream(seed, "answers");
  const more = stream(seed, "disk plot");
  const isFailing = more() < 0.2;
  const ahead = stream(seed, "spares");
  const spareDatabases = ahead() < 0.4 ? 1 + Math.floor(ahead() * 4) : 0;
  const hurt = more() < 0.25 ? { full: more() * 0.01, writeFails: more() * 0.003, readFails: more() * 0.002 } : {};
  return {
    databases: 1 + Math.floor(random() * 3),
    named: spareDatabases > 0 ? 1 + Math.floor(ahead() * 3) : 0,
    clientsPerDatabase: 1 + Math.floor(random() * 3),
    callsPerClient: 40 + Math.floor(random() * 60),
    faults: 2 + Math.floor(random() * 8),
    crashAtPoint: some(0.5, 0.004),
    crashAtAnswer: crashAtAnswer() < 0.6 ? crashAtAnswer() * 0.02 : 0,
    takeovers: some(0.4, 0.5),
    rollbacks: more() < 0.3 ? 0.4 : 0,
    powerAfterFailure: isFailing ? 0.7 : 0.1,
    store: {
      latencyMsMax: 5 + random() * 95,
      slow: some(0.3, 0.05),
      requestLost: some(0.5, 0.05),
      answerLost: some(0.5, 0.05),
      late: some(0.5, 0.05),
      refused: some(0.5, 0.1),
      damagedGet: some(0.2, 0.05),
      staleList: some(0.3, 0.3),
      rot: some(0.08, 0.2),
    },
    disk: {
      ...soundDisk,
      fsyncMsMax: 0.2 + random() * 5,
      slow: some(0.3, 0.02),
      failing: some(0.2, 0.01) + (isFailing ? 0.03 : 0),
      ...hurt,
    },
    engine: {
      hotHandlesMax: random() < 0.3 ? 2 : 100,
      idleCloseMs: random() < 0.3 ? 500 : 30_000,
      logCheckpointBytes: small ? 64 * 1024 : 1024 * 1024,
      gcGraceMs: small ? 20_000 : 600_000,
      pitrMs: small ? 30_000 : 86_400_000,
      spareDatabases,
    },
  };
}
