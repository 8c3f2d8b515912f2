/** Places for posts: no tenant takes those of the others. */
import { expect, test } from "vitest";
import { PostPlaces, postsMax, postsOfTenantMax } from "../../../../src/service/webhooks/post-places.ts";

test("a tenant has its share, the node its bound, and who waits comes when one is free", async () => {
  const places = new PostPlaces();
  const running: (() => void)[] = [];
  const act = (): Promise<void> => new Promise((resolve) => void running.push(resolve));
  const all = Array.from({ length: postsOfTenantMax + 5 }, () => places.run("slow", act));
  await new Promise(setImmediate);
  expect(running.length).toBe(postsOfTenantMax);
  for (let tenant = 0; tenant < postsMax; tenant++) all.push(places.run(`t${tenant}`, act));
  await new Promise(setImmediate);
  expect(running.length).toBe(postsMax);
  for (let ended = 0; ended < all.length; ended++) {
    running[ended]!();
    await new Promise(setImmediate);
  }
  await Promise.all(all);
  expect(running.length).toBe(all.length);
});

test("an act that fails gives its place back", async () => {
  const places = new PostPlaces();
  for (let n = 0; n < 2 * postsMax; n++)
    await expect(places.run("one", () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(await places.run("one", async () => "in")).toBe("in");
});
