/** The generated files of the clients, by their path below `clients`, as the formatter wants them. */
import { format, resolveConfig } from "prettier";
import { readDescription } from "./description.ts";
import { operationsSource, shapesSource, typesSource } from "./typescript.ts";

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
  return files;
}
