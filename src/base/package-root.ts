/**
 * Where this package's own files are, run from source or built.
 *
 * Always true: this file's depth below the package root is the same in `src/base/` and in `dist/lib/`, where all that
 * is built lies (rolldown.config.ts).
 */

/** URL of the package's folder, ending in a slash: `new URL("native/x.so", packageRoot)`. */
export const packageRoot: URL = new URL("../../", import.meta.url);

/**
 * The file of a module that a thread or a process is started with, by its path below `src`: TypeScript in a checkout,
 * JavaScript of the same name in the package.
 */
export function moduleFile(path: string): URL {
  const built = `dist/lib/${path.slice(path.lastIndexOf("/") + 1)}`;
  return new URL(import.meta.url.endsWith(".ts") ? `src/${path}` : built.replace(/ts$/, "js"), packageRoot);
}
