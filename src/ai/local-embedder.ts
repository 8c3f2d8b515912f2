/**
 * Turns texts into vectors by a model that the node runs itself, in one process beside it: no text leaves the machine.
 *
 * Always true:
 * - `embed` settles by its deadline and does not fail: what it could not get is missing from its answer
 * - at most one process runs, and it has at most one group of texts
 * - it is started when something is to be embedded, ended when nothing was for `modelIdleMs`, and replaced when it
 *   ended by itself, hangs or has grown too large; however often it fails, no faster than a back-off allows
 *
 * Must not know: databases, policies, what a text is about.
 */
import { BackOff } from "../base/back-off.ts";
import type { Log } from "../base/log.ts";
import type { Cancel, World } from "../base/world.ts";
import { EmbedQueue, type EmbedCall, type EmbedItem } from "./embed-queue.ts";
import type { EmbedAnswer, Embedder, LocalEmbedderMeasures } from "./embedder.ts";
import { findTraits, type EmbedUse } from "./embedding-models.ts";
import type { LocalModel } from "./local-model.ts";
import type { FromModelProcess, ModelProcess } from "./local-process.ts";
import type { ModelFailureKind } from "./model-failure.ts";

/** Loading takes a third of a second; a machine may have much else to do. */
const modelOpenMs = 30_000;
/** A group takes a quarter of a second at most, on a processor of its own. */
const modelGroupMs = 10_000;
/** After this long without a text the process ends, and its memory is the machine's again. */
export const modelIdleMs = 300_000;
/** Pause before a process that has failed is replaced: from, to. */
const modelRestartMsMin = 1_000;
const modelRestartMsMax = 60_000;
/** The process takes some 270 MiB. One that has more than this is ended between two groups. */
export const modelResidentBytesMax = 768 * 1024 * 1024;

export interface LocalEmbedderOptions {
  readonly model: LocalModel;
  /** Of the processor, for one text. */
  readonly threads: number;
  readonly start: () => ModelProcess;
  readonly world: World;
  readonly log: Log;
}

/** A call that waits for its vectors. */
interface Call extends EmbedCall {
  readonly vectors: (Float32Array | undefined)[];
  /** Texts that are not settled. */
  left: number;
  readonly settle: (failure: ModelFailureKind | undefined) => void;
}

export class LocalEmbedder implements Embedder {
  readonly provider = "local";
  readonly model: string;
  readonly name: string;
  readonly endpointHost = undefined;
  readonly floor: number;
  readonly #options: LocalEmbedderOptions;
  readonly #queue = new EmbedQueue<Call>();
  readonly #backOff: BackOff;
  #process: ModelProcess | undefined;
  #isOpen = false;
  #group: readonly EmbedItem<Call>[] = [];
  /** Of what the process is to do by then: open, answer, or end. */
  #cancelWatch: Cancel = () => {};
  #isClosed = false;
  readonly #texts = { query: 0, document: 0 };
  #residentBytes = 0;
  /** Of processes that are gone, and of the one that is there. */
  #cpuMsBefore = 0;
  #cpuMs = 0;
  #starts = 0;
  #losses = 0;

  constructor(options: LocalEmbedderOptions) {
    this.model = options.model.name;
    this.name = `${this.provider}/${this.model}`;
    this.floor = findTraits(this.model).floor;
    this.#options = options;
    this.#backOff = new BackOff(options.world, modelRestartMsMin, modelRestartMsMax);
  }

  get isAwake(): boolean {
    return !this.#isClosed && this.#backOff.isOver;
  }

