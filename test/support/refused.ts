/** What an act that must not succeed is refused with. */
import { expect } from "vitest";
import { ServiceError, StoreError } from "../../src/base/faults/errors.ts";

/** The refusal of an act. */
export function refused(act: () => unknown): ServiceError {
  try {
    act();
  } catch (error) {
    if (error instanceof ServiceError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

/** What object storage, or an object in it, had against an act. */
export async function catchFailure(act: Promise<unknown>): Promise<StoreError> {
  const error = await act.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(StoreError);
  return error as StoreError;
}
