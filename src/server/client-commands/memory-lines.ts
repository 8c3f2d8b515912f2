/** How memories, times and values are shown to a person, and which fields programs get. */
import type { Json, Memory } from "../../../clients/typescript/src/index.ts";
import { toWire } from "../../../clients/typescript/src/codec.ts";
import type { Output } from "../terminal/output.ts";
import type { Column } from "../terminal/table.ts";
import { visibleLines, visibleText } from "../terminal/visible-text.ts";

/** A time as tables show it: to the minute, in UTC. */
export function shownTime(timeMs: number | null | undefined): string {
  if (timeMs === null || timeMs === undefined) return "";
  const date = new Date(timeMs);
  return Number.isNaN(date.getTime()) ? String(timeMs) : `${date.toISOString().slice(0, 16).replace("T", " ")}Z`;
}

/** Bytes as a person reads them. */
export function shownBytes(bytes: number | undefined): string {
  if (bytes === undefined) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let [value, unit] = [bytes, 0];
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

/** Any JSON in one visible line; a text as it is. */
export function shownValue(value: Json | undefined): string {
  if (value === undefined) return "";
  return visibleText(typeof value === "string" ? value : JSON.stringify(value));
}

/** What became of a memory: whether it holds. */
function stateOf(memory: Memory): string {
  return memory.status ?? (memory.supersededBy === null ? "active" : "superseded");
}

/** Prints memories: a table, or each as the wire has it. */
export async function printMemories(output: Output, memories: AsyncIterable<Memory>): Promise<number> {
  const rows: string[][] = [];
  let count = 0;
  for await (const memory of memories) {
    count++;
    if (output.isForPeople) rows.push(memoryRow(memory));
    else output.json(toWire(memory, "Memory"));
  }
  if (rows.length > 0) output.table(memoryColumns(output), rows);
  return count;
}

function memoryRow(memory: Memory): string[] {
  const pinned = memory.pinned ? "* " : "";
  const { id, type, topicKey, summary, createdAt } = memory;
  return [id, type, topicKey ?? "", `${pinned}${summary}`, stateOf(memory), shownTime(createdAt)];
}

function memoryColumns({ style }: Output): readonly Column[] {
  return [
    { title: "ID", paint: style.faint },
    { title: "TYPE" },
    { title: "TOPIC", paint: style.named, loose: true },
    { title: "SUMMARY", loose: true },
    { title: "STATE", paint: (text) => (text === "active" ? style.good(text) : style.warned(text)) },
    { title: "STORED", paint: style.faint },
  ];
}

/** Prints one memory in full. */
export function printMemory(output: Output, memory: Memory): void {
  if (!output.isForPeople) return output.json(toWire(memory, "Memory"));
  const { style } = output;
  const text = (value: string | null | undefined): string | undefined =>
    value === null || value === undefined ? undefined : visibleText(value);
  const time = (value: number | undefined): string | undefined => (value === undefined ? undefined : shownTime(value));
  output.record([
    ["id", text(memory.id)],
    ["type", text(memory.type)],
    ["topic", memory.topicKey === null ? undefined : style.named(visibleText(memory.topicKey))],
    ["summary", style.strong(visibleText(memory.summary))],
    ["state", stateOf(memory) + (memory.pinned ? ", pinned" : "")],
    ["keywords", text(memory.keywords)],
    ["session", text(memory.sessionId)],
    ["source", text(memory.source)],
    ["subject", text(memory.subject)],
    ["stored", shownTime(memory.createdAt)],
    ["expires", time(memory.expiresAt)],
    ["completed", time(memory.completedAt)],
    ["holds from", time(memory.validFrom)],
    ["holds until", time(memory.validUntil)],
    ["superseded by", text(memory.supersededBy)],
    ["supersedes", memory.supersedes?.length ? memory.supersedes.map(visibleText).join(", ") : undefined],
    ["derived from", memory.derivedFrom?.map((link) => shownLink(link)).join(", ")],
    ["metadata", memory.metadata === undefined ? undefined : shownValue(memory.metadata)],
  ]);
  if (memory.content === null) return;
  const content = typeof memory.content === "string" ? memory.content : JSON.stringify(memory.content, undefined, 2);
  output.lines(["", ...visibleLines(content).split("\n")]);
}

function shownLink(link: NonNullable<Memory["derivedFrom"]>[number]): string {
  return visibleText(link.memoryId ?? `${link.sessionId ?? ""}#${link.seq ?? ""}`);
}
