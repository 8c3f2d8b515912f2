/** The machine in general words: what its figures can be compared with. */
import { cpus, release, totalmem } from "node:os";
import { fsyncMs } from "../floors.ts";

/** The directory is on the disk that the servers write to. */
export function describeMachine(directory: string): string {
  const cores = cpus();
  const kernel = release().split(".").slice(0, 2).join(".");
  const gib = Math.round(totalmem() / 2 ** 30);
  return (
    `${cores.length} cores (${cores[0]?.model.replaceAll(/\s+/g, " ") ?? "unknown"}) that clients and servers share, ` +
    `${gib} GiB, ${process.platform} ${kernel}; a 4 KiB append with \`fdatasync\` ${fsyncMs(directory).toFixed(2)} ms`
  );
}
