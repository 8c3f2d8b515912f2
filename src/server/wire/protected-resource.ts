/**
 * Where a client can get a token for an address of this node, as RFC 9728 has it told: a document at a well-known
 * address, and the address of that document with the refusal of a caller without a token.
 *
 * Always true: told only where the operator has named the server that hands out this node's tokens; a document names
 * the address by the name that the client itself used, which the checks of Host and Origin have let in. Must not know:
 * what is at the address, how a token is made.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import { scopeOrder } from "../../control/access/identity.ts";
import { readHost } from "./call-headers.ts";
import type { WireRequest } from "./listener.ts";

const wellKnown = "/.well-known/oauth-protected-resource";

/** The path that a document at `path` is about; undefined where there is no document. */
export function describedPath(path: string): string | undefined {
  return path.startsWith(`${wellKnown}/`) ? path.slice(wellKnown.length) : undefined;
}

/** The document about the address of `path`, to a client that asked for it by `request`. */
export function describeResource(request: WireRequest, path: string, issuer: string): string {
  return JSON.stringify({
    resource: `${readOrigin(request)}${path}`,
    authorization_servers: [issuer],
    bearer_methods_supported: ["header"],
    scopes_supported: scopeOrder,
    resource_name: "Palimpsest",
  });
}

/** The refusal of a caller without a good token, with where to ask for one. */
export function withChallenge(refusal: ServiceError, request: WireRequest, path: string): ServiceError {
  const challenge = `Bearer resource_metadata="${readOrigin(request)}${wellKnown}${path}"`;
  const headers = { ...refusal.detail.headers, "WWW-Authenticate": challenge };
  return new ServiceError(refusal.code, refusal.message, { ...refusal.detail, headers });
}

/** The origin by which the client knows this node: what ends TLS before it says so. */
function readOrigin(request: WireRequest): string {
  const isEncrypted = "encrypted" in request.socket && request.socket.encrypted === true;
  const isTold = request.headers["x-forwarded-proto"] === "https";
  return `${isEncrypted || isTold ? "https" : "http"}://${readHost(request) ?? "localhost"}`;
}
