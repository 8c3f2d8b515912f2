/**
 * The name by which a client introduced itself: provenance of what it stores, never who it is.
 *
 * Clients of the revision 2026-07-28 tell it with every request. Earlier ones tell it once, when they initialize, and
 * a node keeps no sessions: so the name itself is the session id that they are given, which they send with every later
 * request, to whichever node. Always true: nothing but the name is read from it, and anyone may write one. Must not
 * know: tools.
 */
import { limits } from "../../base/limits.ts";
import type { WireRequest } from "../wire/listener.ts";

/** The header that carries a session id, in lower case. */
export const sessionHeader = "mcp-session-id";

const prefix = "client.";

/** The name as it is kept: printable, and no longer than a source may be; undefined where nothing is left. */
export function cleanName(name: unknown): string | undefined {
  if (typeof name !== "string") return undefined;
  const clean = name
    .slice(0, limits.sourceBytesMax)
    .replaceAll(/[^\p{L}\p{N}\p{P}\p{S} ]/gu, "")
    .trim();
  const bytes = Buffer.from(clean);
  return bytes.length <= limits.sourceBytesMax ? clean || undefined : cleanName(clean.slice(0, clean.length >> 1));
}

/** The session id for the answer to a message; undefined unless it introduces a client. */
export function sessionFor(message: unknown): string | undefined {
  const { method, params } = message as { method?: unknown; params?: { clientInfo?: { name?: unknown } } };
  if (method !== "initialize") return undefined;
  const name = cleanName(params?.clientInfo?.name);
  return name && prefix + Buffer.from(name).toString("base64url");
}

/** The name that a request's session id carries. */
export function readClientName(request: WireRequest): string | undefined {
  const session = request.headers[sessionHeader];
  if (typeof session !== "string" || !session.startsWith(prefix)) return undefined;
  return cleanName(Buffer.from(session.slice(prefix.length), "base64url").toString());
}
