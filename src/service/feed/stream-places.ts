/**
 * How many streams of changes a node serves: of all databases, of each tenant, and of each database.
 *
 * Always true: no tenant has more than its share, so that it takes places from nobody while others have theirs. Must
 * not know: who a tenant is, what a stream tells.
 */
import { ServiceError } from "../../base/faults/errors.ts";

/** Each looks at its branch twice a second at least. */
export const streamsMax = 1_024;
/** A quarter: one tenant alone never fills a node. */
export const streamsOfTenantMax = 256;
export const streamsOfDatabaseMax = 64;

/** Whose a stream is. */
export interface StreamOwner {
  readonly uuid: string;
  readonly tenant: string;
}

export class StreamPlaces {
  readonly #ofDatabase = new Map<string, number>();
  readonly #ofTenant = new Map<string, number>();
  #total = 0;

  /** Takes a place, and gives what releases it, which may be called again; throws overloaded. */
  enter({ uuid, tenant }: StreamOwner): () => void {
    if ((this.#ofDatabase.get(uuid) ?? 0) >= streamsOfDatabaseMax)
      throw tooMany(`${streamsOfDatabaseMax} streams of the database's changes`);
    if ((this.#ofTenant.get(tenant) ?? 0) >= streamsOfTenantMax)
      throw tooMany(`${streamsOfTenantMax} streams of the changes of this tenant's databases`);
    if (this.#total >= streamsMax) throw tooMany(`${streamsMax} streams of changes`);
    add(this.#ofDatabase, uuid, 1);
    add(this.#ofTenant, tenant, 1);
    this.#total++;
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      add(this.#ofDatabase, uuid, -1);
      add(this.#ofTenant, tenant, -1);
      this.#total--;
    };
  }
}

function add(counts: Map<string, number>, key: string, by: 1 | -1): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}

function tooMany(what: string): ServiceError {
  return new ServiceError("overloaded", `this node serves ${what}, the most that it may`, { retryAfterSecs: 5 });
}
