/**
 * The change feed through the TypeScript client: streams that are cut, refused, silent, aborted or left, beside a real
 * node. Whatever happens to a stream, transactions come in order and once.
 */
import fc from "fast-check";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { EventReader } from "../../clients/typescript/src/events.ts";
import { Palimpsest, type WatchResponse } from "../../clients/typescript/src/index.ts";
import { startService, type Service } from "../support/service.ts";

let service: Service;
beforeAll(async () => {
  service = await startService();
  return () => service.close();
});

/** What a stream of the feed becomes on its way; the number says which one it is, from 1 on. */
type Bend = (number: number, go: () => Promise<Response>, signal: AbortSignal) => Promise<Response>;

let databases = 0;

/** A database whose feed goes through `bend`, and the paths that were asked for it. */
async function watched(bend: Bend = (_, go) => go()) {
  const plain = new Palimpsest({ url: service.address });
  const db = await plain.createDatabase(`watched-${++databases}`);
  const asked: string[] = [];
  const client = new Palimpsest({
    url: service.address,
    token: () => Promise.resolve(`t-${asked.length}`),
    fetch: (input, init) => {
      const { pathname, search } = new URL(String(input));
      if (!pathname.endsWith("/changes")) return fetch(input, init);
      asked.push(search);
      return bend(asked.length, () => fetch(input, init), init!.signal as AbortSignal);
    },
  });
  return { db, bent: client.database(db.name), client, asked };
}

/** The events up to that transaction. */
async function upTo(txid: number, events: AsyncIterable<WatchResponse>): Promise<WatchResponse[]> {
  const told: WatchResponse[] = [];
  for await (const event of events) {
    told.push(event);
    if (event.txid >= txid) break;
  }
  return told;
}

/** The response, broken after so many bytes. */
async function cutAfter(bytes: number, go: () => Promise<Response>): Promise<Response> {
  const response = await go();
  let left = bytes;
  const cut = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      controller.enqueue(chunk.subarray(0, left));
      left -= chunk.length;
      if (left <= 0) controller.error(new TypeError("terminated"));
    },
  });
  return new Response(response.body!.pipeThrough(cut), response);
}

const says = (text: string): Response =>
  new Response(text, { headers: { "content-type": "text/event-stream", "service-txid": "0" } });
const refusal = (code: string): string => `event: error\ndata: ${JSON.stringify({ error: "it ended", code })}\n\n`;

describe("a stream that is cut", () => {
  test("goes on behind its last event, wherever it was cut", async () => {
    const { db, bent, asked } = await watched((number, go) => cutAfter(100 + number * 150, go));
    for (let n = 1; n <= 12; n++) await db.kv("n").put(`key-${n}`, "x");
    const told = (await upTo(12, bent.watch({ after: 0 }))).filter(({ kind }) => kind !== "position");
    expect(told.map(({ txid, afterTxid }) => [afterTxid, txid])).toEqual(
      Array.from({ length: 12 }, (_, index) => [index, index + 1]),
    );
    expect(told.map(({ changes }) => changes[0]!.key)).toEqual(
      Array.from({ length: 12 }, (_, index) => `key-${index + 1}`),
    );
    expect(asked.length).toBeGreaterThan(3);
    expect(new Set(asked).size).toBeGreaterThan(2);
  });

  test("goes on when nothing listened for a while, when it ended well, and after passing refusals", async () => {
    const steps: Bend[] = [
      () => Promise.reject(new TypeError("fetch failed")),
      () => Promise.resolve(new Response("<html>", { status: 502 })),
      () => Promise.resolve(says("")),
      () => Promise.resolve(says(`: hello\n\n${refusal("unavailable")}`)),
      () => Promise.resolve(says(refusal("overloaded"))),
      () => Promise.resolve(says(refusal("unauthorized"))),
      () => Promise.resolve(Response.json({ code: "overloaded", error: "later" }, { status: 429 })),
      (_, go) => go(),
    ];
    const { db, bent, asked } = await watched((number, go, signal) => steps[number - 1]!(number, go, signal));
    await db.kv("n").put("a", "x");
    expect((await upTo(1, bent.watch({ after: 0 }))).map(({ txid }) => txid)).toEqual([0, 1]);
    expect(asked.length).toBe(steps.length);
  });

  test("throws what kept it from going on, when the time for that is over", async () => {
    const { db, bent } = await watched((number, go) =>
      number === 1 ? cutAfter(100, go) : Promise.reject(new TypeError("fetch failed")),
    );
    await db.kv("n").put("a", "x");
    const watching = upTo(99, bent.watch({ after: 0 }, { timeoutMs: 400 }));
    await expect(watching).rejects.toBeInstanceOf(Palimpsest.ConnectionError);
  });
});

