/** A profile over one wire, as the tests of erasure drive it. */
import { expect } from "vitest";
import { BranchedDatabase } from "./branched-database.ts";
import { ok } from "./service.ts";
import type { Reply, Wire } from "./wires.ts";

const pauseMs = 50;
/** More than erasures of a small database take on a busy machine, the collection of garbage included. */
const patienceMs = 120_000;

let profiles = 0;
let namespaces = 0;

export class ErasingProfile {
  readonly #wire: Wire;
  readonly ns: string;
  readonly profile: string;
  readonly branch: string | undefined;

  constructor(wire: Wire, ns: string, profile = `p${++profiles}`, branch?: string) {
    this.#wire = wire;
    this.ns = ns;
    this.profile = profile;
    this.branch = branch;
  }

  at(branch: string): ErasingProfile {
    return new ErasingProfile(this.#wire, this.ns, this.profile, branch);
  }

  /** The database behind the profile. */
  get database(): BranchedDatabase {
    return new BranchedDatabase(this.#wire, `${this.ns}--${this.profile}`);
  }

  call(method: string, request: object = {}): Promise<Reply> {
    const branch = this.branch === undefined ? {} : { branch: this.branch };
    return this.#wire.call(method, { ns: this.ns, profile: this.profile, ...branch, ...request });
  }

  /** Takes in memories and makes them durable; gives their ids. */
  async add(...memories: readonly object[]): Promise<string[]> {
    const { body } = await ok(
      this.call("MemoryService.Ingest", {
        memories: memories.map((memory) => ({ type: "fact", content: {}, ...memory })),
      }),
    );
    await ok(this.database.call("DataService.Sync"));
    return body.results.map(({ id }: { id: string }) => id);
  }

  erase(target: object): Promise<Reply> {
    return this.call("MemoryService.CreateErasure", target);
  }

  /** Erases, asking again while the node is too busy, until it says that the target is erased or was never there. */
  async surelyErase(target: object): Promise<void> {
    for (const lastMs = performance.now() + patienceMs; ;) {
      const { code, message } = await this.erase(target);
      if (code === "ok" || code === "not_found") return;
      expect(["unavailable", "overloaded", "request_timeout"], message).toContain(code);
      expect(performance.now(), message).toBeLessThan(lastMs);
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }

  /** Erases, and gives the coupon of the answer. */
  async erased(target: object): Promise<any> {
    return (await ok(this.erase(target))).body;
  }

  async coupon(id: string): Promise<any> {
    return (await ok(this.call("MemoryService.GetErasure", { id }))).body;
  }

  async coupons(): Promise<any[]> {
    return (await ok(this.call("MemoryService.ListErasures"))).body.erasures;
  }

  /** The coupon once it has the status. */
  async until(id: string, status: string, waitMs = patienceMs): Promise<any> {
    const lastMs = performance.now() + waitMs;
    for (;;) {
      const coupon = await this.coupon(id);
      if (coupon.status === status) return coupon;
      if (performance.now() > lastMs) expect(coupon, JSON.stringify(coupon).slice(0, 2_000)).toMatchObject({ status });
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }

  /** What a recall finds, superseded ones too. */
  async summaries(query: string): Promise<string[]> {
    const { body } = await ok(this.call("MemoryService.Recall", { query, include_superseded: true, k: 100 }));
    return body.memories.map(({ summary }: { summary: string }) => summary).sort();
  }

  /** Puts the namespace's policy. */
  async policy(policy: object): Promise<void> {
    await ok(this.#wire.call("ControlService.PutNamespacePolicy", { ns: this.ns, policy }));
  }
}

/** A profile in a namespace of its own, whose erasures can be undone for so long. */
export async function createErasingProfile(wire: Wire, graceSecs = 0, policy: object = {}): Promise<ErasingProfile> {
  const profile = new ErasingProfile(wire, `ns${++namespaces}`);
  await profile.policy({ erasure: { grace_secs: graceSecs }, ...policy });
  return profile;
}
