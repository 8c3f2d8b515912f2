/**
 * A copy of the sources with a fault planted into it, to see that a test finds what it is for. Faults are planted by
 * changing the copy's text: the service itself has no way to be told to do wrong.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");

interface Plant {
  readonly path: string;
  readonly before: string;
  readonly after: string;
}

/** Manifests are put whatever stands there: whoever was overtaken does not learn of it. */
export const fencingRemoved: Plant = {
  path: "src/store/s3/s3-store.ts",
  before: "const command = new PutObjectCommand(condition.kind",
  after: 'const command = new PutObjectCommand(key.includes("/head/") ? input : condition.kind',
};

export interface PlantedTree {
  /** The entry of a node. */
  readonly entry: string;
  remove(): void;
}

/** Copies the sources and plants the fault; throws when there is no place for it. */
export function plantTree({ path, before, after }: Plant): PlantedTree {
  const directory = mkdtempSync(join(tmpdir(), "palimpsest-planted-"));
  for (const name of ["src", "gen", "native", "proto", "package.json"])
    cpSync(join(root, name), join(directory, name), { recursive: true });
  symlinkSync(join(root, "node_modules"), join(directory, "node_modules"));
  const target = join(directory, path);
  const text = readFileSync(target, "utf8");
  if (text.split(before).length !== 2) throw new Error(`${path} has no single place for the fault`);
  writeFileSync(target, text.replace(before, after));
  return {
    entry: join(directory, "src/server/main.ts"),
    remove: () => rmSync(directory, { recursive: true, force: true }),
  };
}
