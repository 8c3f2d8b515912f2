/** A real node on a disk in trouble (test/support/disk-chaos); `npm run soak -- --disk` goes on for longer. */
import { expect, test } from "vitest";
import { inGate } from "../support/gate.ts";
import { runDiskChaos } from "../support/disk-chaos.ts";
import { canFaultDisks } from "../support/faulty-disk.ts";
import { hasS3Server, s3ServerNeed, startS3Server } from "../support/s3-server.ts";

const isLong = process.env["PALIMPSEST_LONG"] === "1";
const durationMs = isLong ? 120_000 : 15_000;
const said: string[] = [];

test.skipIf(!canFaultDisks && !inGate)(
  "F17, F18, F19: on a full, read-only, failing or slow disk nothing acknowledged is lost",
  { timeout: 10 * durationMs + 120_000 },
  async () => {
    const counts = await runDiskChaos({ seed: 1, durationMs, say: (text) => said.push(text) }).catch((error: Error) =>
      expect.fail(`${error.message}\n${said.slice(-5).join("\n")}`),
    );
    expect(counts.troubles).toBeGreaterThan(1);
    expect(counts.durable).toBeGreaterThan(10);
    expect(counts.acknowledged).toBeGreaterThan(10);
  },
);

test.skipIf(!hasS3Server || !isLong)(
  `the same with the objects on an S3 server${s3ServerNeed}`,
  { timeout: 10 * durationMs + 120_000 },
  async () => {
    const server = await startS3Server();
    try {
      const counts = await runDiskChaos({
        seed: 2,
        durationMs,
        say: (text) => said.push(text),
        store: { ...server.variables, SERVICE_OBJECT_STORE: server.buildUrl("disk") },
      });
      expect(counts.troubles).toBeGreaterThan(1);
    } finally {
      await server.end();
    }
  },
);
