/** What one namespace of keys holds in a state of a branch, read one key after the other. */
import type { TimedEngine } from "./timed-engine.ts";

/** `key=value` of every key of the namespace `n`, in their order; `at` is as a caller names a state. */
export async function formatState(node: TimedEngine, at: string | undefined, branch = "main"): Promise<string[]> {
  const target = node.at(branch);
  const more = at === undefined ? {} : { at };
  const listed = await node.time.of(node.client.read(target, "kv.list", { ns: "n", limit: 1_000 }, node.soon(more)));
  const lines: string[] = [];
  for (const key of listed.value.keys) {
    const { value } = await node.time.of(node.client.read(target, "kv.get", { ns: "n", key }, node.soon(more)));
    lines.push(`${key}=${Buffer.from(value!.value).toString()}`);
  }
  return lines;
}
