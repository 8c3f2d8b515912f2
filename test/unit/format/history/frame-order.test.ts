/** Which image stands where in a segment's frames. */
import { expect, test } from "vitest";
import { orderFrames, stretchImages } from "../../../../src/format/history/frame-order.ts";
import { seeded } from "../../../support/random.ts";

function randomGroups(random: () => number, count: number): { readonly pageNumbers: Uint32Array }[] {
  return Array.from({ length: count }, () => {
    const pages = new Set(Array.from({ length: 1 + Math.floor(random() * 40) }, () => 1 + Math.floor(random() * 60)));
    if (random() < 0.1) pages.add(2 ** 25 - 1);
    return { pageNumbers: Uint32Array.from(pages).sort() };
  });
}

test("in the first version, and in a group alone, images stand as they are numbered", () => {
  const groups = randomGroups(seeded(1), 5);
  for (const order of [orderFrames(1, groups), orderFrames(2, groups.slice(0, 1)), orderFrames(2, [])])
    expect(order).toEqual(Uint32Array.from(order.keys()));
});

test("in the second, they stand by page within each stretch, the states of a page in their order", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const groups = randomGroups(seeded(seed), 10 * seed);
    const pages = groups.flatMap(({ pageNumbers }) => [...pageNumbers]);
    const expected: number[] = [];
    for (let from = 0; from < pages.length; from += stretchImages)
      expected.push(
        ...Array.from({ length: Math.min(stretchImages, pages.length - from) }, (_, at) => from + at).sort(
          (left, right) => pages[left]! - pages[right]! || left - right,
        ),
      );
    expect([...orderFrames(2, groups)]).toEqual(expected);
  }
});
