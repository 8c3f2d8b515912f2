/**
 * A stand-in for the package with a node's own model, for what no sound model does: texts are orders. Loaded by the
 * process that runs models.
 */
import { modelResidentBytesMax } from "../../src/ai/local-embedder.ts";

let order = 0;
/** What makes the process large. */
export let kept: Buffer | undefined;

export async function openModel({ threads }: { readonly threads: number }): Promise<object> {
  if (threads === 9) throw new Error("SHA256SUMS names no such file");
  return {
    async embed(text: string): Promise<Float32Array> {
      if (text === "crash") process.kill(process.pid, "SIGSEGV");
      if (text === "exit") process.exit(3);
      if (text === "hang") await new Promise(() => {});
      if (text === "fail") throw new Error("the runtime's own words");
      if (text === "grow") kept = Buffer.alloc(modelResidentBytesMax, 1);
      if (text === "slow") await new Promise((resolve) => setTimeout(resolve, 100));
      return Float32Array.of(order++, text.length, process.pid);
    },
  };
}
