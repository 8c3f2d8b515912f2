/**
 * The names a client may choose and how they combine: database, profile, branch, collection, session.
 *
 * Always true: a name that passed here is safe in a path, an object key and a log line. One rule per name, and one
 * message that says what is allowed.
 */
import { invalid } from "../../base/faults/errors.ts";
import { isWellFormed, utf8Length } from "../../base/bytes.ts";
import { limits } from "../../base/limits.ts";

const partPattern = /^[a-z0-9][a-z0-9_-]*$/;
const branchPattern = /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/;
const collectionPattern = /^[A-Za-z0-9_-]+$/;

/** What separates namespace and profile in the name of a profile's database. */
export const profileSeparator = "--";

/** The branch that every database has and none can lose. */
export const mainBranch = "main";

/** The two parts of a profile's database name. */
export interface ProfileName {
  readonly namespace: string;
  readonly profile: string;
}

function withinNameLength(text: string): boolean {
  return text.length >= 1 && text.length <= limits.nameCharsMax;
}

/**
 * Whether the text may be one part of a profile name: 1 to 64 of a-z 0-9 _ -, starting a-z or 0-9, no `--`, not ending
 * in `-`.
 */
export function isNamePart(text: string): boolean {
  return withinNameLength(text) && partPattern.test(text) && !text.includes(profileSeparator) && !text.endsWith("-");
}

/** Refuses a namespace or profile that breaks the rule of isNamePart. `field` says which one. */
export function checkNamePart(field: "namespace" | "profile", text: string): string {
  if (isNamePart(text)) return text;
  throw invalid(
    `${field} must be 1 to ${limits.nameCharsMax} characters of a-z, 0-9, _ and -, start with a letter or ` +
      "digit, not end in -, and not contain --",
  );
}

/** Refuses a name that a plain database may not be created under. Names with `--` belong to profiles. */
export function checkNewDatabaseName(text: string): string {
  if (withinNameLength(text) && partPattern.test(text) && !text.includes(profileSeparator)) return text;
  throw invalid(
    `name must be 1 to ${limits.nameCharsMax} characters of a-z, 0-9, _ and -, start with a letter or ` +
      "digit, and not contain -- (that form belongs to profiles)",
  );
}

/** The database that a profile is. */
export function profileDatabaseName(namespace: string, profile: string): string {
  return checkNamePart("namespace", namespace) + profileSeparator + checkNamePart("profile", profile);
}

/** The profile that a database name denotes, or undefined when it is a plain database's name. */
export function parseProfileDatabaseName(name: string): ProfileName | undefined {
  const at = name.indexOf(profileSeparator);
  if (at < 0) return undefined;
  const namespace = name.slice(0, at);
  const profile = name.slice(at + profileSeparator.length);
  return isNamePart(namespace) && isNamePart(profile) ? { namespace, profile } : undefined;
}

/** Whether a database can have this name at all, plain or profile. */
export function isDatabaseName(name: string): boolean {
  if (!name.includes(profileSeparator)) return withinNameLength(name) && partPattern.test(name);
  return parseProfileDatabaseName(name) !== undefined;
}

/** Whether the text may be a branch's name: 1 to 64 of letters, digits, `.`, `_`, `-`, not starting with a dot. */
export function isBranchName(text: string): boolean {
  return withinNameLength(text) && branchPattern.test(text);
}

/** Refuses a branch name that breaks the rule of isBranchName. */
export function checkBranchName(text: string, field = "branch"): string {
  if (isBranchName(text)) return text;
  throw invalid(
    `${field} must be 1 to ${limits.nameCharsMax} characters of letters, digits, ., _ and -, and not start with .`,
  );
}

/** Reads `name[@branch]`; the branch is `main` when none is given. */
export function parseDatabaseSpec(text: string): { readonly name: string; readonly branch: string | undefined } {
  const at = text.indexOf("@");
  const name = at < 0 ? text : text.slice(0, at);
  const branch = at < 0 ? undefined : checkBranchName(text.slice(at + 1));
  if (!isDatabaseName(name)) {
    throw invalid(
      `db must be a name of a-z, 0-9, _ and - (1 to ${limits.nameCharsMax} characters), optionally ` +
        "followed by @branch",
    );
  }
  return { name, branch };
}

/** Refuses a collection or key-value namespace outside 1 to 64 of letters, digits, `_`, `-`. */
export function checkCollectionName(field: string, text: string): string {
  if (withinNameLength(text) && collectionPattern.test(text)) return text;
  throw invalid(`${field} must be 1 to ${limits.nameCharsMax} characters of letters, digits, _ and -`);
}

/** Refuses text that is empty, too long in UTF-8 bytes, or not encodable (a lone surrogate). */
export function checkText(field: string, text: string, bytesMax: number): string {
  if (text.length === 0 || !isWellFormed(text) || text.length > bytesMax || utf8Length(text) > bytesMax) {
    throw invalid(`${field} must be 1 to ${bytesMax} bytes of valid UTF-8 text`);
  }
  return text;
}

/** Refuses a session id outside 1 to 128 bytes. */
export function checkSessionId(text: string): string {
  return checkText("session_id", text, limits.sessionIdBytesMax);
}

/** Refuses a key-value key outside 1 to 512 bytes. */
export function checkKvKey(text: string, field = "key"): string {
  return checkText(field, text, limits.kvKeyBytesMax);
}
