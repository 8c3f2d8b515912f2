/** Windows of erased data are found wherever they stand, and nothing else is. */
import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Traces } from "../../../../src/format/erasure/erasure-coupon.ts";
import { traceBytes, computeTrace, TraceSearch, windowBytes } from "../../../../src/format/erasure/traces.ts";

function buildTraces(key: Uint8Array, windows: readonly Uint8Array[]): Traces {
  return {
    key,
    windows: Buffer.concat(windows.map((window) => computeTrace(key, window))),
    windowsTotal: windows.length,
  };
}

function searched(sets: readonly Traces[], bytes: Uint8Array): [number, number][] {
  const hits: [number, number][] = [];
  new TraceSearch(sets).search(bytes, (set, offset) => hits.push([set, offset]));
  return hits;
}

/** The same by looking everywhere. */
function naively(sets: readonly (readonly Uint8Array[])[], bytes: Uint8Array): [number, number][] {
  const hits: [number, number][] = [];
  for (let offset = 0; offset + windowBytes <= bytes.length; offset++) {
    for (const [set, windows] of sets.entries()) {
      for (const window of windows)
        if (Buffer.compare(bytes.subarray(offset, offset + windowBytes), window) === 0) hits.push([set, offset]);
    }
  }
  return hits;
}

describe("a search for traces", () => {
  test("finds exactly what looking everywhere finds, repeats and overlaps included", () => {
    // Few different bytes, so that windows repeat and overlap.
    const alphabet = fc.integer({ min: 0, max: 2 });
    const arbitraryBytes = (minLength: number, maxLength: number) =>
      fc.array(alphabet, { minLength, maxLength }).map((values) => Uint8Array.from(values));
    const input = fc.record({
      bytes: arbitraryBytes(0, 300),
      cuts: fc.array(fc.array(fc.nat(), { maxLength: 4 }), { minLength: 1, maxLength: 3 }),
      strangers: fc.array(arbitraryBytes(windowBytes, windowBytes), { maxLength: 3 }),
    });
    fc.assert(
      fc.property(input, ({ bytes, cuts, strangers }) => {
        const places = bytes.length - windowBytes + 1;
        const sets = cuts.map((own) => [
          ...(places > 0 ? own.map((at) => bytes.slice(at % places, (at % places) + windowBytes)) : []),
          ...strangers,
        ]);
        const traces = sets.map((windows, set) => buildTraces(Buffer.alloc(32, set + 1), windows));
        expect(searched(traces, bytes).sort()).toEqual(naively(sets, bytes).sort());
      }),
      { numRuns: 500 },
    );
  });

  test("finds windows at both ends, and one that is all there is", () => {
    const bytes = randomBytes(4_096);
    const key = randomBytes(32);
    const windows = [bytes.subarray(0, windowBytes), bytes.subarray(4_096 - windowBytes)];
    expect(searched([buildTraces(key, windows)], bytes)).toEqual([
      [0, 0],
      [0, 4_096 - windowBytes],
    ]);
    expect(searched([buildTraces(key, windows)], windows[1]!)).toEqual([[0, 0]]);
    expect(searched([buildTraces(key, windows)], windows[1]!.subarray(1))).toEqual([]);
  });

  test("looks for nothing when there is nothing to look for", () => {
    const bytes = randomBytes(4_096);
    expect(searched([], bytes)).toEqual([]);
    expect(searched([buildTraces(randomBytes(32), [])], bytes)).toEqual([]);
    expect(searched([buildTraces(randomBytes(32), [bytes.subarray(0, windowBytes)])], new Uint8Array())).toEqual([]);
  });

  test("tells the erasures apart that share a window, and needs the key of each", () => {
    const bytes = randomBytes(200);
    const window = bytes.subarray(70, 70 + windowBytes);
    const [one, other] = [buildTraces(randomBytes(32), [window]), buildTraces(randomBytes(32), [window])];
    expect(searched([one, other], bytes)).toEqual([
      [0, 70],
      [1, 70],
    ]);
    expect(searched([{ ...one, key: other.key }, other], bytes)).toEqual([[1, 70]]);
    expect(Buffer.from(one.windows).equals(Buffer.from(other.windows))).toBe(false);
  });

  test("a change of any one byte of a window hides it", () => {
    const window = randomBytes(windowBytes);
    const traces = [buildTraces(randomBytes(32), [window])];
    for (let at = 0; at < windowBytes; at++) {
      const changed = Buffer.from(window);
      changed[at]! ^= 1;
      expect(searched(traces, changed)).toEqual([]);
    }
  });

  test("a trace has the size that it says, and a cut-off set is refused", () => {
    const trace = computeTrace(randomBytes(32), randomBytes(windowBytes));
    expect(trace.length).toBe(traceBytes);
    expect(() => new TraceSearch([{ key: randomBytes(32), windows: trace.subarray(1), windowsTotal: 1 }])).toThrow(
      /cut off/,
    );
  });

  test("counts what it looks for", () => {
    const window = randomBytes(windowBytes);
    expect(
      new TraceSearch([
        buildTraces(randomBytes(32), [window, randomBytes(windowBytes)]),
        buildTraces(randomBytes(32), [window]),
      ]).size,
    ).toBe(3);
  });
});
