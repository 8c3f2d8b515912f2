/**
 * Shards: the parts into which nodes divide what lies under uuids, by the first three digits.
 *
 * Uuids are random, so that each shard is as large as any other. Keys that go on with a uuid lie in the order of their
 * shards, and those of one shard beside each other: nothing has to be stored otherwise for them. Pure.
 */
import { encodeUtf8 } from "../../base/bytes.ts";
import { computeSha256 } from "./seal.ts";

const shardDigits = 3;
const digitsPattern = /^[0-9a-f]{3}$/;

/** How many there are. */
export const shardsCount = 16 ** shardDigits;

/** The digits with which the uuids of a shard begin. */
export function shardText(shard: number): string {
  return shard.toString(16).padStart(shardDigits, "0");
}

/** The shard of the uuid that begins there in a key; undefined when none does. */
export function shardAt(key: string, at: number): number | undefined {
  const digits = key.slice(at, at + shardDigits);
  return digitsPattern.test(digits) ? parseInt(digits, 16) : undefined;
}

/** The shard of a uuid, or of any other name. */
export function computeShard(name: string): number {
  const digest = computeSha256(encodeUtf8(name));
  return shardAt(name, 0) ?? new DataView(digest.buffer, digest.byteOffset, 2).getUint16(0) % shardsCount;
}
