/** Ends branches whose time is over: in the catalog, and their open handles and files. */
import type { CatalogBranch } from "../../format/history/catalog.ts";
import type { Branches } from "../branches/branches.ts";
import type { Registry } from "./registry.ts";

export interface ExpiredBranchesParts {
  readonly branches: Branches;
  readonly registry: Registry;
}

export class ExpiredBranches {
  readonly #parts: ExpiredBranchesParts;

  constructor(parts: ExpiredBranchesParts) {
    this.#parts = parts;
  }

  /** Removes those of the database, and gives them. */
  async remove(uuid: string): Promise<readonly CatalogBranch[]> {
    const { branches, registry } = this.#parts;
    const expired = await branches.removeExpired(uuid);
    for (const { id, name } of expired) await registry.removeDeletedBranch({ uuid, branch: name }, id);
    return expired;
  }
}
