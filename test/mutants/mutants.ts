/**
 * The planted faults. Each is one exact replacement in one file of src, and names the narrowest suites that should see
 * it. A mutant that no suite sees is a missing test; one whose text is not found any more must be planted anew.
 */
import { audited } from "./audited.ts";
import { engineMutants } from "./engine-mutants.ts";
import { fileStoreMutants } from "./file-store-mutants.ts";
import { sharingMutants } from "./sharing-mutants.ts";
import { storageMutants } from "./storage-mutants.ts";
import type { Mutant } from "./mutant.ts";

export const mutants: readonly Mutant[] = [
  ...audited,
  ...engineMutants,
  ...storageMutants,
  ...fileStoreMutants,
  ...sharingMutants,
];
