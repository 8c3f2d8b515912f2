/**
 * The planted faults. Each is one exact replacement in one file of src, and names the narrowest suites that should see
 * it. A mutant that no suite sees is a missing test; one whose text is not found any more must be planted anew.
 */
import { audited } from "./audited.ts";
import { engineMutants } from "./engine-mutants.ts";
import { fileStoreMutants } from "./file-store-mutants.ts";
import { sharingMutants } from "./sharing-mutants.ts";
import { storageMutants } from "./storage-mutants.ts";

/** A run of the simulator, or a test file, all of it or the tests of a name. */
export type Suite = { readonly seeds: number; readonly shared?: boolean } | { readonly file: string; readonly named?: string };

export interface Mutant {
  readonly name: string;
  /** What it would cost. */
  readonly why: string;
  /** Below src. */
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** Run in this order until one fails. */
  readonly suites: readonly Suite[];
}

export const mutants: readonly Mutant[] = [...audited, ...engineMutants, ...storageMutants, ...fileStoreMutants, ...sharingMutants];
