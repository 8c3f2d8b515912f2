/** Segments at rest: pages and indexes come back as they were, frames can be read alone, and damage is refused. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { AssertionFault } from "../../../../src/base/faults/assert.ts";
import { lockPage, pageBytes } from "../../../../src/format/history/pages.ts";
import { inlinePress, threadedPress } from "../../../../src/format/core/compression.ts";
import {
  decodeFrame,
  decodeSegments,
  encodeSegment,
  framePages,
  readSegmentIndexes,
  type PageGroup,
  type Segment,
} from "../../../../src/format/history/segment.ts";
import { countingBytes, expectDamageRefused, sampleDelta, sampleImage } from "../../../support/format-samples.ts";
import { seeded } from "../../../support/random.ts";

const encodeObject = async (...segments: Segment[]): Promise<Uint8Array> =>
  new Uint8Array(Buffer.concat(await Promise.all(segments.map((segment) => encodeSegment(segment, inlinePress)))));

/** The segment with every image as a plain Uint8Array of its own, whatever it was a view of. */
const plain = (segments: readonly Segment[]): Segment[] =>
  segments.map((segment) => ({
    ...segment,
    groups: segment.groups.map((group) => ({
      ...group,
      images: group.images.map(({ page, bytes }) => ({ page, bytes: new Uint8Array(bytes) })),
    })),
  }));

const group = fc.record({
  committedAtMs: fc.maxSafeNat(),
  pages: fc.constant(2 ** 25 - 1),
  images: fc
    .uniqueArray(
      fc.integer({ min: 1, max: 2 ** 25 - 1 }).filter((page) => page !== lockPage),
      { maxLength: 8 },
    )
    .map((pages) =>
      pages.toSorted((left, right) => left - right).map((page) => ({ page, bytes: countingBytes(pageBytes, page) })),
    ),
});
const segment: fc.Arbitrary<Segment> = fc
  .record({
    version: fc.constantFrom(undefined, 2),
    uuid: fc.uuid(),
    branchId: fc.constantFrom("main", sampleDelta.branchId),
    epoch: fc.maxSafeNat(),
    firstTxid: fc.nat(2 ** 40),
    groups: fc.array(group, { minLength: 1, maxLength: 5 }),
  })
  .map(({ version, ...rest }) => ({ ...rest, ...(version !== undefined && { version }) }))
  .chain(({ firstTxid, groups, ...rest }) =>
    fc.constantFrom<Segment>(
      { ...rest, kind: "delta", groups: groups.map((one, index) => ({ txid: firstTxid + index, ...one })) },
      { ...rest, kind: "image", groups: [{ txid: firstTxid, ...groups[0]! }] },
    ),
  );

test("segments come back from an object of several, with both presses", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(segment, { minLength: 1, maxLength: 4 }), async (segments) => {
      const object = await encodeObject(...segments);
      for (const press of [inlinePress, threadedPress])
        expect(plain(await decodeSegments(object, press))).toEqual(segments);
    }),
    { numRuns: 40 },
  );
});

test("the indexes say what the segments hold, and where", async () => {
  const object = await encodeObject(sampleDelta, sampleImage);
  const [delta, image, ...more] = readSegmentIndexes(object);
  expect(more).toEqual([]);
  expect(delta).toMatchObject({
    kind: "delta",
    uuid: sampleDelta.uuid,
    branchId: sampleDelta.branchId,
    epoch: 3,
    offset: 0,
  });
  expect(delta!.groups).toEqual(
    sampleDelta.groups.map(({ images, ...rest }) => ({
      ...rest,
      pageNumbers: Uint32Array.from(images, ({ page }) => page),
    })),
  );
  expect(image).toMatchObject({
    kind: "image",
    branchId: "main",
    epoch: 1,
    offset: delta!.bytes,
    bytes: object.length - delta!.bytes,
  });
  expect(plain(await decodeSegments(object.subarray(image!.offset), inlinePress))).toEqual([sampleImage]);
});

/** A group of so many pages of noise, numbered in steps of two. */
function noisyGroup(txid: number, count: number, random: () => number): PageGroup {
  const bytes = () => Uint8Array.from({ length: pageBytes }, () => random() * 256);
  return {
    txid,
    committedAtMs: txid,
    pages: 2 * count,
    images: Array.from({ length: count }, (_, index) => ({ page: 2 * index + 1, bytes: bytes() })),
  };
}