describe("a stream that cannot go on", () => {
  test.each([
    ["conflict", Palimpsest.Conflict],
    ["database_not_found", Palimpsest.DatabaseNotFound],
    ["unconfigured", Palimpsest.Unconfigured],
  ])("throws %s, after what came before it", async (code, kind) => {
    const position = { kind: "position", txid: 0, after_txid: 0, changes: [], partial: false };
    const event = `id: 0\r\nevent: position\r\ndata: ${JSON.stringify(position)}\r\n\r\n`;
    const { bent, asked } = await watched(() => Promise.resolve(says(event + refusal(code))));
    const told: WatchResponse[] = [];
    const watching = (async () => {
      for await (const one of bent.watch()) told.push(one);
    })();
    const error = await watching.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(kind);
    expect(error).toMatchObject({ code, message: "it ended", operation: "watch" });
    expect(told.length).toBe(1);
    expect(asked.length).toBe(1);
  });

  test("of a database that is not there is refused at once, as is what is no position", async () => {
    const client = new Palimpsest({ url: service.address });
    await expect(upTo(1, client.database("nobody").watch())).rejects.toBeInstanceOf(Palimpsest.DatabaseNotFound);
    const { db } = await watched();
    await expect(upTo(1, db.watch({ after: -1 }))).rejects.toBeInstanceOf(Palimpsest.InvalidRequest);
    await expect(upTo(9, db.watch({ after: 7 }))).rejects.toBeInstanceOf(Palimpsest.InvalidRequest);
  });
});

describe("the end of a watch", () => {
  test("comes with the signal, while it waits and before it began, and with leaving the loop", async () => {
    const signals: AbortSignal[] = [];
    const { db, bent } = await watched((_, go, signal) => {
      signals.push(signal);
      return go();
    });
    const reason = new Error("no longer needed");
    const controller = new AbortController();
    const watching = upTo(1, bent.watch({}, { signal: controller.signal }));
    while (signals.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    controller.abort(reason);
    await expect(watching).rejects.toBe(reason);
    await expect(upTo(1, bent.watch({}, { signal: AbortSignal.abort(reason) }))).rejects.toBe(reason);
    expect(signals.length).toBe(1);
    await db.kv("n").put("a", "x");
    await upTo(1, bent.watch({ after: 0 }));
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
  });

  test("comes with the signal between two streams", async () => {
    const { bent } = await watched(() => Promise.reject(new TypeError("fetch failed")));
    const controller = new AbortController();
    onTestFinished(() => controller.abort());
    const watching = upTo(1, bent.watch({}, { signal: controller.signal }));
    setTimeout(() => controller.abort(new Error("enough")), 30);
    await expect(watching).rejects.toThrow("enough");
  });
});

test("what was told is seen: reads that follow ask for it", async () => {
  const { db, bent, client } = await watched();
  await db.kv("n").put("a", "x");
  await upTo(1, bent.watch({ after: 0 }));
  expect(JSON.parse(client.token())).toEqual({ [`${db.name}@main`]: 1 });
});

describe("events out of bytes", () => {
  test("are the same however the bytes are parted", () => {
    const event = fc.record({
      name: fc.constantFrom("changes", "position", "error"),
      data: fc.string({ unit: "binary" }).map((text) => JSON.stringify(text)),
      end: fc.constantFrom("\n", "\r\n"),
    });
    fc.assert(
      fc.property(
        fc.array(event, { maxLength: 5 }),
        fc.infiniteStream(fc.integer({ min: 1, max: 9 })),
        (events, cuts) => {
          const text = events
            .map(({ name, data, end }) => `id: 1${end}event: ${name}${end}data: ${data}${end}${end}`)
            .join("");
          const bytes = new TextEncoder().encode(text);
          const reader = new EventReader();
          const read = [];
          for (let at = 0; at < bytes.length;) {
            const size = cuts.next().value as number;
            read.push(...reader.feed(bytes.subarray(at, at + size)));
            at += size;
          }
          expect(read).toEqual(events.map(({ name, data }) => ({ name, data })));
        },
      ),
    );
  });

  test("that do not end are given up", () => {
    const reader = new EventReader();
    const chunk = new TextEncoder().encode("x".repeat(1024 * 1024));
    for (let n = 0; n < 4; n++) reader.feed(chunk);
    expect(() => reader.feed(chunk)).toThrow(RangeError);
  });
});
