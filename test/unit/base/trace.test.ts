/** Trace context: what is read from a client's header, and what a request has without one. */
import { expect, test } from "vitest";
import { newSpanId, newTraceId, RequestTrace, parseTraceparent, formatTraceparent } from "../../../src/base/trace.ts";
import { realWorld } from "../../../src/base/world.ts";

const world = realWorld();
const traceId = "0af7651916cd43dd8448eb211c80319c";
const spanId = "b7ad6b7169203331";

test("a valid header gives its ids and whether it is sampled, and comes back as it was", () => {
  expect(parseTraceparent(`00-${traceId}-${spanId}-01`)).toEqual({ traceId, spanId, sampled: true });
  expect(parseTraceparent(`00-${traceId}-${spanId}-00`)).toEqual({ traceId, spanId, sampled: false });
  // Of the flags only the lowest is ours.
  expect(parseTraceparent(`00-${traceId}-${spanId}-fe`)).toMatchObject({ sampled: false });
  expect(formatTraceparent({ traceId, spanId, sampled: true })).toBe(`00-${traceId}-${spanId}-01`);
  expect(formatTraceparent({ traceId, spanId, sampled: false })).toBe(`00-${traceId}-${spanId}-00`);
});

test("a version to come may say more, this one may not", () => {
  expect(parseTraceparent(`01-${traceId}-${spanId}-01-more`)).toEqual({ traceId, spanId, sampled: true });
  expect(parseTraceparent(`00-${traceId}-${spanId}-01-more`)).toBeUndefined();
});

test.each([
  undefined,
  "",
  "00",
  `ff-${traceId}-${spanId}-01`,
  `00-${traceId.toUpperCase()}-${spanId}-01`,
  `00-${"0".repeat(32)}-${spanId}-01`,
  `00-${traceId}-${"0".repeat(16)}-01`,
  `00-${traceId}-${spanId}-1`,
  `00-${traceId}-${spanId}`,
  `00-${traceId.slice(1)}-${spanId}-01`,
  ` 00-${traceId}-${spanId}-01`,
  `00-${traceId}-${spanId}-01\n`,
  `00-${traceId}-${spanId}-01, 00-${traceId}-${spanId}-01`,
  `01-${traceId}-${spanId}-01more`,
])("%j is no header", (text) => {
  expect(parseTraceparent(text)).toBeUndefined();
});

test("a request keeps the trace that it came with, or gets one of its own that stays", () => {
  expect({ ...pick(new RequestTrace(world, `00-${traceId}-${spanId}-01`)) }).toEqual({
    traceId,
    spanId,
    sampled: true,
  });
  const own = new RequestTrace(world, "garbage");
  const first = pick(own);
  expect(pick(own)).toEqual(first);
  expect(parseTraceparent(formatTraceparent(own))).toEqual(first);
  expect(first.sampled).toBe(false);
  expect(new RequestTrace(world, undefined).traceId).not.toBe(first.traceId);
  expect([newTraceId(world), newSpanId(world)].map((id) => id.length)).toEqual([32, 16]);
});

function pick({ traceId: trace, spanId: span, sampled }: RequestTrace): {
  readonly traceId: string;
  readonly spanId: string;
  readonly sampled: boolean;
} {
  return { traceId: trace, spanId: span, sampled };
}
