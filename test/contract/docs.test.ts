/** The documents: links and paths lead somewhere, JSON parses, generated ones are current, tables hold to the code. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { settingsMarkdown } from "../../src/server/config/config.ts";
import { parseBlocks, brokenLinks, documents, missingPaths, root } from "../support/documents.ts";
import { generatedDocs } from "../support/generated-docs.ts";
import { floors, rooms } from "../support/tidy-rules.ts";

const all = documents();

function readText(path: string): string {
  return readFileSync(join(root, path), "utf8");
}

describe("every document", () => {
  test("has links that lead to files and headings", () => {
    expect(all.length).toBeGreaterThan(20);
    expect(brokenLinks(all)).toEqual([]);
  });

  test("names files that exist", () => {
    expect(missingPaths(all)).toEqual([]);
  });

  test("is found out when it does not", () => {
    const text = "# A b\n[x](#a-b) [y](#a-c) [z](nowhere.md) `src/nowhere.ts` `engine/nowhere` `base/world`\n";
    const wrong = { path: "docs/recall.md", text };
    expect(brokenLinks([wrong])).toEqual(["docs/recall.md: #a-c", "docs/recall.md: nowhere.md"]);
    expect(missingPaths([wrong])).toEqual(["docs/recall.md: src/nowhere.ts", "docs/recall.md: engine/nowhere"]);
  });

  test("has JSON that parses", () => {
    const blocks = all.flatMap((document) =>
      parseBlocks(document)
        .filter(({ language }) => language === "json")
        .map(({ text }) => ({ path: document.path, text })),
    );
    expect(blocks.length).toBeGreaterThan(0);
    for (const { path, text } of blocks) expect(() => JSON.parse(text) as unknown, `${path}: ${text}`).not.toThrow();
  });

  test("is listed in docs/README.md", () => {
    const index = readText("docs/README.md");
    const own = all.map(({ path }) => path).filter((path) => /^docs\/[^/]+\.md$/.test(path) && !/README/.test(path));
    expect(own.filter((path) => !index.includes(`(${path.slice("docs/".length)})`))).toEqual([]);
  });
});

test.each(Object.entries(generatedDocs))("%s is current", (path, made) => {
  expect(readText(path), "run `npm run docs`").toBe(made());
});

test("docs/configuration.md has the table that `palimpsest variables` prints", () => {
  expect(readText("docs/configuration.md")).toContain(settingsMarkdown());
});

test("README.md stays short", () => {
  expect(readText("README.md").split("\n").length).toBeLessThanOrEqual(251);
});

describe("docs/where.md", () => {
  const rows = readText("docs/where.md")
    .split("\n")
    .flatMap((line) => {
      const [, number, question, path, word] = /^\| (\d+) \| (.+) \| `(.+)` \| `(.+)` \|$/.exec(line) ?? [];
      return number === undefined ? [] : [{ number: Number(number), question: question!, path: path!, word: word! }];
    });

  test("has thirty questions", () => {
    expect(rows.map(({ number }) => number)).toEqual(Array.from({ length: 30 }, (_, at) => at + 1));
  });

  test.each(rows)("where $question", ({ path, word }) => {
    expect(readText(path)).toContain(word);
  });
});

test("the picture of docs/architecture.md has every floor with its rooms, in their order", () => {
  const picture = parseBlocks({ path: "", text: readText("docs/architecture.md") }).find(
    ({ language }) => language === "mermaid",
  )!;
  const drawn = [...picture.text.matchAll(/<b>(\d) (\w+)<\/b>(?:<br\/>)?([^"]*)"/g)].map(([, level, floor, names]) => ({
    level: Number(level),
    floor: floor!,
    rooms: names!.split(/ · |<br\/>/).filter((name) => name !== ""),
  }));
  const built = floors
    .flatMap((level, height) => level.map((floor) => ({ level: height, floor, rooms: rooms[floor] })))
    .toSorted((left, right) => left.floor.localeCompare(right.floor));
  expect(drawn.toSorted((left, right) => left.floor.localeCompare(right.floor))).toEqual(built);
});

test("the decisions are numbered in a row, and listed", () => {
  const files = all.map(({ path }) => path).filter((path) => /^docs\/decisions\/\d/.test(path));
  expect(files.map((path) => Number(/(\d{4})-/.exec(path)![1]))).toEqual(files.map((_, at) => at + 1));
  const index = readText("docs/decisions/README.md");
  for (const path of files) {
    const [title] = readText(path).split("\n");
    expect(index).toContain(`| [${title!.slice(2, 6)}](${path.split("/").at(-1)}) |`);
    expect(index).toContain(title!.slice("# 0000. ".length));
  }
});