test("images lie in frames of 256, also across groups, and each frame is read alone", async () => {
  const random = seeded(11);
  const groups = [noisyGroup(1, 100, random), noisyGroup(2, framePages, random), noisyGroup(3, 157, random)];
  const object = await encodeObject({ ...sampleDelta, groups });
  const [index] = readSegmentIndexes(object);
  expect(index!.frames.map(({ rawPages }) => rawPages)).toEqual([256, 256, 1]);
  const images = groups.flatMap((one) => one.images);
  for (const [number, frame] of index!.frames.entries()) {
    const raw = await decodeFrame(object, index!, number, inlinePress);
    expect(raw.length).toBe(frame.rawPages * pageBytes);
    const expected = images.slice(number * framePages, (number + 1) * framePages).map(({ bytes }) => bytes);
    expect(Buffer.compare(raw, Buffer.concat(expected))).toBe(0);
  }
  expect(
    Buffer.compare(
      Buffer.concat(
        (await decodeSegments(object, inlinePress))[0]!.groups.flatMap((one) => one.images.map(({ bytes }) => bytes)),
      ),
      Buffer.concat(images.map(({ bytes }) => bytes)),
    ),
  ).toBe(0);
  await expect(decodeFrame(object, index!, 3, inlinePress)).rejects.toThrow(AssertionFault);
});

test("a whole number of frames has no empty one behind it, and a segment without images has none", async () => {
  const full = await encodeObject({ ...sampleDelta, groups: [noisyGroup(1, framePages, seeded(12))] });
  expect(readSegmentIndexes(full)[0]!.frames).toHaveLength(1);
  const empty = await encodeObject({ ...sampleDelta, groups: [sampleDelta.groups[1]!] });
  expect(readSegmentIndexes(empty)[0]!.frames).toEqual([]);
  expect(await decodeSegments(empty, inlinePress)).toEqual([{ ...sampleDelta, groups: [sampleDelta.groups[1]!] }]);
});

test("damage anywhere in a segment is refused as corrupt", async () => {
  await expectDamageRefused(await encodeObject(sampleDelta), (bytes) => decodeSegments(bytes, inlinePress));
});

test("damage in the index, or a cut, is refused without decompressing", async () => {
  const object = await encodeObject(sampleDelta);
  const [index] = readSegmentIndexes(object);
  const end = index!.frames[0]!.offset;
  for (let at = 0; at < end; at++)
    expect(() => readSegmentIndexes(object.with(at, object[at]! ^ 1))).toThrow(
      expect.objectContaining({ kind: "corrupt" }),
    );
  for (let length = 0; length < object.length; length++)
    expect(() => readSegmentIndexes(object.subarray(0, length))).toThrow(expect.objectContaining({ kind: "corrupt" }));
});

test("a small commit costs little beyond its compressed page", async () => {
  const one = { ...sampleDelta.groups[0]!, images: sampleDelta.groups[0]!.images.slice(0, 1) };
  const object = await encodeObject({ ...sampleDelta, groups: [one] });
  expect(readSegmentIndexes(object)[0]!.frames[0]!.offset).toBeLessThanOrEqual(110);
});

const bad = (change: Partial<Segment>): Segment => ({ ...sampleDelta, ...change });
const [first, second, third] = sampleDelta.groups as [PageGroup, PageGroup, PageGroup];
const buildPage = (page: number) => ({ page, bytes: new Uint8Array(pageBytes) });

test.each<[string, Segment]>([
  ["no group", bad({ groups: [] })],
  ["two groups in an image", bad({ kind: "image" })],
  ["a gap between transaction ids", bad({ groups: [first, third] })],
  ["page 0", bad({ groups: [{ ...second, images: [buildPage(0)] }] })],
  ["falling page numbers", bad({ groups: [{ ...second, images: [buildPage(2), buildPage(1)] }] })],
  ["a page twice", bad({ groups: [{ ...second, images: [buildPage(2), buildPage(2)] }] })],
  ["a page beyond the database", bad({ groups: [{ ...second, images: [buildPage(8)] }] })],
  ["the lock page", bad({ groups: [{ ...first, images: [buildPage(lockPage)] }] })],
  ["half a page", bad({ groups: [{ ...second, images: [{ page: 1, bytes: new Uint8Array(2048) }] }] })],
  ["a database of 2^25 pages", bad({ groups: [{ ...second, pages: 2 ** 25 }] })],
  ["a branch's name for its id", bad({ branchId: "dev" })],
])("a segment with %s is a bug", async (_name, segment) => {
  await expect(encodeSegment(segment, inlinePress)).rejects.toThrow(AssertionFault);
});
