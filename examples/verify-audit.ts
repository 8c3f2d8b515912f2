/**
 * Verifies the chains of an audit stream with nothing but Node: node examples/verify-audit.ts page1.json page2.json
 *
 * The files are answers of GET /v1/namespaces/{ns}/audit, page after page, without filters. Exit code 0: no event was
 * changed, removed or put in between the first and the last of each node. docs/verifying.md says what that means.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

/** A number with the digits in which it was written: those beyond 2^53 stay as they are. */
const exact = (_: string, value: unknown, { source }: { source: string }): unknown =>
  typeof value === "number" ? (JSON as any).rawJSON(source) : value;

const events = process.argv
  .slice(2)
  .flatMap((path): any[] => (JSON.parse as any)(readFileSync(path, "utf8"), exact).events);
const links = new Map<string, string>();
let broken = 0;
for (const event of events) {
  const expected = links.get(event.node);
  if (expected !== undefined && event.prev !== expected) {
    broken++;
    console.log(`BROKEN before ${event.id} of node ${event.node}: something was removed, changed or put in there`);
  }
  // The members stand in the order in which they were written; so the text is that of the object in storage.
  links.set(event.node, createHash("sha256").update(JSON.stringify(event)).digest("hex"));
}
console.log(`${events.length} events of ${links.size} nodes, ${broken} broken links`);
for (const [node, link] of links) console.log(`newest of ${node}: ${link}`);
process.exitCode = broken === 0 ? 0 : 1;
