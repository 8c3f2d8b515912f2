/** An erasure that was asked for: its coupon, and the wait for its receipt. */
import { operations } from "./generated/operations.ts";
import type { ErasureCoupon } from "./generated/types.ts";
import { DeadlineExceeded } from "./errors.ts";
import type { Scope } from "./scope.ts";
import type { CallOptions } from "./transport.ts";

/** How often a coupon is looked at, by default; an erasure takes its policy's grace, often days. */
const pollMsDefault = 5_000;

export interface CompletedOptions extends CallOptions {
  /** Milliseconds to wait in all. Default: until it is completed. */
  readonly withinMs?: number | undefined;
  /** Milliseconds between two looks. Default: 5,000. */
  readonly pollMs?: number | undefined;
}

/** Awaited, it gives the coupon as it was when the erasure began. */
export class Erasure implements PromiseLike<ErasureCoupon> {
  readonly #scope: Scope;
  readonly #coupon: Promise<ErasureCoupon>;
  readonly #path: Readonly<Record<string, string>>;

  constructor(scope: Scope, path: Readonly<Record<string, string>>, coupon: Promise<ErasureCoupon>) {
    this.#scope = scope;
    this.#path = path;
    this.#coupon = coupon;
  }

  then<Kept = ErasureCoupon, Failed = never>(
    onFulfilled?: ((coupon: ErasureCoupon) => Kept | PromiseLike<Kept>) | null,
    onRejected?: ((reason: unknown) => Failed | PromiseLike<Failed>) | null,
  ): Promise<Kept | Failed> {
    return this.#coupon.then(onFulfilled, onRejected);
  }

  /** Waits until the erasure is completed, and gives the coupon with its receipt. Throws DeadlineExceeded. */
  async completed({ withinMs, pollMs = pollMsDefault, ...options }: CompletedOptions = {}): Promise<ErasureCoupon> {
    const endsAtMs = withinMs === undefined ? Number.POSITIVE_INFINITY : performance.now() + withinMs;
    let coupon = await this.#coupon;
    while (coupon.completedAt === null) {
      if (performance.now() + pollMs > endsAtMs)
        throw new DeadlineExceeded("the erasure is not completed yet; its coupon says what it waits for");
      await pause(pollMs, options.signal);
      const parts = { path: { ...this.#path, id: coupon.id } };
      coupon = await this.#scope.call<ErasureCoupon>(operations.getErasure, parts, options);
    }
    return coupon;
  }
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const end = (): void => {
      clearTimeout(timer);
      reject(signal!.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", end);
      resolve();
    }, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
}
