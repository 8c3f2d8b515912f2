/** Whose texts are given to a model that takes one after the other. */
import { expect, test } from "vitest";
import { EmbedQueue, embedGroupTextsMax, embedWaitingTextsMax, type EmbedCall } from "../../../src/ai/embed-queue.ts";
import type { EmbedUse } from "../../../src/ai/embedding-models.ts";

function makeCall(use: EmbedUse, ...texts: string[]): EmbedCall {
  return { texts, use, next: 0 };
}

function makeTexts(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, at) => `${name}${at}`);
}

function takeTexts(queue: EmbedQueue<EmbedCall>): string[] {
  return queue.take().map(({ call, at }) => call.texts[at]!);
}

test("questions come before what is written, whoever came first", () => {
  const queue = new EmbedQueue();
  queue.offer(makeCall("document", ...makeTexts("w", 20)));
  expect(takeTexts(queue)).toHaveLength(embedGroupTextsMax);
  queue.offer(makeCall("query", "q0"));
  queue.offer(makeCall("query", "q1"));
  expect(takeTexts(queue)).toEqual(["q0", "q1"]);
  expect(takeTexts(queue)[0]).toBe("w8");
});

test("calls take turns, so that a small one does not wait for a large one", () => {
  const queue = new EmbedQueue();
  queue.offer(makeCall("document", ...makeTexts("a", 100)));
  queue.offer(makeCall("document", ...makeTexts("b", 2)));
  queue.offer(makeCall("document", "c0"));
  expect(takeTexts(queue)).toEqual(["a0", "b0", "c0", "a1", "b1", "a2", "a3", "a4"]);
});

test("long texts make small groups; one is taken however long it is", () => {
  const queue = new EmbedQueue();
  const long = "x".repeat(8_000);
  queue.offer(makeCall("document", long, long, long, "short", "short"));
  for (let at = 0; at < 3; at++) expect(takeTexts(queue)).toEqual([long]);
  expect(takeTexts(queue)).toEqual(["short", "short"]);
  expect(takeTexts(queue)).toEqual([]);
});

test("what waits is bounded for each kind: writes cannot turn a question away", () => {
  const queue = new EmbedQueue();
  expect(queue.offer(makeCall("document", ...makeTexts("w", embedWaitingTextsMax)))).toBe(true);
  expect(queue.offer(makeCall("document", "one more"))).toBe(false);
  expect(queue.offer(makeCall("query", "a question"))).toBe(true);
  expect(queue.waiting).toBe(embedWaitingTextsMax + 1);
  queue.take();
  queue.take();
  expect(queue.offer(makeCall("document", ...makeTexts("w", embedGroupTextsMax)))).toBe(true);
});

test("a call that is dropped has no text here any more, whenever it is", () => {
  const queue = new EmbedQueue();
  const [one, two] = [makeCall("document", ...makeTexts("a", 20)), makeCall("document", "b0")];
  queue.offer(one);
  queue.offer(two);
  queue.take();
  queue.drop(one);
  queue.drop(one);
  queue.drop(two);
  expect([queue.waiting, takeTexts(queue)]).toEqual([0, []]);
  queue.offer(makeCall("query", "q"));
  queue.offer(makeCall("document", "w"));
  expect(queue.drain()).toHaveLength(2);
  expect(queue.waiting).toBe(0);
});
