/**
 * How many tenants have calls under way on each engine thread: a command yields to others only where there are others.
 */
export class LanesUse {
  /** Calls that are under way, by lane and tenant. */
  readonly #calls: readonly Map<string, number>[];
  readonly #tell: (lane: number, tenants: number) => void;

  /** `tell` hears of each lane how many they are, from the second one on. */
  constructor(lanes: number, tell: (lane: number, tenants: number) => void) {
    this.#calls = Array.from({ length: lanes }, () => new Map());
    this.#tell = tell;
  }

  /** A call begins. */
  begin(lane: number, tenant: string): void {
    const calls = this.#calls[lane]!;
    const count = calls.get(tenant) ?? 0;
    calls.set(tenant, count + 1);
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
