/**
 * `/llms.txt`: the list of the documents for models, as the package has it.
 *
 * Always true: it is read once, when the page is made. Must not know: what stands in it.
 */
import { readFileSync } from "node:fs";
import { packageRoot } from "../../base/package-root.ts";
import type { Page } from "./rest.ts";

export function llmsPage(): Page {
  const body = readFileSync(new URL("docs/llms.txt", packageRoot), "utf8");
  return { answer: () => ({ status: 200, contentType: "text/plain; charset=utf-8", body }) };
}
