/** Makes segments and files on the caller's thread. */
import { rmSync } from "node:fs";
import { realDisk, type Disk } from "../../base/disk.ts";
import type { Compression } from "../../format/core/compression.ts";
import { makeImage, readStateRow } from "./image-maker.ts";
import { restoreFrom } from "./restore.ts";
import { makeSegment, type SegmentMaker } from "./segment-maker.ts";

/** SQLite leaves an empty log beside a file that was only read. */
const besides = ["", "-wal", "-shm"];

export function inlineMaker(press: Compression, disk: Disk = realDisk): SegmentMaker {
  return {
    make: (order) => makeSegment(order, press),
    image: (order) => makeImage(order, press),
    state: (path, check) => readStateRow(path, check),
    restore: async ({ uuid, plan, path }, objects) =>
      (await restoreFrom({ uuid, press, disk }, plan, path, objects)).pages,
    remove: async (path) => besides.forEach((suffix) => rmSync(`${path}${suffix}`, { force: true })),
  };
}
