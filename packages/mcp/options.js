/**
 * What the command is told: which node, which profile, whose token.
 *
 * Always true: a token is read from the environment alone, as arguments are seen by everyone on a machine. Must not
 * know: the protocol.
 */

/**
 * @typedef {object} Options
 * @property {URL} url The address of the profile at its node.
 * @property {string | undefined} token
 * @property {boolean} start Whether a node is started where none answers.
 * @property {string} command What starts a node.
 * @property {string} dataDirectory Where a node that is started keeps its data.
 */

export const helpText = `palimpsest-mcp [NAMESPACE/PROFILE[@BRANCH]] [--url URL] [--tools SET] [--start]

  NAMESPACE/PROFILE   the memory to use; PALIMPSEST_PROFILE, or agents/default
  --url URL           the node; PALIMPSEST_URL, or http://127.0.0.1:8080
  --tools SET         the set of tools: default, full or graph
  --start             start a node on this machine where none answers

  PALIMPSEST_TOKEN    the token that is sent; none where the node asks for none
  PALIMPSEST_COMMAND  what starts a node: the palimpsest of the path
  PALIMPSEST_DATA     where a node that is started keeps its data: ~/.local/share/palimpsest
`;

const names = /^([a-z0-9][a-z0-9_-]*)\/([a-z0-9][a-z0-9_-]*)(@[\w.-]+)?$/;

/**
 * @param {readonly string[]} given
 * @param {Readonly<Record<string, string | undefined>>} environment
 * @returns {Options | "help" | { readonly problem: string }}
 */
export function readOptions(given, environment) {
  let profile = environment["PALIMPSEST_PROFILE"] || "agents/default";
  let base = environment["PALIMPSEST_URL"] || "http://127.0.0.1:8080";
  let tools;
  let start = false;
  const left = [...given];
  for (let word = left.shift(); word !== undefined; word = left.shift()) {
    if (word === "--help" || word === "-h") return "help";
    if (word === "--start") start = true;
    else if (word === "--url" || word === "--tools") {
      const value = left.shift();
      if (value === undefined) return { problem: `${word} needs a value` };
      if (word === "--url") base = value;
      else tools = value;
    } else if (word.startsWith("-")) return { problem: `there is no option ${word}; --help lists them` };
    else profile = word;
  }
  if (!names.test(profile)) return { problem: `${profile} is no NAMESPACE/PROFILE or NAMESPACE/PROFILE@BRANCH` };
  if (!URL.canParse(base) || !/^https?:/.test(base)) return { problem: "the URL of the node must be http or https" };
  const url = new URL(base);
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/mcp/${profile}`;
  url.search = tools === undefined ? "" : `?tools=${encodeURIComponent(tools)}`;
  url.hash = "";
  if (start && !isThisMachine(url)) return { problem: "--start is for a node on this machine, by http" };
  return {
    url,
    token: environment["PALIMPSEST_TOKEN"] || undefined,
    start,
    command: environment["PALIMPSEST_COMMAND"] || "palimpsest",
    dataDirectory:
      environment["PALIMPSEST_DATA"] ||
      `${environment["XDG_DATA_HOME"] || `${environment["HOME"] ?? "."}/.local/share`}/palimpsest`,
  };
}

/** @param {URL} url */
function isThisMachine({ protocol, hostname }) {
  return protocol === "http:" && (hostname === "localhost" || hostname === "[::1]" || hostname.startsWith("127."));
}
