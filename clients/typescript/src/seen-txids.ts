/**
 * The highest transaction id that this client has seen of each branch, so that it reads its own writes through any node.
 *
 * Always true: an id only grows, until it is said to be lost; at most `branchesMax` are kept, the latest used.
 */

/** A branch takes some 60 bytes; beyond this many the one that was used longest ago is forgotten. */
const branchesMax = 10_000;

export class SeenTxids {
  readonly #seen = new Map<string, number>();

  /** What is known of a branch, `acme--alice@main`. */
  get(branch: string): number | undefined {
    return this.#seen.get(branch);
  }

  /** Keeps the id if it is the highest. */
  note(branch: string, txid: number): void {
    const before = this.#seen.get(branch);
    this.#seen.delete(branch);
    this.#seen.set(branch, before === undefined ? txid : Math.max(before, txid));
    if (this.#seen.size > branchesMax) this.#seen.delete(this.#seen.keys().next().value!);
  }

  /** Forgets a branch: its past has become another one. */
  drop(branch: string): void {
    this.#seen.delete(branch);
  }

  /** Forgets all branches of a database. */
  dropDatabase(name: string): void {
    for (const branch of this.#seen.keys()) if (branch.startsWith(`${name}@`)) this.#seen.delete(branch);
  }

  /** All of it as a short text that another process can resume from. It names branches and holds no secret. */
  toToken(): string {
    return JSON.stringify(Object.fromEntries(this.#seen));
  }

  /** Takes over what a token says, on top of what is known. Throws TypeError on what is no token. */
  resume(token: string): void {
    const read: unknown = JSON.parse(token);
    if (typeof read !== "object" || read === null || Array.isArray(read))
      throw new TypeError("not a token of a client");
    for (const [branch, txid] of Object.entries(read)) {
      if (!Number.isSafeInteger(txid) || (txid as number) < 0) throw new TypeError("not a token of a client");
      this.note(branch, txid as number);
    }
  }
}