  get measures(): LocalEmbedderMeasures {
    return {
      isRunning: this.#process !== undefined,
      residentBytes: this.#residentBytes,
      waitingTexts: this.#queue.waiting + this.#group.length,
      texts: { ...this.#texts },
      cpuMs: this.#cpuMsBefore + this.#cpuMs,
      starts: this.#starts,
      losses: this.#losses,
    };
  }

  async embed(texts: readonly string[], use: EmbedUse, deadlineMs: number): Promise<EmbedAnswer> {
    const { world } = this.#options;
    const vectors: (Float32Array | undefined)[] = texts.map(() => undefined);
    const answered = (failure: ModelFailureKind | undefined): EmbedAnswer => ({
      // A copy: what comes later than this is dropped.
      vectors: [...vectors],
      failure,
      sentItems: 0,
      sentBytes: 0,
    });
    if (texts.length === 0) return answered(undefined);
    if (!this.isAwake) return answered("resting");
    const { promise: settled, resolve: settle } = Promise.withResolvers<ModelFailureKind | undefined>();
    const call: Call = { texts, use, next: 0, vectors, left: texts.length, settle };
    if (!this.#queue.offer(call)) return answered("crowded");
    const cancel = world.after(Math.max(0, deadlineMs - world.monotonicMs()), () => {
      this.#queue.drop(call);
      settle("crowded");
    });
    this.#work();
    const failure = await settled;
    cancel();
    return answered(failure);
  }

  close(): void {
    this.#isClosed = true;
    this.#end();
    this.#fail("unavailable");
  }

  /** Gives the process the next group, or starts one, or lets it rest: whatever can be done now. */
  #work(): void {
    if (this.#group.length > 0 || (this.#process && !this.#isOpen)) return;
    if (this.#queue.waiting === 0) return this.#process && this.#watch(modelIdleMs, () => this.#end());
    if (!this.#process) return this.#start();
    this.#group = this.#queue.take();
    this.#watch(modelGroupMs, () => this.#process?.kill());
    this.#process.send({ kind: "embed", texts: this.#group.map(({ call, at }) => call.texts[at]!) });
  }

  #watch(limitMs: number, act: () => void): void {
    this.#cancelWatch();
    this.#cancelWatch = this.#options.world.after(limitMs, act);
  }

  #start(): void {
    const { start, model, threads } = this.#options;
    let process: ModelProcess;
    try {
      process = start();
    } catch (error) {
      return this.#lost(error instanceof Error ? error.message : String(error));
    }
    this.#process = process;
    this.#starts++;
    this.#watch(modelOpenMs, () => process.kill());
    process.listen(
      (message) => {
        if (this.#process === process) this.#hear(message);
      },
      (how) => {
        if (this.#process === process) this.#lost(how);
      },
    );
    process.send({ kind: "open", entry: model.entry, threads });
  }

  #hear(message: FromModelProcess): void {
    if (message.kind === "unusable") {
      this.#options.log.warn("the local model cannot be loaded", { reason: message.reason });
      return this.#process?.kill();
    }
    this.#residentBytes = message.residentBytes;
    if (message.kind === "opened") this.#isOpen = true;
    else this.#answered(message.vectors, message.cpuMs);
    this.#work();
  }

  #answered(vectors: readonly (Float32Array | undefined)[], cpuMs: number): void {
    const group = this.#group;
    this.#group = [];
    this.#cpuMs = cpuMs;
    this.#backOff.succeeded();
    for (const [index, { call, at }] of group.entries()) {
      this.#texts[call.use]++;
      call.vectors[at] = vectors[index];
      if (--call.left === 0) call.settle(undefined);
    }
    if (this.#residentBytes <= modelResidentBytesMax) return;
    this.#options.log.warn("the process of the local model has grown and is replaced", {
      residentBytes: this.#residentBytes,
    });
    this.#end();
  }

  /** The process has ended by itself, or was killed for what it did not do: what waits is made up for later. */
  #lost(how: string): void {
    this.#losses++;
    this.#backOff.failed();
    this.#options.log.warn("the process of the local model ended", { how });
    this.#end();
    this.#fail("unavailable");
  }

  /** Ends the process, if there is one. No group may be lost with it. */
  #end(): void {
    const process = this.#process;
    this.#process = undefined;
    this.#isOpen = false;
    this.#cancelWatch();
    this.#residentBytes = 0;
    this.#cpuMsBefore += this.#cpuMs;
    this.#cpuMs = 0;
    process?.kill();
  }

  #fail(failure: ModelFailureKind): void {
    const calls = new Set([...this.#group.map(({ call }) => call), ...this.#queue.drain()]);
    this.#group = [];
    for (const call of calls) {
      this.#queue.drop(call);
      call.settle(failure);
    }
  }
}
