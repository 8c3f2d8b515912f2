/** How much is measured: in full for figures, in small to see that every part works. */

export interface Size {
  readonly name: "full" | "small";
  /** Clients at once, one call in flight each. */
  readonly clients: readonly number[];
  readonly rounds: number;
  readonly roundMs: number;
  /** Before the first round. */
  readonly warmMs: number;
  readonly tenants: readonly number[];
  readonly dimension: number;
  readonly recall: { readonly memories: number; readonly clients: readonly number[]; readonly questions: number };
  readonly import: { readonly memories: number; readonly batch: number; readonly rounds: number };
  readonly weight: { readonly tenants: number; readonly memories: number; readonly settleMs: number };
  readonly starts: number;
  /** Lone writes whose fsyncs are counted. */
  readonly syncedWrites: number;
}

export const sizes: Readonly<Record<Size["name"], Size>> = {
  full: {
    name: "full",
    clients: [1, 16, 64],
    rounds: 7,
    roundMs: 2_000,
    warmMs: 3_000,
    tenants: [64, 256],
    dimension: 256,
    recall: { memories: 10_000, clients: [1, 16], questions: 500 },
    import: { memories: 20_000, batch: 1_000, rounds: 5 },
    weight: { tenants: 1_000, memories: 20, settleMs: 60_000 },
    starts: 7,
    syncedWrites: 200,
  },
  small: {
    name: "small",
    clients: [4],
    rounds: 2,
    roundMs: 80,
    warmMs: 50,
    tenants: [6],
    dimension: 32,
    recall: { memories: 200, clients: [4], questions: 20 },
    import: { memories: 200, batch: 100, rounds: 2 },
    weight: { tenants: 6, memories: 4, settleMs: 0 },
    starts: 2,
    syncedWrites: 20,
  },
};
