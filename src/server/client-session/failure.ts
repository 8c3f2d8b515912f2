/**
 * How a command ends that a node did not do: its exit code, and words for the person who gave it.
 *
 * Always true: what is no failure of a call is a fault of the program and has no place here.
 */
import { CommanderError } from "commander";
import * as errors from "../../../clients/typescript/src/errors.ts";
import { CommandFailure } from "./command-failure.ts";

/** What is told and returned. */
export interface Failure {
  readonly exitCode: number;
  readonly message: string;
}

const exitCodes: readonly (readonly [kind: abstract new (...given: never[]) => Error, exitCode: number])[] = [
  [errors.NotFound, 3],
  [errors.Unauthorized, 4],
  [errors.Forbidden, 4],
  [errors.Overloaded, 5],
  [errors.Unavailable, 5],
  [errors.RequestTimeout, 5],
  [errors.ConnectionError, 5],
  [errors.DeadlineExceeded, 5],
  [errors.Conflict, 6],
  [errors.AlreadyExists, 6],
];

/** Undefined for what nobody has foreseen. */
export function failureOf(error: unknown, address: string | undefined): Failure | undefined {
  if (error instanceof CommandFailure) return error;
  // Of a value that is no flag's, such as a kept address.
  if (error instanceof CommanderError) return { exitCode: 2, message: error.message };
  if (!(error instanceof errors.PalimpsestError)) return undefined;
  const exitCode = exitCodes.find(([kind]) => error instanceof kind)?.[1] ?? 1;
  if (error instanceof errors.RefusedError) return { exitCode, message: `${error.message} (${error.code})` };
  const fetched = error.cause as (Error & { readonly cause?: { readonly code?: string } }) | undefined;
  const why = fetched?.cause?.code ?? fetched?.message;
  if (!(error instanceof errors.ConnectionError)) return { exitCode, message: `${address}: ${error.message}` };
  const hint = why === "ECONNREFUSED" ? "; palimpsest starts a node on this machine" : "";
  return { exitCode, message: `${address} does not answer${why === undefined ? "" : ` (${why})`}${hint}` };
}
