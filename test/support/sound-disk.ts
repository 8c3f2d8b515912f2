/** A disk whose syncs take no time: for whoever looks at what is written, not at when it is safe. */
import { realDisk, type Disk } from "../../src/base/disk.ts";

export const soundDisk: Disk = { ...realDisk, fdatasync: async () => {}, syncDirectory: async () => {} };
