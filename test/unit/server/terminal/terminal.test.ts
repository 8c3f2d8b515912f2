/** What a terminal is given: text that commands nothing, tables that fit, colours only where they belong. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { Output } from "../../../../src/server/terminal/output.ts";
import { Progress } from "../../../../src/server/terminal/progress.ts";
import { styleFor } from "../../../../src/server/terminal/style.ts";
import { tableLines } from "../../../../src/server/terminal/table.ts";
import {
  columnsOf,
  cutText,
  visibleJson,
  visibleStyled,
  visibleText,
} from "../../../../src/server/terminal/visible-text.ts";
import { markTerms } from "../../../../src/server/client-commands/recall-command.ts";
import { parsePage, summaryOf } from "../../../../src/server/client-commands/top-command.ts";

const controls = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/;
const anyText = fc.string({ unit: "binary" });
const plain = styleFor({ write: () => {} }, {});

test("no text commands a terminal, whatever it holds", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      expect(visibleText(text)).not.toMatch(controls);
      expect(visibleJson(JSON.stringify({ text }))).not.toMatch(controls);
      expect(JSON.parse(visibleJson(JSON.stringify({ text })))).toEqual({ text });
      expect(visibleStyled(text).replaceAll(/\x1b\[[\d;]*m/g, "")).not.toMatch(controls);
    }),
  );
});

test.each([
  ["plain text", "plain text"],
  ["\u001b[2J", "\\x1b[2J"],
  ["\u009b2J", "\\x9b2J"],
  ["a\nb\tc\r", "a\\nb\\tc\\r"],
  ["abc\u202edef", "abc\\u{202e}def"],
  ["x\u{e0041}y", "x\\u{e0041}y"],
  ["\ud800", "\\u{d800}"],
  ["👨‍👩‍👧 café 上海", "👨‍👩‍👧 café 上海"],
])("%j is shown as %j", (text, shown) => {
  expect(visibleText(text)).toBe(shown);
});

test("a row is one line, no wider than the terminal, whatever the cells hold", () => {
  const columns = [{ title: "A" }, { title: "B", loose: true }, { title: "C", loose: true, right: true }];
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.string({ maxLength: 8 }), anyText, anyText), { maxLength: 5 }), (rows) => {
      const lines = tableLines(columns, rows, 60, plain);
      expect(lines).toHaveLength(rows.length + 1);
      // The first column does not give way.
      const fixed = Math.max(0, ...rows.map(([first]) => columnsOf(visibleText(first)))) + 2 * 12 + 4;
      for (const line of lines) expect(columnsOf(line)).toBeLessThanOrEqual(Math.max(60, fixed));
    }),
  );
});

test("a text is cut between its characters", () => {
  expect(cutText("上海上海上海", 7)).toBe("上海上…");
  expect(cutText("👨‍👩‍👧👨‍👩‍👧👨‍👩‍👧", 5)).toBe("👨‍👩‍👧👨‍👩‍👧…");
  expect(cutText("short", 5)).toBe("short");
});

test("colours only on a terminal, and not where NO_COLOR is", () => {
  const terminal = { isTTY: true, write: () => {} };
  expect(styleFor(terminal, {}).good("x")).toContain("\x1b[");
  expect(styleFor(terminal, { NO_COLOR: "1" }).good("x")).toBe("x");
  expect(styleFor(terminal, { TERM: "dumb" }).good("x")).toBe("x");
  expect(styleFor({ write: () => {} }, { FORCE_COLOR: "1" }).good("x")).toContain("\x1b[");
  expect(plain.matched("x")).toBe("[x]");
});

test("a terminal gets tables, all else JSON", () => {
  const out = (isTTY: boolean, asks?: "json" | "table"): boolean =>
    new Output({ env: {}, stdout: { isTTY, write: () => {} }, stderr: { write: () => {} } }, asks).isForPeople;
  expect([out(true), out(false), out(true, "json"), out(false, "table")]).toEqual([true, false, false, true]);
});

test("progress is written on a terminal alone, not too often, and taken away", () => {
  let [written, nowMs] = ["", 0];
  const write = (text: string): void => {
    written += text;
  };
  const progress = new Progress({ isTTY: true, columns: 20, write }, { monotonicMs: () => nowMs });
  progress.tell("one");
  progress.tell("two");
  nowMs = 200;
  progress.tell("three\u001b[2J and more than there is room for");
  progress.clear();
  expect(written).toBe("\r\x1b[Kone\r\x1b[Kthree\\x1b[2J and m…\r\x1b[K");
  new Progress({ write }, { monotonicMs: () => nowMs }).tell("nobody sees it");
  expect(written).not.toContain("nobody");
});

test.each([
  ["Ada prefers light themes", ["theme"], "Ada prefers light <themes>"],
  ["Prefer it; preferring", ["prefers"], "<Prefer> it; <preferring>"],
  ["nothing of it", ["theme"], "nothing of it"],
  ["\u001b[2J theme", ["theme"], "\\x1b[2J <theme>"],
  ["Café CAFÉ", ["cafe"], "<Café> <CAFÉ>"],
])("%j with %j is marked as %j", (text, terms, marked) => {
  expect(markTerms(text, terms, (word) => `<${word}>`)).toBe(marked);
});

test("two pages of metrics give rates, and a node that has started anew none below zero", () => {
  const page = (count: number, seconds: number): string =>
    [
      "# HELP palimpsest_requests_total x",
      `palimpsest_requests_total{endpoint="Recall",wire="rest",code="ok"} ${count}`,
      'palimpsest_requests_total{endpoint="Recall",wire="rest",code="not_found"} 2',
      `palimpsest_request_seconds_sum{endpoint="Recall",wire="rest"} ${seconds}`,
      `palimpsest_request_seconds_count{endpoint="Recall",wire="rest"} ${count}`,
      'palimpsest_unshipped_bytes{thread="engine-0"} 10',
      'palimpsest_unshipped_bytes{thread="engine-1"} 20',
      'other_total{a="b"} 1',
    ].join("\n");
  const reading = (atMs: number, text: string) => ({ atMs, ready: true, checks: {}, samples: parsePage(text) });
  const told = summaryOf(reading(0, page(10, 1)), reading(2_000, page(30, 1.2)));
  expect(told.unshipped_bytes).toBe(30);
  expect(told.endpoints).toEqual([
    { endpoint: "Recall", perSecond: 10, failedPerSecond: 0, meanMs: expect.closeTo(10) },
  ]);
  expect(summaryOf(reading(0, page(30, 1)), reading(1_000, page(1, 1))).endpoints).toEqual([]);
});
