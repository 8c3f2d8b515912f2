/** What each press makes smaller comes back as it was; anything else is refused. */
import { expect, test } from "vitest";
import { inlinePress, threadedPress } from "../../../../src/format/core/compression.ts";
import { countingBytes } from "../../../support/format-samples.ts";

const raw = countingBytes(100_000, 5);
const corrupt = expect.objectContaining({ kind: "corrupt" });

test.each([
  ["inline", inlinePress, threadedPress],
  ["threaded", threadedPress, inlinePress],
])("%s: what one press has pressed, both give back", async (_name, press, other) => {
  for (const bytes of [raw, raw.subarray(0, 1), raw.subarray(0, 0)]) {
    const pressed = await press.compress(bytes);
    for (const reader of [press, other])
      expect(Buffer.compare(await reader.decompress(pressed, bytes.length), bytes)).toBe(0);
  }
  expect((await press.compress(raw)).length).toBeLessThan(raw.length / 10);
});

test.each([
  ["inline", inlinePress],
  ["threaded", threadedPress],
])("%s: a frame of another length, a cut one and none at all are corrupt", async (_name, press) => {
  const pressed = await press.compress(raw);
  for (const rawBytes of [0, raw.length - 1, raw.length + 1])
    await expect(press.decompress(pressed, rawBytes)).rejects.toEqual(corrupt);
  for (const bytes of [pressed.subarray(0, -1), pressed.subarray(1), new Uint8Array(0)])
    await expect(press.decompress(bytes, raw.length)).rejects.toEqual(corrupt);
});
