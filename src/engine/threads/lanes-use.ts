/**
 * How many tenants have calls under way on each engine thread: a command yields to others only where there are others.
 */
import type { World } from "../../base/world.ts";

/** A lane counts as shared for this long after it was. */
const sharedForMs = 1_000;

export class LanesUse {
  /** Calls that are under way, by lane and tenant. */
  readonly #calls: readonly Map<string, number>[];
  readonly #world: Pick<World, "monotonicMs">;
  readonly #tell: (lane: number, tenants: number) => void;
  /** When more than one had calls under way, by lane. */
  readonly #sharedAtMs: number[];

  /** `tell` hears of each lane how many they are, from the second one on. */
  constructor(lanes: number, world: Pick<World, "monotonicMs">, tell: (lane: number, tenants: number) => void) {
    this.#world = world;
    this.#sharedAtMs = Array.from({ length: lanes }, () => -Infinity);
    this.#calls = Array.from({ length: lanes }, () => new Map());
    this.#tell = tell;
  }

  /** Whether more than one had a moment ago: who calls now and then is not there all the time. */
  wasShared(lane: number): boolean {
    return this.#world.monotonicMs() - this.#sharedAtMs[lane]! < sharedForMs;
  }

  /** A call begins. */
  begin(lane: number, tenant: string): void {
    const calls = this.#calls[lane]!;
    const count = calls.get(tenant) ?? 0;
    calls.set(tenant, count + 1);
    if (calls.size > 1) this.#sharedAtMs[lane] = this.#world.monotonicMs();
    if (count === 0) this.#changed(lane);
  }

  /** A call has ended that was begun. */
  end(lane: number, tenant: string): void {
    const calls = this.#calls[lane]!;
    const left = calls.get(tenant)! - 1;
    if (left > 0) return void calls.set(tenant, left);
    calls.delete(tenant);
    this.#changed(lane, 1);
  }

  /** Only a change between one and more is told. */
  #changed(lane: number, ended = 0): void {
    const tenants = this.#calls[lane]!.size;
    if (tenants + ended > 1) this.#tell(lane, tenants);
  }
}
