/**
 * What an address below /mcp means: which profile, on which branch, and which tools are offered.
 *
 * Always true: names are checked for their form before anyone is asked about them; at `/mcp` alone it is the caller's
 * own claims, and nothing that it sent beside them, that say the profile. Must not know: requests, tools.
 */
import { invalid } from "../../base/faults/errors.ts";
import type { Identity } from "../../control/access/identity.ts";
import { checkBranchName, parseProfileDatabaseName, profileDatabaseName } from "../../format/core/names.ts";

/** The path of every address here, and the beginning of those that name a profile. */
const mcpPath = "/mcp";

/** The sets of tools; each is offered where the address asks for it by `tools`. */
const toolSets = ["default"] as const;
export type ToolSetName = (typeof toolSets)[number];

/** The profile that a visit is to. */
export interface ProfileAddress {
  readonly ns: string;
  readonly profile: string;
  /** Undefined: `main`. */
  readonly branch: string | undefined;
}

/** Whether the path, without its query, is one of ours. */
export function isMcpPath(path: string): boolean {
  return path === mcpPath || path.startsWith(`${mcpPath}/`);
}

/**
 * Reads `/mcp/{ns}/{profile}[@branch]`, or finds the profile of `/mcp` in the caller's claims.
 * @throws ServiceError `invalid_request`.
 */
export function readAddress(path: string, caller: Identity): ProfileAddress {
  const [ns, spec, ...rest] = path
    .slice(mcpPath.length + 1)
    .split("/")
    .map(decode);
  if (ns === "" && spec === undefined) return ownProfile(caller);
  if (ns === undefined || spec === undefined || rest.length > 0)
    throw invalid("the path must be /mcp/{namespace}/{profile}, with @{branch} behind it for a branch, or /mcp");
  const at = spec.indexOf("@");
  const profile = at < 0 ? spec : spec.slice(0, at);
  profileDatabaseName(ns, profile);
  return { ns, profile, branch: at < 0 ? undefined : checkBranchName(spec.slice(at + 1)) };
}

/** Reads the set of tools off the query. @throws ServiceError `invalid_request`. */
export function readToolSet(query: string): ToolSetName {
  let found: ToolSetName = "default";
  for (const [name, value] of new URLSearchParams(query)) {
    if (name !== "tools") throw invalid("the address takes one parameter, tools");
    const known = toolSets.find((set) => set === value);
    if (known === undefined) throw invalid(`tools must be one of ${toolSets.join(", ")}`);
    found = known;
  }
  return found;
}

function ownProfile(caller: Identity): ProfileAddress {
  const named = caller.kind === "token" && caller.database && parseProfileDatabaseName(caller.database.name);
  if (!named) throw invalid("/mcp alone is for tokens of one profile; name the profile: /mcp/{namespace}/{profile}");
  return { ns: named.namespace, profile: named.profile, branch: undefined };
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw invalid("the path holds a malformed percent-escape, or one that is not UTF-8");
  }
}
