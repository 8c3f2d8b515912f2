/**
 * What a thread took while it was busy goes back to the system once it is idle.
 *
 * V8 collects when something is allocated, and the C library keeps what was freed between blocks in use: after an hour
 * of load a node with nothing open held a gigabyte of what nobody used any more. Always true: nothing is collected
 * while the thread has work, as a collection holds it up for tens of milliseconds; an idle thread is left alone after
 * the one time.
 */
import { performance } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Cancel, World } from "../base/world.ts";
import { releaseFreedMemory } from "./sql-authorizer.ts";

/** How often a thread looks whether it is idle. */
export const idleLookMs = 5_000;
/** A thread that has worked for less than this share of the time since the last look is idle. */
const idleShare = 0.05;
/** It is idle for so long before it gives anything back: by then it has closed the files that nobody uses. */
export const idleLooks = 7;

/** What a thread gives back, and how long it has worked since it began. */
export interface IdleMemoryParts {
  /** Milliseconds in which the thread's loop was not waiting. */
  readonly busyMs: () => number;
  readonly giveBack: () => void;
}

let collect: (() => void) | undefined;

/** Collects this thread's garbage, and lets the process give back what is free. */
function giveBack(): void {
  if (!collect) {
    // V8 has no other way to be asked. The flag is the whole process's, and stays: a thread that took it back could
    // take it from another one between these two lines. Only contexts that are made anew see it.
    setFlagsFromString("--expose-gc");
    collect = runInNewContext("gc") as () => void;
  }
  collect();
  releaseFreedMemory();
}

const thisThread: IdleMemoryParts = { busyMs: () => performance.eventLoopUtilization().active, giveBack };

/** Watches a thread for as long as it runs. */
export class IdleMemory {
  readonly #world: World;
  readonly #parts: IdleMemoryParts;
  #busyMs: number;
  /** Looks in a row that found the thread idle; as many as there can be while nothing is owed. */
  #looks = idleLooks;
  #cancel: Cancel;

  /** Watches from now on; `parts` are this thread's but in tests. */
  constructor(world: World, parts: IdleMemoryParts = thisThread) {
    this.#world = world;
    this.#parts = parts;
    this.#busyMs = parts.busyMs();
    this.#cancel = this.#plan();
  }

  stop(): void {
    this.#cancel();
  }

  #plan(): Cancel {
    return this.#world.after(idleLookMs, () => {
      this.#look();
      this.#cancel = this.#plan();
    });
  }

  #look(): void {
    const busyMs = this.#parts.busyMs();
    const isIdle = busyMs - this.#busyMs < idleShare * idleLookMs;
    this.#busyMs = busyMs;
    if (!isIdle) this.#looks = 0;
    else if (this.#looks < idleLooks && ++this.#looks === idleLooks) this.#parts.giveBack();
  }
}
