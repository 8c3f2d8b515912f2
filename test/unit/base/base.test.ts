/** What everything stands on: batches in turns, waits for a mark that rises, refusals, ids. */
import { describe, expect, test } from "vitest";
import { assert, AssertionFault } from "../../../src/base/faults/assert.ts";
import { Batcher } from "../../../src/base/collections/batcher.ts";
import { errorCodes, toServiceError, toRefusalData, ServiceError } from "../../../src/base/faults/errors.ts";
import { Watermark } from "../../../src/base/collections/watermark.ts";
import { realWorld } from "../../../src/base/world.ts";

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function collecting(options: Partial<ConstructorParameters<typeof Batcher<number>>[0]> = {}) {
  const batches: number[][] = [];
  const bugs: unknown[] = [];
  const batcher = new Batcher<number>({
    capacity: 100,
    itemsMax: 4,
    bytesMax: 1_000,
    waitingBytesMax: 10_000,
    measureItem: (item) => item,
    act: (items) => {
      batches.push(items);
    },
    soon: (act) => setImmediate(act),
    onBug: (error) => bugs.push(error),
    ...options,
  });
  return { batcher, batches, bugs };
}

describe("batcher", () => {
  test("what is offered in one turn shares batches of at most itemsMax, in order", async () => {
    const { batcher, batches } = collecting();
    for (let item = 1; item <= 10; item++) expect(batcher.offer(item)).toBe(true);
    while (!batcher.idle) await turn();
    expect(batches).toEqual([
      [1, 2, 3, 4],
      [5, 6, 7, 8],
      [9, 10],
    ]);
  });

  test("a batch is cut at bytesMax, and an item larger than that goes alone", async () => {
    const { batcher, batches } = collecting({ bytesMax: 10 });
    for (const item of [50, 4, 4, 4]) batcher.offer(item);
    while (!batcher.idle) await turn();
    expect(batches).toEqual([[50], [4, 4], [4]]);
  });

  test("the door is closed when the queue is full", () => {
    const { batcher } = collecting({ capacity: 1 });
    expect([batcher.offer(1), batcher.offer(2)]).toEqual([true, false]);
  });

  test("one act at a time: what comes during an act waits for its end", async () => {
    const gate = Promise.withResolvers<void>();
    const batches: number[][] = [];
    const { batcher } = collecting({
      act: (items) => {
        batches.push(items);
        return gate.promise;
      },
    });
    batcher.offer(1);
    await turn();
    batcher.offer(2);
    batcher.offer(3);
    await turn();
    expect(batches).toEqual([[1]]);
    gate.resolve();
    while (!batcher.idle) await turn();
    expect(batches).toEqual([[1], [2, 3]]);
  });

  test("a loop that is not ready stops until it is woken", async () => {
    let ready = false;
    const { batcher, batches } = collecting({ ready: () => ready });
    batcher.offer(1);
    await turn();
    expect(batches).toEqual([]);
    ready = true;
    batcher.wake();
    await turn();
    expect(batches).toEqual([[1]]);
  });

  test("a throw reaches onBug, with the loop going on", async () => {
    const { batcher, bugs } = collecting({
      act: () => {
        throw new Error("bug");
      },
    });
    batcher.offer(1);
    await turn();
    batcher.offer(2);
    await turn();
    await turn();
    expect(bugs).toHaveLength(2);
  });
});

describe("watermark", () => {
  test("settles those it has reached, in any order of asking", async () => {
    const mark = new Watermark(0);
    const seen: number[] = [];
    for (const level of [3, 1, 2]) void mark.wait(level).then(() => seen.push(level));
    mark.raise(2);
    await turn();
    expect(seen).toEqual([1, 2]);
    mark.raise(3);
    await turn();
    expect(seen).toEqual([1, 2, 3]);
  });

  test("never falls", () => {
    const mark = new Watermark(5);
    expect(() => mark.raise(4)).toThrow(AssertionFault);
  });

  test("once failed, whoever is not reached is refused, now and later", async () => {
    const mark = new Watermark(1);
    const waiting = mark.wait(2);
    mark.fail(new Error("disk"));
    await expect(waiting).rejects.toThrow("disk");
    await expect(mark.wait(3)).rejects.toThrow("disk");
    await expect(mark.wait(1)).resolves.toBeUndefined();
  });
});

describe("errors", () => {
  test("a refusal crosses a thread as plain data and comes back the same", () => {
    const error = new ServiceError("overloaded", "full", { retryAfterSecs: 3, txid: 9 });
    const back = toServiceError(structuredClone(toRefusalData(error)!));
    expect({ code: back.code, message: back.message, detail: back.detail }).toEqual({
      code: "overloaded",
      message: "full",
      detail: { retryAfterSecs: 3, txid: 9 },
    });
    expect(toRefusalData(new Error("bug"))).toBeUndefined();
  });

  test("the table holds every code of the specification", () => {
    expect(Object.fromEntries(Object.entries(errorCodes).map(([code, row]) => [code, row.http]))).toEqual({
      unauthorized: 401,
      forbidden: 403,
      not_found: 404,
      database_not_found: 404,
      branch_not_found: 404,
      already_exists: 409,
      conflict: 409,
      invalid_request: 400,
      payload_too_large: 413,
      request_timeout: 408,
      overloaded: 429,
      unconfigured: 503,
      unavailable: 503,
      internal: 500,
    });
  });

  test("assert throws with the invariant's words", () => {
    expect(() => assert(false, "the sky is blue")).toThrow("the sky is blue");
  });
});

test("ids sort in the order in which they were given", () => {
  const world = realWorld();
  const ids = Array.from({ length: 2_000 }, () => world.ulid());
  expect(ids).toEqual([...ids].sort());
  expect(new Set(ids).size).toBe(ids.length);
});
