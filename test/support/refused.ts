/** The refusal of an act. */
import { ServiceError } from "../../src/base/faults/errors.ts";

export function refused(act: () => unknown): ServiceError {
  try {
    act();
  } catch (error) {
    if (error instanceof ServiceError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}
