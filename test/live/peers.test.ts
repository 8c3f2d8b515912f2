/**
 * The bench beside its peers, at a size that only shows that it works: every peer that is there answers every part that
 * it takes part in, and what is not there is skipped by name. Nothing here is about how fast.
 */
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findOnPath } from "../bench/peers/launched.ts";
import { parts, type Part } from "../bench/peers/peer.ts";
import { findMakers, openDirectory, runPeersPart, writeDocument } from "../bench/peers/peers.ts";
import type { Section } from "../bench/peers/section.ts";
import { sizes } from "../bench/peers/sizes.ts";
import { inGate } from "../support/gate.ts";

const { makers, skipped } = findMakers(sizes.small, { python: false });

/** Programs that the gate brings. */
const programs = [
  { name: "PostgreSQL", found: makers.some(({ name }) => name === "PostgreSQL") },
  { name: "Redis", found: makers.some(({ name }) => name === "Redis") },
  { name: "strace", found: findOnPath("strace") !== undefined },
];

function namesOf(part: Part): readonly string[] {
  return makers.flatMap(({ peers }) => peers).flatMap((peer) => (peer.parts.includes(part) ? [peer.name] : []));
}

describe("the bench beside its peers", () => {
  let directory: string;
  beforeAll(() => {
    directory = openDirectory(tmpdir());
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  const sections: Section[] = [];

  for (const { name, found } of programs)
    test.skipIf(!found && !inGate)(`${name} is there${found ? "" : " (skipped: it is not)"}`, () => {
      expect(found).toBe(true);
      expect(skipped.map((one) => one.name)).not.toContain(name);
    });

  test.each(parts)("%s: every peer that is there answers", async (part) => {
    const section = await runPeersPart(part, makers, sizes.small, directory);
    sections.push(section);
    expect(section.errors).toEqual([]);
    expect([...section.answered.keys()].toSorted()).toEqual(namesOf(part).toSorted());
    for (const [name, calls] of section.answered) expect(calls, name).toBeGreaterThan(0);
    for (const { columns, rows } of section.tables) for (const row of rows) expect(row).toHaveLength(columns.length);
  });

  test("no server answers a write that is not on disk", () => {
    const rows = sections.flatMap(({ part, tables }) =>
      part === "syncs" ? tables.flatMap((table) => table.rows) : [],
    );
    expect(rows.map(([name]) => name)).toEqual(namesOf("syncs"));
    const told = rows.map((row) => row.at(-1));
    const unproven = inGate ? [] : [expect.stringContaining("unproven")];
    for (const one of told) expect(["yes", ...unproven]).toContainEqual(one);
  });

  test("the document has every part and its plot", () => {
    const path = join(directory, "peers.md");
    writeDocument(path, { day: "any", machine: "any", sizeFlag: "", makers, skipped, sections });
    const text = readFileSync(path, "utf8");
    for (const { title } of sections) expect(text).toContain(`## ${title}\n`);
    const plots = sections.filter(({ bars }) => bars.length > 0).map(({ part }) => `${part}.svg`);
    expect(readdirSync(join(directory, "peers")).toSorted()).toEqual(plots.toSorted());
    for (const plot of plots) {
      expect(text).toContain(`(peers/${plot})`);
      expect(readFileSync(join(directory, "peers", plot), "utf8")).toMatch(/^<svg [^>]+>\n[^]*<\/svg>\n$/);
    }
  });
});
