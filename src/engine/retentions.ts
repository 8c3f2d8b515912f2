/**
 * How long the databases of this thread keep things, as the newest call of each has said.
 *
 * Always true: the point-in-time window is never longer than the node's own. A database that no call has spoken of since
 * the thread began, or for very long, has the node's bounds until one does: then nothing goes too early.
 */
import { limits } from "../base/limits.ts";
import { Recent } from "../base/recent.ts";
import type { Retention, Target } from "./protocol.ts";

export class Retentions {
  readonly #nodePitrMs: number;
  /** By uuid. */
  readonly #held = new Recent<string, Retention>(limits.retentionsHeldMax);

  constructor(nodePitrMs: number) {
    this.#nodePitrMs = nodePitrMs;
  }

  /** Takes in what a call says of its database. */
  note({ uuid, retention }: Target): void {
    if (retention) this.#held.set(uuid, retention);
  }

  of(uuid: string): Retention | undefined {
    return this.#held.peek(uuid);
  }

  /** How far back the database's states can be restored. */
  pitrMs(uuid: string): number {
    return Math.min(this.#nodePitrMs, this.#held.peek(uuid)?.pitrMs ?? Infinity);
  }
}
