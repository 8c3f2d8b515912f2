/**
 * Texts that agents are told by: `CLAUDE.md`, `AGENTS.md`, rules of editors, folders of Markdown.
 *
 * Each text becomes a file under its path, and of those that are instructions by their name, each section an
 * instruction on the topic `<path>#<heading>`.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join, relative, sep } from "node:path";
import type { ForeignRecords } from "./foreign-records.ts";

const textBytesMax = 1024 * 1024;
const filesMax = 10_000;
const texts = /\.(?:md|mdc|mdx|txt)$|^\.(?:cursorrules|windsurfrules|clinerules)$/i;
const instructions =
  /^(?:CLAUDE|AGENTS|GEMINI|copilot-instructions)(?:\.local)?\.md$|^\.(?:cursor|windsurf|cline)rules$|\.mdc$/i;

export function importTexts(path: string, records: ForeignRecords): void {
  if (!statSync(path).isDirectory()) return take(path, basename(path), records);
  const found = readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && texts.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => !relative(path, file).split(sep).includes("node_modules"))
    .toSorted();
  for (const file of found.slice(0, filesMax)) take(file, relative(path, file).split(sep).join("/"), records);
  for (let left = found.length - filesMax; left > 0; left--) records.skip(`a file beyond the first ${filesMax}`);
}

function take(file: string, name: string, records: ForeignRecords): void {
  const { size, mtimeMs } = statSync(file);
  if (size > textBytesMax) return records.skip("a file of more than 1 MiB");
  const text = readFileSync(file, "utf8");
  if (text.includes("\0") || text.includes("\uFFFD")) return records.skip("a file that is not UTF-8 text");
  if (text.trim() === "") return records.skip("an empty file");
  const writtenAt = Math.floor(mtimeMs);
  records.file(name, text, writtenAt);
  if (!instructions.test(basename(name))) return;
  for (const { heading, body } of sections(text))
    records.memory({
      identity: `${name}#${heading}`,
      type: "instruction",
      topic: `${name}#${heading}`,
      summary: heading === "" ? body : `${heading}: ${body}`,
      content: { path: name, heading, text: body },
      createdAt: writtenAt,
    });
}

/** The parts of a text between its headings of the first and second level; headings in code are none. */
function sections(text: string): readonly { readonly heading: string; readonly body: string }[] {
  const parts: { heading: string; body: string }[] = [{ heading: "", body: "" }];
  let isCode = false;
  for (const line of text.split("\n")) {
    if (/^\s*(?:```|~~~)/.test(line)) isCode = !isCode;
    const heading = isCode ? null : /^#{1,2}\s+(.+?)\s*#*\s*$/.exec(line);
    if (heading) parts.push({ heading: heading[1]!, body: "" });
    else parts.at(-1)!.body += `${line}\n`;
  }
  return parts.map(({ heading, body }) => ({ heading, body: body.trim() })).filter(({ body }) => body !== "");
}
