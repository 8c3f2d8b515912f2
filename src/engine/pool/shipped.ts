/** Object storage, brought up to an open branch: what comes before every act on heads. */
import type { BranchHead } from "../history/branch-head.ts";
import type { Database } from "../database/database.ts";

/** The head, once it exists, is this node's, and covers everything that was committed when this was asked. */
export async function shipped(database: Database): Promise<BranchHead> {
  await database.claimNext();
  await new Promise<void>((resolve, reject) => {
    database.sync({ done: () => resolve(), failed: (error) => reject(error) });
  });
  return database.opened.head;
}
