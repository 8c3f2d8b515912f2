/**
 * Who makes a request: the bearer of its credential, remembered for the request's connection.
 *
 * Most connections send the same token with every request, and hashing it each time costs a few percent of a small
 * call. Always true: what is remembered of a connection is what `identify` gave for the very Authorization header that
 * came last, it is a token's bearer and never the platform key's, and it is asked for anew once the token has expired
 * or was revoked. What the bearer may do is judged at every call. Must not know: tokens' contents, what a call is
 * about.
 *
 * Why comparing the texts is safe although it takes the longer the more of them agrees: the peer of a connection has
 * itself sent what its headers are compared with; and where a proxy sends many clients' requests by one connection, the
 * first wrong guess makes it forgotten, so that each use of the token pays for one guess at most.
 */
import { limits } from "../../base/limits.ts";
import type { World } from "../../base/world.ts";
import { isCurrent } from "../../control/access/credentials.ts";
import type { Identity, TokenIdentity } from "../../control/access/identity.ts";
import { parseBearer } from "./call-headers.ts";
import type { WireRequest } from "./listener.ts";

/** Who bears the credential: at once when it is known, so that a body can be read as it comes; rejects strangers. */
export type Identify = (credential: string | undefined) => Identity | Promise<Identity>;

/** The last good header of a connection, and whose it is. */
interface Known {
  readonly header: string;
  readonly identity: TokenIdentity;
}

export class Callers {
  readonly #identify: Identify;
  readonly #world: World;
  readonly #isRevoked: (identity: TokenIdentity) => boolean;
  /** By the socket of an HTTP/1.1 connection or the session of an HTTP/2 one; gone with it. */
  readonly #known = new WeakMap<object, Known>();

  /** `isRevoked` is asked at every request, and may say yes of a token whose standing is to be looked up again. */
  constructor(identify: Identify, world: World, isRevoked: (identity: TokenIdentity) => boolean = () => false) {
    this.#identify = identify;
    this.#world = world;
    this.#isRevoked = isRevoked;
  }

  /** Who bears the request's credential: at once when it is known; rejects strangers. */
  of(request: WireRequest): Identity | Promise<Identity> {
    const header = request.headers.authorization;
    // A stream that has ended has no session any more.
    const connection: object | undefined = "stream" in request ? request.stream.session : request.socket;
    const known = connection && this.#known.get(connection);
    if (
      known &&
      known.header === header &&
      isCurrent(known.identity, this.#world.nowMs()) &&
      !this.#isRevoked(known.identity)
    )
      return known.identity;
    if (connection && known) this.#known.delete(connection);
    const found = this.#identify(parseBearer(header));
    if (connection === undefined || header === undefined || header.length > limits.tokenBytesMax) return found;
    const remember = (identity: Identity): Identity => {
      if (identity.kind === "token") this.#known.set(connection, { header, identity });
      return identity;
    };
    return found instanceof Promise ? found.then(remember) : remember(found);
  }
}
