/**
 * The documents of the repository as text to be checked: their links, headings, paths in code spans, and fenced blocks.
 *
 * Always true: what stands in a fenced block is neither a link nor a heading nor a code span.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

export const root = join(import.meta.dirname, "../..");

export interface Document {
  /** Below the root. */
  readonly path: string;
  readonly text: string;
}

/** Every document that people read: those beside the sources, and docs/. */
export function documents(): readonly Document[] {
  const beside = readdirSync(root).filter((name) => name.endsWith(".md"));
  const below = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name.replaceAll("\\", "/")}`);
  return [...beside, ...below].toSorted().map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }));
}

const fence = /^```(\S*)\n(.*?)^```$/gms;

export interface Block {
  readonly language: string;
  readonly text: string;
}

/** The fenced blocks. */
export function parseBlocks({ text }: Document): readonly Block[] {
  return [...text.matchAll(fence)].map(([, language, block]) => ({ language: language!, text: block! }));
}

/** The text of the blocks of one language of the document at `path` below the root, in the order of the page. */
export function readBlocks(path: string, language: string): string[] {
  const blocks = parseBlocks({ path, text: readFileSync(join(root, path), "utf8") });
  return blocks.filter((block) => block.language === language).map(({ text }) => text);
}

function stripBlocks({ text }: Document): string {
  return text.replaceAll(fence, "");
}

/** The anchor that GitHub gives a heading. */
export function toAnchor(heading: string): string {
  return heading
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replaceAll(/[`*]/g, "")
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(/\s/g, "-");
}

function listAnchors(document: Document): ReadonlySet<string> {
  const seen = new Map<string, number>();
  return new Set(
    [...stripBlocks(document).matchAll(/^#+ (.*)$/gm)].map(([, heading]) => {
      const anchor = toAnchor(heading!);
      const before = seen.get(anchor) ?? 0;
      seen.set(anchor, before + 1);
      return before === 0 ? anchor : `${anchor}-${before}`;
    }),
  );
}

/** Links within the repository that lead nowhere, as `document: link`. */
export function brokenLinks(all: readonly Document[]): readonly string[] {
  const anchors = new Map(all.map((document) => [document.path, listAnchors(document)]));
  return all.flatMap((document) =>
    [...stripBlocks(document).matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, link]) => link!)
      .filter((link) => !/^[a-z]+:/.test(link))
      .filter((link) => {
        const [file, anchor] = link.split("#");
        const path = file === "" ? document.path : normalize(join(dirname(document.path), file!));
        if (!existsSync(join(root, path))) return true;
        return anchor !== undefined && !(anchors.get(path)?.has(anchor) ?? false);
      })
      .map((link) => `${document.path}: ${link}`),
  );
}

const floors = readdirSync(join(root, "src"));
const suites = readdirSync(join(root, "test"));
const folders = ["src", "test", "docs", "gen", "proto", "native", "examples", "bin", ".ci", ".github"];

/** Where a path in a code span may lie; none for what is no path of ours. */
function listCandidates(span: string): readonly string[] {
  const [first, second] = span.split("/");
  if (!/^[.\w-]+(?:\/[.\w-]+)*\/?$/.test(span) || second === undefined) return [];
  if (folders.includes(first!)) return [span];
  if (second === "") return [];
  if (floors.includes(first!)) return [`src/${span}`, `src/${span}.ts`];
  if (suites.includes(first!)) return [`test/${span}`, `test/${span}.ts`, `test/${span}.test.ts`];
  return [];
}

/** Paths in code spans that are not there, as `document: path`. */
export function missingPaths(all: readonly Document[]): readonly string[] {
  return all.flatMap((document) =>
    [...stripBlocks(document).matchAll(/`([^`\n]+)`/g)]
      .map(([, span]) => span!)
      .filter((span) => {
        const candidates = listCandidates(span);
        return candidates.length > 0 && !candidates.some((path) => existsSync(join(root, path)));
      })
      .map((span) => `${document.path}: ${span}`),
  );
}
