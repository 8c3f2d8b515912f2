/** The generated files of the clients, by their path below `clients`, as the formatter wants them. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { format, resolveConfig } from "prettier";
import { readDescription } from "./description.ts";
import { pythonOperations, pythonTypes, toSynchronous } from "./python.ts";
import { findShapes, operationsSource, shapesSource, typesSource } from "./typescript.ts";

const python = "python/src/palimpsest";

/** Makes all of them. */
export async function generatedFiles(): Promise<ReadonlyMap<string, string>> {
  const description = readDescription();
  const options = { ...(await resolveConfig(import.meta.filename)), parser: "typescript" };
  const sources = {
    types: typesSource(description),
    shapes: shapesSource(description),
    operations: operationsSource(description),
  };
  const files = new Map<string, string>();
  for (const [name, source] of Object.entries(sources))
    files.set(`typescript/src/generated/${name}.ts`, await format(source, options));
  files.set(`${python}/_types.py`, pythonTypes(description));
  files.set(`${python}/_operations.py`, pythonOperations(description, findShapes(description)));
  const asynchronous = join(import.meta.dirname, "..", python, "_async");
  for (const name of readdirSync(asynchronous))
    if (name.endsWith(".py") && name !== "_io.py")
      files.set(`${python}/_sync/${name}`, toSynchronous(readFileSync(join(asynchronous, name), "utf8")));
  return files;
}
