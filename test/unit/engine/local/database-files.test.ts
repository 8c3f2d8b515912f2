/** The file that every database begins with. */
import { expect, test } from "vitest";
import { realWorld } from "../../../../src/base/world.ts";
import { emptyDatabase } from "../../../../src/engine/local/database-files.ts";
import { formats } from "../../../../src/format/core/versions.ts";
import { makeCanonical, pageBytes } from "../../../../src/format/history/pages.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

test.each(formats.database.writes)("of format %s, has no slack and is the same each time", (format) => {
  const directory = temporaryDirectory();
  const bytes = emptyDatabase(directory, realWorld(), format);
  const canonical = new Uint8Array(bytes);
  for (let at = 0; at < canonical.length; at += pageBytes)
    makeCanonical(canonical.subarray(at, at + pageBytes), at / pageBytes + 1);
  expect(Buffer.compare(bytes, canonical)).toBe(0);
  expect(Buffer.compare(bytes, emptyDatabase(directory, realWorld(), format))).toBe(0);
});
