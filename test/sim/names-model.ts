/**
 * Which database has which name, as the claims in object storage say at the instant they land there: a name goes to
 * another database only after its holder was deleted, and a deleted one never comes back.
 */
import { decodeNameClaim } from "../../src/format/records/name-claim.ts";
import { parseNameClaimKey } from "../../src/format/keys/object-keys.ts";
import { DatabaseModel } from "./branch-model.ts";
import { Asks, Violation } from "./asks.ts";

export class NamesModel {
  /** Deletions, as `drop <name>`. */
  readonly asks = new Asks();
  readonly #databases = new Map<string, DatabaseModel>();
  readonly #holders = new Map<string, DatabaseModel>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** An object has changed. */
  changed(key: string, before: Uint8Array | undefined, after: Uint8Array | undefined): void {
    const name = parseNameClaimKey(key);
    if (name === undefined) return;
    if (!after) throw new Violation(`the claim of ${name} was deleted`);
    const [was, now] = [before && decodeNameClaim(before), decodeNameClaim(after)];
    if (was?.uuid !== now.uuid) {
      if (was && was.deletedAtMs === undefined)
        throw new Violation(`the name ${name} was taken from ${was.uuid}, which holds it`);
      if (this.#databases.has(now.uuid)) throw new Violation(`the name ${name} went back to ${now.uuid}`);
      const database = new DatabaseModel(now.uuid, `${name}${this.#databases.size}`);
      for (const branch of database.branches.values()) branch.mayLose = true;
      this.#databases.set(now.uuid, database);
      this.#holders.set(name, database);
    } else if (was.deletedAtMs !== undefined && now.deletedAtMs === undefined) {
      throw new Violation(`${now.uuid}, which was deleted, has its name ${name} again`);
    }
    if (now.deletedAtMs === undefined || (was?.uuid === now.uuid && was.deletedAtMs !== undefined)) return;
    this.asks.landed(`drop ${name}`);
    this.#databases.get(now.uuid)!.goneAtMs = this.#nowMs();
    this.#holders.delete(name);
  }

  /** Whatever became of it. */
  database(uuid: string): DatabaseModel | undefined {
    return this.#databases.get(uuid);
  }

  /** The database that has the name now. */
  holder(name: string): DatabaseModel | undefined {
    return this.#holders.get(name);
  }

  all(): IterableIterator<DatabaseModel> {
    return this.#databases.values();
  }
}
