/**
 * Makes segments, and the files that images are made of, on a thread of its own, for one engine thread; small segments
 * on the engine thread itself.
 *
 * Why: reading, compressing and hashing what a busy second has written takes tens of milliseconds, and so does a base
 * image of a few megabytes; every client of the thread would wait. What a small write has logged takes less time than
 * the hand-over. A file that is restored from objects leaves a megabyte of garbage for each frame: beside ingests of a
 * thousand memories three of four collections of an engine thread, 10 ms each, were caused by that (`npm run bench --
 * fairness`).
 *
 * Always true: every order settles once; a lost thread fails its orders, to be tried again, and is replaced at the next
 * one. One order at a time, in turn, but for a restore, which waits for object storage and goes on beside the others.
 * The engine thread fetches the objects, some ahead within the bounds of any restore, and hands each over when it is
 * asked for. The thread is started when it is first needed.
 */
import { MessageChannel, type MessagePort, type Worker } from "node:worker_threads";
import { StoreError, type StoreErrorKind } from "../../base/faults/errors.ts";
import type { Compression } from "../../format/core/compression.ts";
import type { DatabaseState } from "../../model/core/database-state.ts";
import { WalChanged } from "../../sqlite/wal/wal-reader.ts";
import type { ImageOrder, MadeImage } from "./image-maker.ts";
import {
  makeSegment,
  type FetchedObject,
  type MadeSegment,
  type RestoreOrder,
  type SegmentMaker,
  type SegmentOrder,
} from "./segment-maker.ts";

/** Segments of up to this much log are made on the engine thread: handing them over takes as long. */
export const segmentLogBytesHere = 128 * 1024;

/** What is asked of the thread. */
export type Order =
  | { readonly kind: "segment"; readonly order: SegmentOrder }
  | { readonly kind: "image"; readonly order: ImageOrder }
  | { readonly kind: "state"; readonly path: string; readonly check: boolean }
  /** The objects come through the port, each when it is asked for. */
  | { readonly kind: "restore"; readonly order: RestoreOrder; readonly objects: MessagePort }
  | { readonly kind: "remove"; readonly path: string };

/** What comes of it. */
export type Made = MadeSegment | MadeImage | DatabaseState | number | undefined;

/** Of the objects that a restore asks for: the next one, their end, or that there is none. */
export type ObjectMessage =
  { readonly kind: "object"; readonly object: FetchedObject } | { readonly kind: "end" } | { readonly kind: "none" };

/** To the thread. */
export interface OrderMessage {
  readonly id: number;
  readonly order: Order;
}

/** What was thrown, as plain data. */
export interface MakingFault {
  /** Of a StoreError. */
  readonly storeKind: StoreErrorKind | undefined;
  readonly isChanged: boolean;
  readonly code: string;
  readonly message: string;
}

/** From the thread. */
export interface MadeMessage {
  readonly id: number;
  readonly made: Made;
  readonly fault?: MakingFault;
}

interface Waiting {
  readonly resolve: (made: Made) => void;
  readonly reject: (error: unknown) => void;
}

export class ThreadedMaker implements SegmentMaker {
  readonly #spawn: () => Worker;
  readonly #press: Compression;
  readonly #waiting = new Map<number, Waiting>();
  #worker: Worker | undefined;
  #nextId = 1;

  /** `press` is for what is made here; `spawn` starts the thread. */
  constructor(press: Compression, spawn: () => Worker) {
    this.#press = press;
    this.#spawn = spawn;
  }

  async make(order: SegmentOrder): Promise<MadeSegment | undefined> {
    const most = segmentLogBytesHere;
    if (order.logBytes <= most) {
      const made = await makeSegment({ ...order, logBytesMost: Math.min(most, order.logBytesMost) }, this.#press);
      if (made) return made;
    }
    return (await this.#ask({ kind: "segment", order })) as MadeSegment | undefined;
  }

  async image(order: ImageOrder): Promise<MadeImage> {
    return (await this.#ask({ kind: "image", order })) as MadeImage;
  }

  async state(path: string, check: boolean): Promise<DatabaseState> {
    return (await this.#ask({ kind: "state", path, check })) as DatabaseState;
  }

  async restore(order: RestoreOrder, objects: AsyncIterable<FetchedObject>): Promise<number> {
    const { port1: here, port2: there } = new MessageChannel();
    const iterator = objects[Symbol.asyncIterator]();
    let fault: { readonly error: unknown } | undefined;
    here.on("message", () => {
      iterator.next().then(
        ({ done, value }) =>
          here.postMessage((done ? { kind: "end" } : { kind: "object", object: value }) satisfies ObjectMessage),
        (error: unknown) => {
          fault = { error };
          here.postMessage({ kind: "none" } satisfies ObjectMessage);
        },
      );
    });
    try {
      return (await this.#ask({ kind: "restore", order, objects: there }, [there])) as number;
    } catch (error) {
      throw fault ? fault.error : error;
    } finally {
      here.close();
      await iterator.return?.();
    }
  }

  async remove(path: string): Promise<void> {
    await this.#ask({ kind: "remove", path });
  }

  /** Ends the thread. No caller may wait for a segment any more. */
  async close(): Promise<void> {
    await this.#worker?.terminate();
  }

  #ask(order: Order, given: readonly MessagePort[] = []): Promise<Made> {
    return new Promise((resolve, reject) => {
      const id = this.#nextId++;
      this.#waiting.set(id, { resolve, reject });
      (this.#worker ??= this.#start()).postMessage({ id, order } satisfies OrderMessage, given);
    });
  }

  #start(): Worker {
    const worker = this.#spawn();
    // The engine thread ends when it has nothing else to do.
    worker.unref();
    let fault: unknown;
    worker.on("message", (message: MadeMessage) => this.#hear(message));
    worker.on("error", (error) => (fault = error));
    worker.on("exit", () => {
      if (this.#worker === worker) this.#lost(fault);
    });
    return worker;
  }

  #hear({ id, made, fault }: MadeMessage): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (fault) waiting?.reject(toError(fault));
    else waiting?.resolve(made);
  }

  #lost(fault: unknown): void {
    this.#worker = undefined;
    const all = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject } of all)
      reject(new StoreError("unavailable", "the thread that makes segments was lost", { cause: fault }));
  }
}

function toError({ storeKind, isChanged, code, message }: MakingFault): Error {
  if (storeKind) return new StoreError(storeKind, message);
  return isChanged ? new WalChanged(message) : Object.assign(new Error(message), { code });
}
