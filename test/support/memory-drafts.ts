/** A memory of which a test says only what matters to it. */
import { type MemoryInput } from "../../src/model/memory/memory-ingest.ts";

export type Draft = Partial<MemoryInput>;

export function draft({
  type = "fact",
  summary = "user prefers dark mode",
  content = "{}",
  ...more
}: Draft): MemoryInput {
  return { type, summary, content, ...more };
}
