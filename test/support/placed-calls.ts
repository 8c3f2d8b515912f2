/** What a test of several placed nodes waits for, and the refusals that it expects. */
import { setTimeout as pause } from "node:timers/promises";
import { ServiceError } from "../../src/base/faults/errors.ts";

/** What came of a call that must be refused. */
export async function catchRefusal(call: Promise<unknown>): Promise<ServiceError> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof ServiceError)) throw new Error(`not refused: ${String(error)}`);
  return error;
}

export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await isSo()); tries++) {
    if (tries > 250) throw new Error("it never came to pass");
    await pause(20);
  }
}
