/** How a conversation is kept, and how the answers of a recall name what was kept. */
import type { Conversation } from "./corpus.ts";
import type { Draft, Target } from "./targets.ts";

export const unitNames = ["session", "turn", "transcript"] as const;
/** Whole sessions as memories, single turns as memories, or the transcript. */
export type UnitName = (typeof unitNames)[number];

export const shapes = ["summary", "content", "both"] as const;
/** Where the words of a memory are: in its summary, which is cut, in its content, or in both. */
export type Shape = (typeof shapes)[number];

/** What evidence is named by. */
export type Level = "sessions" | "turns";

export const levelsOf: Readonly<Record<UnitName, readonly Level[]>> = {
  session: ["sessions"],
  turn: ["turns", "sessions"],
  transcript: ["turns", "sessions"],
};

/** Distinct ids of what was found, best first, on each level that the unit can name. */
export type Found = { readonly [Name in Level]?: readonly string[] };

/** The bound of a summary. */
const gistChars = 2_000;

/** What a memory says in this shape; `head` is what its summary says besides. */
function shaped(shape: Shape, head: string, text: string, date: string): Pick<Draft, "summary" | "content"> {
  const gist = `${head} ${text}`.trim().slice(0, gistChars) || "-";
  const dated = date === "" ? {} : { date };
  if (shape === "summary") return { summary: gist, content: date === "" ? null : dated };
  return { summary: shape === "both" ? gist : head || "-", content: { ...dated, text } };
}

/** One kept thing by the session and turn that it is. */
interface Kept {
  readonly key: string;
  readonly session: string;
  readonly turn: string;
}

/** Conversations as one profile keeps them, which is then asked. */
export class Keeper {
  readonly #target: Target;
  readonly #unit: UnitName;
  readonly #shape: Shape;
  readonly #kept = new Map<string, Kept>();

  constructor(target: Target, unit: UnitName, shape: Shape) {
    this.#target = target;
    this.#unit = unit;
    this.#shape = shape;
  }

  /** Keeps a conversation; `prefix` tells its ids from those of others in the same profile. */
  async fill(profile: string, prefix: string, { sessions }: Conversation): Promise<void> {
    const keep = (key: string, session: string, turn: string): void => {
      this.#kept.set(`${profile}/${key}`, { key, session: prefix + session, turn: prefix + turn });
    };
    if (this.#unit === "transcript") {
      for (const { id, date, turns } of sessions)
        for (const said of turns) {
          const content = date === "" ? said.text : { date, text: said.text };
          keep(await this.#target.append(profile, prefix + id, said.speaker || "-", content), id, said.id);
        }
      return;
    }
    const drafts = sessions.flatMap(({ id, date, turns }) => {
      const common = { type: "event", session_id: prefix + id } as const;
      if (this.#unit === "session") {
        const head = `Conversation of ${[...new Set(turns.map(({ speaker }) => speaker))].join(" and ")}, ${date}`;
        const text = turns.map(({ speaker, text: said }) => `${speaker}: ${said}`).join("\n");
        return [{ id, turn: "", draft: { ...common, ...shaped(this.#shape, head, text, "") } }];
      }
      return turns.map((said) => ({
        id,
        turn: said.id,
        draft: { ...common, source: said.speaker || "-", ...shaped(this.#shape, "", said.text, date) },
      }));
    });
    const ids = await this.#target.ingest(
      profile,
      drafts.map(({ draft }) => draft),
    );
    drafts.forEach(({ id, turn }, at) => keep(ids[at]!, id, turn));
  }

  async ask(profile: string, query: string, k: number, options: object): Promise<Found> {
    const keys = await this.#target.recall(profile, { query, k, turns: this.#unit === "transcript", ...options });
    const found = keys.map((key) => this.#kept.get(`${profile}/${key}`)!);
    const sessions = [...new Set(found.map(({ session }) => session))];
    return this.#unit === "session" ? { sessions } : { sessions, turns: found.map(({ turn }) => turn) };
  }
}
