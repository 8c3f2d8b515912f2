/**
 * The local file of the signing key, below the data directory: PEM, readable by the node's own user only.
 *
 * Always true: the file is there whole or not at all. control/access/signing-key knows its content.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { encodeUtf8 } from "../../base/bytes.ts";
import { placeFile, realDisk } from "../../base/disk.ts";
import type { KeySources } from "../../control/access/signing-key.ts";

/** The file `signing-key.pem` of a data directory. */
export function keyFile(directory: string): KeySources["file"] {
  const path = join(directory, "signing-key.pem");
  return {
    read: () => (existsSync(path) ? readFileSync(path, "utf8") : undefined),
    write: (pem) => placeFile(realDisk, path, encodeUtf8(pem)),
  };
}
