/**
 * How many webhooks a node posts at once: in all, and of each tenant.
 *
 * Always true: a tenant whose receivers are slow waits for itself, and leaves the others their places. Must not know:
 * what is posted.
 */
import { Semaphore } from "../../base/collections/semaphore.ts";

/** Each is a socket and a body. */
export const postsMax = 64;
/** A quarter: one tenant alone never fills a node. */
export const postsOfTenantMax = 16;

export class PostPlaces {
  readonly #all = new Semaphore(postsMax);
  readonly #tenants = new Map<string, { readonly places: Semaphore; users: number }>();

  /** Runs the act when there is a place for it. As many wait as there are webhooks, each for one. */
  async run<Value>(tenant: string, act: () => Promise<Value>): Promise<Value> {
    const own = this.#tenants.get(tenant) ?? { places: new Semaphore(postsOfTenantMax), users: 0 };
    this.#tenants.set(tenant, own);
    own.users++;
    try {
      return await own.places.run(() => this.#all.run(act));
    } finally {
      if (--own.users === 0) this.#tenants.delete(tenant);
    }
  }
}
