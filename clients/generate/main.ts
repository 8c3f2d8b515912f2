/** `npm run clients`: writes the generated files of the clients. What they hold is that of test/contract/clients.test.ts. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { generatedFiles } from "./files.ts";

const folder = join(import.meta.dirname, "..");
for (const [path, text] of await generatedFiles()) writeFileSync(join(folder, path), text);
