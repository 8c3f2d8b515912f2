/**
 * Where this package's own files are, run from source or built.
 *
 * Always true: this file's depth below the package root is the same in `src/` and in `dist/src/`, one folder apart.
 * Files beside a module are named by `new URL("./name" + extname(import.meta.url), import.meta.url)` instead.
 */

/** URL of the package's folder, ending in a slash: `new URL("native/x.so", packageRoot)`. */
export const packageRoot: URL = new URL(import.meta.url.endsWith(".ts") ? "../../" : "../../../", import.meta.url);
