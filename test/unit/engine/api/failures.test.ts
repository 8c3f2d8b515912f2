/** What a client is told of faults that are nobody's bug. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { realDisk, type Disk } from "../../../../src/base/disk.ts";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { toFailureAnswer } from "../../../../src/engine/api/failures.ts";
import { MemoryStore } from "../../../../src/store/memory-store.ts";
import { openInlineEngine, uuidOf } from "../../../support/inline-engine.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

const coded = (code: string): Error => Object.assign(new Error("quoted: secret"), { code });

test.each([
  ["ENOSPC", "the disk is full"],
  ["EROFS", "the disk is read-only"],
  ["EIO", "the disk is failing"],
  ["EMFILE", "this process has too many files open"],
  ["SQLITE_FULL", "the disk is full"],
  ["SQLITE_IOERR_WRITE", "the disk is failing"],
  ["SQLITE_READONLY_DBMOVED", "the disk is read-only"],
])("%s is a disk's fault: unavailable, by name, without the system's own words", (code, words) => {
  const { refusal } = toFailureAnswer(coded(code));
  expect(refusal).toMatchObject({ code: "unavailable", message: `the node's storage failed: ${words}` });
});

test("anything else stays a fault of ours", () => {
  expect(toFailureAnswer(coded("ERR_ASSERTION"))).toMatchObject({ fault: { message: "quoted: secret" } });
  expect(toFailureAnswer(new StoreError("unavailable", "x"))).toMatchObject({ refusal: { code: "unavailable" } });
});

test("F17: a database whose file finds no room is unavailable, and opens when there is some", async () => {
  let isFull = true;
  const disk: Disk = {
    ...realDisk,
    write: (descriptor, path, bytes, position) => {
      if (isFull && path.includes(".db")) throw coded("ENOSPC");
      return realDisk.write(descriptor, path, bytes, position);
    },
  };
  const { client, soon } = openInlineEngine(join(temporaryDirectory(), "data"), { store: new MemoryStore(), disk });
  const put = (): Promise<unknown> =>
    client.write({ uuid: uuidOf(1), branch: "main" }, "kv.put", { ns: "n", key: "k", value: Buffer.from("v") }, soon());
  await expect(put()).rejects.toMatchObject({
    code: "unavailable",
    message: expect.stringContaining("the disk is full"),
  });
  isFull = false;
  await put();
  await client.close();
});
