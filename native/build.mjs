/**
 * Sees to the native half of the SQL guard when the package is installed: the platform's package has it, or it is
 * compiled here.
 *
 * Plain JavaScript for any Node that npm may run with. Never fails an install: without either the SQL route answers
 * `unconfigured`, and everything else works. A library that does not load on this machine is none: it is tried.
 */
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { commandWords, compileGuard } from "./compile.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const { compiledLibrary, fileName, findPrebuilt } = createRequire(import.meta.url)("./library.cjs");

/** Whether there is nothing to compile; says why a library that is there will not do. */
async function hasPrebuilt() {
  const { folder, passedOver } = findPrebuilt(root);
  if (passedOver !== undefined) console.log(`palimpsest: ${passedOver}: the SQL guard is compiled here`);
  if (folder === undefined) return false;
  try {
    const { default: Database } = await import("better-sqlite3");
    const connection = new Database(":memory:");
    connection.loadExtension(join(folder, fileName), "sqlite3_sqlguardcontrol_init");
    connection.close();
    return true;
  } catch (error) {
    console.log(`palimpsest: the prebuilt SQL guard does not load, it is compiled here: ${error.message}`);
    return false;
  }
}

let failure;
try {
  if (!(await hasPrebuilt())) failure = compileGuard(commandWords(process.env.CC || "cc"), compiledLibrary(root));
} catch (error) {
  failure = error.message;
}
if (failure !== undefined) {
  console.log(`palimpsest: the SQL guard was not built, so the SQL route stays unconfigured: ${failure}`);
}
