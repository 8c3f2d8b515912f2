/**
 * The local file of the signing key, below the data directory: PEM, readable by the node's own user only.
 *
 * Always true: the file is there whole or not at all. What is in it, control/signing-key knows.
 */
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { KeySources } from "../control/signing-key.ts";

/** The file `signing-key.pem` of a data directory. */
export function keyFile(directory: string): KeySources["file"] {
  const path = join(directory, "signing-key.pem");
  return {
    read: () => (existsSync(path) ? readFileSync(path, "utf8") : undefined),
    write(pem) {
      // A file that a crash left there may have another mode, which writing into it would keep.
      rmSync(`${path}.new`, { force: true });
      writeFileSync(`${path}.new`, pem, { mode: 0o600, flush: true });
      renameSync(`${path}.new`, path);
      const folder = openSync(directory, "r");
      fsyncSync(folder);
      closeSync(folder);
    },
  };
}
