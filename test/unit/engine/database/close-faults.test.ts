/** A disk that fails while an idle file is closed is nobody's trouble but that file's. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { DiskLedger } from "../../../support/disk-ledger.ts";
import { faultVfs } from "../../../support/fault-vfs.ts";
import { openInlineEngine, uuidOf } from "../../../support/inline-engine.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

test(
  "F19: reads that fail at the close of an idle file leave the thread's housekeeping and every database as they were",
  { timeout: 60_000 },
  async () => {
    const live = join(temporaryDirectory(), "live");
    for (const name of ["db", "scratch"]) mkdirSync(join(live, name), { recursive: true });
    const ledger = new DiskLedger(live, 1);
    onTestFinished(() => ledger.close());
    const { client, soon } = openInlineEngine(live, { options: { idleCloseMs: 10 } });
    const target = { uuid: uuidOf(1), branch: "main" };
    const put = (key: string): Promise<unknown> =>
      client.write(target, "kv.put", { ns: "n", key, value: Buffer.from(key) }, { ...soon(), durable: true });
    const failed = (): number => faultVfs().failed(ledger.vfsFolder);
    // Twice: housekeeping that ended with the first fault would never come to the second.
    for (const key of ["first", "second"]) {
      await put(key);
      const before = failed();
      faultVfs().chance(ledger.vfsFolder, "readFails", 1);
      await vi.waitFor(() => expect(failed()).toBeGreaterThan(before), { timeout: 10_000, interval: 20 });
      faultVfs().chance(ledger.vfsFolder, "readFails", 0);
    }
    const { value } = await client.read(target, "kv.list", { ns: "n", limit: 10 }, soon());
    expect(value.keys).toEqual(["first", "second"]);
    await client.close();
  },
);
