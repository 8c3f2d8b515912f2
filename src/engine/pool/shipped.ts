/** Brings object storage up to an open branch: what comes before every act on manifests. */
import type { ManifestWriter } from "../history/manifest-writer.ts";
import type { Database } from "../database/database.ts";

/** The manifest, once it exists, is this node's, and covers everything that was committed when this was asked. */
export async function shipped(database: Database): Promise<ManifestWriter> {
  await database.claimNext();
  await new Promise<void>((resolve, reject) => {
    database.sync({ done: () => resolve(), failed: (error) => reject(error) });
  });
  return database.opened.manifest;
}
