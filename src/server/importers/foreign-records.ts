/**
 * Records made of what another program has kept: the lines of an import, and what was passed over and why.
 *
 * Always true: ids follow from what identifies a thing where it comes from, so that a repeated import adds nothing;
 * what cannot be read is counted by its reason, and ends nothing. Must not know: any program's format.
 */
import { createHash } from "node:crypto";
import { limits } from "../../base/limits.ts";
import { formLine, plain } from "../../model/transfer/record.ts";

const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const summaryCharsMax = 2_000;
const reasonsMax = 100;

/** A memory as an importer says it. */
export interface ForeignMemory {
  /** What identifies it where it comes from. */
  readonly identity: string;
  readonly type: "fact" | "event" | "instruction";
  readonly topic?: string | undefined;
  readonly summary: string;
  readonly content: unknown;
  readonly keywords?: string | undefined;
  readonly session?: string | undefined;
  readonly source?: string | undefined;
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  readonly createdAt: number | undefined;
  readonly supersededBy?: { readonly identity: string; readonly at: number } | undefined;
}

/** A turn as an importer says it. */
export interface ForeignTurn {
  readonly id?: string | undefined;
  readonly role: string;
  readonly content: unknown;
  readonly createdAt: number | undefined;
}

/** Gathers the records of one import. */
export class ForeignRecords {
  readonly #program: string;
  /** Of what has no time of its own. */
  readonly #timeMs: number;
  readonly #lines: string[] = [];
  readonly #sessions = new Map<string, { first: number; last: number; turns: number }>();
  readonly #skipped = new Map<string, number>();
  readonly #topics = new Set<string>();

  constructor(program: string, timeMs: number) {
    this.#program = program;
    this.#timeMs = timeMs;
  }

  /** Counts what is passed over. */
  skip(reason: string): void {
    if (this.#skipped.has(reason) || this.#skipped.size < reasonsMax)
      this.#skipped.set(reason, (this.#skipped.get(reason) ?? 0) + 1);
  }

  memory(memory: ForeignMemory): void {
    const { type, topic, keywords, session, source, metadata, supersededBy } = memory;
    const summary = cut(memory.summary.trim(), summaryCharsMax);
    if (summary === "") return this.skip("a memory without text");
    const createdAt = memory.createdAt ?? this.#timeMs;
    const topicKey = topic === undefined ? undefined : fit(topic, limits.topicKeyBytesMax);
    if (supersededBy === undefined && topicKey !== undefined) {
      const place = `${type} ${topicKey}`;
      if (this.#topics.has(place)) return this.skip("a second memory on the same topic");
      this.#topics.add(place);
    }
    const sessionId = session === undefined ? undefined : fit(session, limits.sessionIdBytesMax);
    const said = source === undefined ? undefined : fit(source, limits.sourceBytesMax);
    if (sessionId !== undefined) this.#touch(sessionId, createdAt);
    const hasOrigin = sessionId !== undefined || said !== undefined;
    this.#lines.push(
      formLine("memory", {
        id: plain(this.#id(memory.identity)),
        type: plain(type),
        topic_key: plain(topicKey ?? null),
        summary: plain(summary),
        content: JSON.stringify(memory.content ?? null),
        keywords: plain(keywords === undefined || keywords === "" ? null : cut(keywords, summaryCharsMax)),
        session_id: plain(sessionId ?? null),
        source: plain(said ?? null),
        provenance: hasOrigin ? JSON.stringify([[sessionId ?? "", said ?? ""]]) : undefined,
        created_at: plain(createdAt),
        superseded_by: supersededBy && plain(this.#id(supersededBy.identity)),
        superseded_at: supersededBy && plain(supersededBy.at),
        metadata: formMetadata({ imported_from: this.#program, ...metadata }),
      }),
    );
  }

  /** Adds turns at the end of a session's transcript. */
  turns(session: string, turns: readonly ForeignTurn[]): void {
    const sessionId = fit(session, limits.sessionIdBytesMax);
    for (const { id, role, content, createdAt = this.#timeMs } of turns) {
      const seq = this.#touch(sessionId, createdAt, 1);
      this.#lines.push(
        formLine("turn", {
          session_id: plain(sessionId),
          seq: plain(seq),
          role: plain(fit(role, limits.roleBytesMax)),
          content: JSON.stringify(content ?? null),
          created_at: plain(createdAt),
          turn_id: id === undefined ? undefined : plain(fit(id, 128)),
        }),
      );
    }
  }

  file(path: string, text: string, writtenAt: number): void {
    const fields = { path: plain(path), version: "1", change: '"written"', written_at: plain(writtenAt) };
    this.#lines.push(formLine("file", { ...fields, text: plain(text) }));
  }

  /** The lines, and how much was passed over for which reason. */
  finish(): { readonly lines: readonly string[]; readonly skipped: ReadonlyMap<string, number> } {
    const sessions = [...this.#sessions].map(([id, { first, last }]) =>
      formLine("session", { id: plain(id), created_at: plain(first), last_active_at: plain(last) }),
    );
    return { lines: [...sessions, ...this.#lines], skipped: this.#skipped };
  }

  #touch(session: string, at: number, turns = 0): number {
    const known = this.#sessions.get(session) ?? { first: at, last: at, turns: 0 };
    const now = { first: Math.min(known.first, at), last: Math.max(known.last, at), turns: known.turns + turns };
    this.#sessions.set(session, now);
    return now.turns;
  }

  /** A memory's id that follows from what identifies it: `mem_`, and the form of a ULID. */
  #id(identity: string): string {
    const bytes = createHash("sha256").update(`${this.#program}\0${identity}`).digest();
    const text = Array.from(bytes.subarray(0, 26), (byte) => digits[byte % digits.length]!).join("");
    return `mem_0${text.slice(1)}`;
  }
}

/** Unix milliseconds of a time as other programs write it: ISO 8601, seconds or milliseconds. */
export function readTime(value: unknown): number | undefined {
  if (typeof value === "number" && Number.isFinite(value) && value > 0)
    return Math.round(value < 1e11 ? value * 1_000 : value);
  if (typeof value !== "string") return undefined;
  const text = /(?:Z|[+-]\d\d:?\d\d)$/.test(value) ? value : `${value.replace(" ", "T")}Z`;
  const timeMs = Date.parse(text);
  return Number.isNaN(timeMs) || timeMs < 0 ? undefined : timeMs;
}

/** The value as an object, or an empty one. */
export function asObject(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

/** The value as a list, or an empty one. */
export function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The value if it is a text that is not empty. */
export function asText(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value.toWellFormed() : undefined;
}

function cut(text: string, chars: number): string {
  return (text.length <= chars ? text : `${text.slice(0, chars - 1)}…`).toWellFormed();
}

/** The text within so many bytes: a longer one ends in digits of its hash, so that two stay two. */
function fit(text: string, bytes: number): string {
  if (Buffer.byteLength(text) <= bytes) return text;
  const end = `~${createHash("sha256").update(text).digest("hex").slice(0, 16)}`;
  return (
    Buffer.from(text)
      .subarray(0, bytes - end.length)
      .toString("utf8")
      .replace(/\uFFFD+$/, "") + end
  );
}

/** Metadata within its bounds; names that begin with `$` belong to operators. */
function formMetadata(metadata: Readonly<Record<string, unknown>>): string {
  const named = Object.entries(metadata).filter(([name, value]) => !name.startsWith("$") && value !== undefined);
  const text = JSON.stringify(Object.fromEntries(named));
  return Buffer.byteLength(text) <= 16 * 1024 ? text : JSON.stringify({ imported_from: metadata["imported_from"] });
}
