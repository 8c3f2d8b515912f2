/** A broken promise of our own code: never caused by input, never caught and carried on from. */
export class AssertionFault extends Error {
  override readonly name = "AssertionFault";
}

/** Throws when an invariant of our own code does not hold. Never use it to check input. */
export function assert(holds: unknown, invariant: string): asserts holds {
  if (!holds) throw new AssertionFault(`invariant broken: ${invariant}`);
}
