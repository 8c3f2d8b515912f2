/** The links to the other nodes: one for each address that was called, for as long as it is of use. */
import type { Answer } from "../../engine/api/protocol.ts";
import { type ForwardedCall, type Peers, Unreachable } from "../../service/placement/peers.ts";
import { type LinkOptions, PeerLink } from "./peer-link.ts";

export class PeerLinks implements Peers {
  readonly #options: LinkOptions;
  readonly #links = new Map<string, PeerLink>();
  #isClosed = false;

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  async forward(address: string, call: ForwardedCall): Promise<Answer> {
    return this.#linkTo(address).forward(call);
  }

  follow(address: string, uuid: string): void {
    if (!this.#isClosed) this.#linkTo(address).follow(uuid);
  }

  nudge(address: string): void {
    if (!this.#isClosed) this.#linkTo(address).nudge();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const link of this.#links.values()) link.close();
    this.#links.clear();
  }

  #linkTo(address: string): PeerLink {
    if (this.#isClosed) throw new Unreachable("this node is stopping");
    const known = this.#links.get(address);
    if (known) return known;
    // Nodes come and go with their addresses: those of nodes that have gone must not add up.
    for (const [other, link] of this.#links) if (link.isIdle) this.#links.delete(other);
    const link = new PeerLink(address, this.#options);
    this.#links.set(address, link);
    return link;
  }
}
