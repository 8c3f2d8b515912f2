/**
 * What this thread knows to be due later in its databases, noted where any node finds it without opening them.
 *
 * Always true: what is noted is put, unless object storage does not answer until the thread ends; the newest entry of a
 * branch is not put twice. An entry too many costs a look, so nothing here has to be exact. Must not know: what
 * expires.
 */
import { getErrorCode } from "../../base/faults/errors.ts";
import { Semaphore } from "../../base/collections/semaphore.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import { sleep, type World } from "../../base/world.ts";
import { putDue } from "../../control/databases/expiry-index.ts";
import { dueKey, type DuePlace } from "../../format/keys/expiry-keys.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";

/** Entries that wait to be put, and branches whose newest entry a thread remembers. */
export const dueMarksMax = 10_000;
const duePutsAtOnceMax = 16;
/** How long a stopping engine thread tries to put what is left. */
const dueStopMs = 2_000;

export interface ExpiryIndexWriterOptions {
  readonly store: ObjectStore;
  readonly world: World;
  /** The name of a database, if any call has said it. */
  readonly findName: (uuid: string) => string | undefined;
  /** Something an operator should know; never content. */
  readonly notice: (message: string, uuid: string) => void;
}

/** The longest time that a calendar of four digits knows. */
const latestMs = Date.UTC(9999, 11, 31);

export class ExpiryIndexWriter {
  readonly #options: ExpiryIndexWriterOptions;
  /** Key of the newest entry of each branch. */
  readonly #newest = new LruMap<string, string>(dueMarksMax);
  readonly #waiting = new Map<string, DuePlace>();
  readonly #permits = new Semaphore(duePutsAtOnceMax);
  #putting: Promise<void> | undefined;
  #lost = false;

  constructor(options: ExpiryIndexWriterOptions) {
    this.#options = options;
  }

  /** Something of the branch expires then. What has expired already is due at the next hour. */
  note({ uuid, branchId, atMs }: DuePlace): void {
    const nowMs = this.#options.world.nowMs();
    if (atMs > latestMs) return;
    const place = { uuid, branchId, atMs: Math.max(atMs, nowMs + 1) };
    const key = dueKey(place);
    if (this.#newest.get(`${uuid}/${branchId}`) === key) return;
    if (this.#waiting.size >= dueMarksMax) {
      if (!this.#lost)
        this.#options.notice(
          "there is no room to note what is due in databases: it goes when they are used next",
          uuid,
        );
      this.#lost = true;
      return;
    }
    this.#newest.set(`${uuid}/${branchId}`, key);
    this.#waiting.set(key, place);
    this.tick();
  }

  /** Puts what waits, unless that is under way. */
  tick(): void {
    if (this.#putting || this.#waiting.size === 0) return;
    this.#putting = this.#putAll().finally(() => (this.#putting = undefined));
  }

  /** Puts what is left, for as long as a stopping thread may take. */
  async close(): Promise<void> {
    const { world } = this.#options;
    const lastMs = world.monotonicMs() + dueStopMs;
    const drain = async (): Promise<void> => {
      while (this.#waiting.size > 0 && world.monotonicMs() < lastMs) {
        this.tick();
        const before = this.#waiting.size;
        await this.#putting;
        if (this.#waiting.size === before) return;
      }
    };
    await Promise.race([drain(), sleep(world, dueStopMs)]);
  }

  async #putAll(): Promise<void> {
    const { store, findName, notice } = this.#options;
    await Promise.all(
      [...this.#waiting].map(([key, place]) =>
        this.#permits.run(async () => {
          try {
            await putDue(store, place, findName(place.uuid));
            this.#waiting.delete(key);
            this.#lost = false;
          } catch (error) {
            // The next tick tries again.
            if (!this.#lost)
              notice(`what is due in a database could not be noted yet (${getErrorCode(error)})`, place.uuid);
            this.#lost = true;
          }
        }),
      ),
    );
  }
}
