/**
 * An export as a text for people: what is remembered by type and topic, what was said by session, files, and how much
 * else there is.
 *
 * Always true: what was stored is quoted or indented, so that it makes no headings of its own.
 */

type Fields = Readonly<Record<string, unknown>>;

const otherKinds: Readonly<Record<string, string>> = {
  kv: "keys",
  doc: "documents",
  vector: "vectors",
  sql_row: "rows of SQL tables",
};

/** The lines of an export as Markdown. */
export function toMarkdown(lines: string): string {
  const all = lines.split("\n").filter((line) => line !== "");
  const records = all.map((line) => JSON.parse(line) as Fields);
  const of = (kind: string): readonly Fields[] => records.filter((record) => record["kind"] === kind);
  const [header] = of("header");
  const active = of("memory").filter((one) => one["superseded_by"] === undefined && one["state"] === undefined);
  const byType = (type: string): readonly Fields[] => active.filter((one) => one["type"] === type);
  const parts = [
    `# ${String(header?.["database"])}, transaction ${String(header?.["txid"])}\n`,
    section("Instructions", byType("instruction")),
    section("Facts", byType("fact")),
    section("Tasks", byType("task")),
    section("Events", byType("event")),
    transcripts(of("turn")),
    files(of("file")),
  ];
  const counts = Object.entries(otherKinds).flatMap(([kind, words]) => {
    const { length } = of(kind);
    return length > 0 ? [`- ${length} ${words}\n`] : [];
  });
  if (counts.length > 0) parts.push(`## Also there\n\n${counts.join("")}`);
  return parts.filter((part) => part !== "").join("\n");
}

function day(ms: unknown): string {
  return new Date(Number(ms)).toISOString().slice(0, 10);
}

function section(title: string, memories: readonly Fields[]): string {
  if (memories.length === 0) return "";
  const lines = memories.map((one) => {
    const topic = one["topic_key"] === undefined ? "" : `**${oneLine(one["topic_key"])}**: `;
    const pin = one["pinned"] === true ? " (pinned)" : "";
    const content = JSON.stringify(one["content"]);
    const more = content === "{}" || content === "null" ? "" : `\n${indented(content)}`;
    return `- ${topic}${oneLine(one["summary"])}${pin} — ${day(one["created_at"])}${more}\n`;
  });
  return `## ${title}\n\n${lines.join("")}`;
}

function transcripts(turns: readonly Fields[]): string {
  if (turns.length === 0) return "";
  const bySession = Map.groupBy(turns, (turn) => String(turn["session_id"]));
  const parts = [...bySession].map(([session, said]) => {
    const lines = said.map((turn) => {
      const { content } = turn;
      const text = typeof content === "string" ? content : JSON.stringify(content);
      return `- ${oneLine(turn["role"])}, ${day(turn["created_at"])}\n${indented(text)}\n`;
    });
    return `### ${oneLine(session)}\n\n${lines.join("")}`;
  });
  return `## Sessions\n\n${parts.join("\n")}`;
}

function files(versions: readonly Fields[]): string {
  const newest = new Map(versions.map((version) => [String(version["path"]), version]));
  const there = [...newest].filter(([, version]) => version["text"] !== undefined);
  if (there.length === 0) return "";
  const parts = there.map(([path, { text }]) => `### ${oneLine(path)}\n\n${indented(String(text))}\n`);
  return `## Files\n\n${parts.join("\n")}`;
}

function oneLine(value: unknown): string {
  return String(value).replaceAll(/\s+/g, " ");
}

function indented(text: string): string {
  return text
    .split("\n")
    .map((line) => `      ${line}`)
    .join("\n");
}
