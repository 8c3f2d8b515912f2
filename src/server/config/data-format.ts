/**
 * What a data directory says of itself: `format.json`, the version of its layout (format/core/versions).
 *
 * Always true: a node serves from a directory only when it reads and writes its layout; a directory without the file is
 * of layout 1, as earlier builds left none.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { encodeUtf8 } from "../../base/bytes.ts";
import { placeFile, realDisk } from "../../base/disk.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { formats, requireVersion } from "../../format/core/versions.ts";

const fileName = "format.json";

/**
 * Refuses a directory whose layout this build does not read, and writes the file into one that has none. `build` names
 * this build for people.
 */
export async function claimDataFormat(directory: string, build: string): Promise<void> {
  const path = join(directory, fileName);
  if (existsSync(path)) return requireVersion(formats.dataDirectory, layoutIn(path));
  const text = JSON.stringify({ v: 1, layout: Math.max(...formats.dataDirectory.writes), written_by: build });
  await placeFile(realDisk, path, encodeUtf8(text));
}

function layoutIn(path: string): unknown {
  try {
    return (JSON.parse(readFileSync(path, "utf8")) as { readonly layout?: unknown } | null)?.layout;
  } catch (error) {
    throw new StoreError("corrupt", `the file ${path} cannot be read as what it must be`, { cause: error });
  }
}
