/** The objects of a restore through a port: however many, and whatever becomes of the other side. */
import { MessageChannel, type MessagePort } from "node:worker_threads";
import { expect, test } from "vitest";
import { objectsThrough } from "../../../../src/engine/segments/objects-through.ts";

/** Answers each request with the next object, and in the end as told. */
function serve(port: MessagePort, objects: number, last: "end" | "none" | "close"): void {
  let given = 0;
  port.on("message", () => {
    if (given < objects) port.postMessage({ kind: "object", object: { ref: { id: String(given++) } } });
    else if (last === "close") port.close();
    else port.postMessage({ kind: last });
  });
}

test("a restore of many objects adds no listeners as it goes", async () => {
  const { port1, port2 } = new MessageChannel();
  serve(port1, 40, "end");
  const seen: string[] = [];
  for await (const { ref } of objectsThrough(port2)) {
    seen.push(ref.id);
    expect([port2.listenerCount("message"), port2.listenerCount("close")]).toEqual([1, 1]);
  }
  expect(seen).toEqual(Array.from({ length: 40 }, (_, at) => String(at)));
});

test.each(["none", "close"] as const)(
  "a side that ends with %s is an object that could not be fetched",
  async (last) => {
    const { port1, port2 } = new MessageChannel();
    serve(port1, 2, last);
    const take = async (): Promise<void> => {
      for await (const _object of objectsThrough(port2));
    };
    await expect(take()).rejects.toMatchObject({ kind: "unavailable" });
  },
);

test("a side that ends between two objects is noticed at the next one", async () => {
  const { port1, port2 } = new MessageChannel();
  serve(port1, 2, "none");
  const objects = objectsThrough(port2);
  await objects.next();
  const closed = new Promise((resolve) => port2.once("close", resolve));
  port1.close();
  await closed;
  await expect(objects.next()).rejects.toMatchObject({ kind: "unavailable" });
});
