/**
 * A node on a disk that fills up, turns read-only, fails and is slow, for minutes; its objects on that disk, then on a
 * real S3 server where one is named.
 */
import { runDiskChaos } from "../support/disk-chaos.ts";
import { hasS3Server, startS3Server } from "../support/s3-server.ts";

/** Runs it for so long with each store; throws at the first promise that was broken. */
export async function soakDisk(durationMs: number, seed: number): Promise<void> {
  const say = (text: string): void => console.log(text);
  say("\n### Objects on the same disk");
  await runDiskChaos({ durationMs, seed, say });
  if (!hasS3Server) return say("\nNo S3 server is named, so that the objects were on the disk only.");
  const server = await startS3Server();
  try {
    say("\n### Objects on an S3 server");
    await runDiskChaos({
      durationMs,
      seed: seed + 1,
      say,
      store: { ...server.variables, SERVICE_OBJECT_STORE: server.buildUrl("disk") },
    });
  } finally {
    await server.end();
  }
}
