/** The error for a message that no node sends. */
import { ServiceError } from "../../base/faults/errors.ts";

/** What is wrong with a message of another node. */
export function malformed(what: string): ServiceError {
  return new ServiceError("invalid_request", `a message of another node is malformed: ${what}`);
}
