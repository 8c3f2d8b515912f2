/**
 * Where what is compiled for this platform lies, as the installation looks for it too (native/library.cjs).
 *
 * Must not know: whether it loads, what it does.
 */
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { packageRoot } from "./package-root.ts";

interface NativePlaces {
  /** The SQL guard's file, in the platform's package. */
  readonly fileName: string;
  /** Where the installation puts what it has compiled. */
  compiledLibrary(root: string): string;
  /** The folder of the platform's package; else why one that is there is passed over. */
  findPrebuilt(root: string): { readonly folder?: string; readonly passedOver?: string };
  /** The name of the platform's package, whether or not there is one. */
  platformPackage(): string;
}

export const nativePlaces = createRequire(packageRoot)("./native/library.cjs") as NativePlaces;

/** The folder of this package, which all of them take. */
export const packageFolder = fileURLToPath(packageRoot);
