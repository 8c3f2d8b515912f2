/** Where things lie in object storage. No tenant's content, topic or key ever stands in an object's name. */

/** The folder of name claims, one small object per database name. */
export const nameClaimPrefix = "names/";

/** The claim of a database name: who owns it now, or the tombstone of who last did. */
export function nameClaimKey(databaseName: string): string {
  return `${nameClaimPrefix}${databaseName}.json`;
}

/** The database name of a claim's key, or undefined for a foreign object. */
export function databaseNameOfClaimKey(key: string): string | undefined {
  if (!key.startsWith(nameClaimPrefix) || !key.endsWith(".json")) return undefined;
  return key.slice(nameClaimPrefix.length, -".json".length);
}
