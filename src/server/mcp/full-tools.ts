/**
 * The tools beyond memory that `?tools=full` offers: the transcript, answers, states of the branch, erasures, files.
 *
 * Always true: each is exactly one call of the service, whose answer it gives as it is; what throws states away asks to
 * be confirmed. Must not know: the protocol's library.
 */
import { invalid } from "../../base/faults/errors.ts";
import { profileDatabaseName } from "../../format/core/names.ts";
import { text, txid } from "./schemas.ts";
import type { ArgumentSchema, Tool } from "./tool.ts";
import { listAsData, toolRecord } from "./tool-texts.ts";
import { type JsonObject, ofProfile, type Visit } from "./visit.ts";

/** A tool that is one call. */
interface OneCall extends Pick<Tool, "name" | "title" | "description" | "takes" | "required"> {
  readonly method: string;
  readonly effect?: Tool["effect"];
  readonly isIdempotent?: boolean;
  /** The request, of what was given. */
  ask(given: JsonObject, visit: Visit): JsonObject;
  /** What of the answer is of use; all of it where this is absent. */
  pick?(body: JsonObject): JsonObject;
}

const words = (description: string): ArgumentSchema => ({ type: "string", description });
const number = (description: string, maximum = 1_000): ArgumentSchema => ({
  type: "integer",
  minimum: 1,
  maximum,
  description,
});
const confirm: ArgumentSchema = { type: "boolean", description: "That the user wants it." };
const state = "a txid, a checkpoint's name, or a time such as 2026-01-31T12:00:00Z";

/** The database that the visit's profile is, as the data services name it. */
export function databaseOf({ address: { ns, profile, branch } }: Visit): string {
  const name = profileDatabaseName(ns, profile);
  return branch === undefined ? name : `${name}@${branch}`;
}

const branchOf = ({ address }: Visit): string => address.branch ?? "main";

const turns: readonly OneCall[] = [
  {
    name: "add_turns",
    title: "Add turns",
    description: "Append what was said to the transcript of a session.",
    takes: {
      session: words("The session."),
      turns: {
        type: "array",
        items: {
          type: "object",
          properties: { role: { type: "string" }, content: {}, turn_id: { type: "string" } },
          required: ["role", "content"],
        },
        description: "The turns, in order: role, content, and an id that makes a turn repeatable.",
      },
    },
    required: ["session", "turns"],
    method: "DataService.AppendTurns",
    effect: "adds",
    isIdempotent: false,
    ask: (given, visit) => ({ db: databaseOf(visit), ...given }),
  },
  {
    name: "list_turns",
    title: "List turns",
    description: "The last turns of a session, oldest first.",
    takes: { session: words("The session."), last: number("How many.") },
    required: ["session"],
    method: "DataService.ListTurns",
    ask: (given, visit) => ({ db: databaseOf(visit), ...given }),
  },
  {
    name: "search_turns",
    title: "Search turns",
    description: "Find what was said, in all sessions or in one, by its words.",
    takes: { query: words("The words."), session: words("This session only."), k: number("How many at most.", 100) },
    required: ["query"],
    method: "MemoryService.Recall",
    ask: ({ query, session, k }, visit) => ({
      ...ofProfile(visit),
      query,
      search_turns: true,
      ...(session !== undefined && { session_id: session }),
      ...(k !== undefined && { k }),
    }),
    pick: ({ turns: found, txid: read }) => ({ turns: found, txid: read }),
  },
  {
    name: "ask",
    title: "Ask",
    description: "An answer from what is remembered, written by the server's own model, with its sources.",
    takes: { question: words("The question.") },
    required: ["question"],
    method: "MemoryService.Ask",
    ask: (given, visit) => ({ ...ofProfile(visit), ...given }),
  },
];

const states: readonly OneCall[] = [
  {
    name: "checkpoint",
    title: "Checkpoint",
    description: "Name the state of the memory as it is now, to go back to it later.",
    takes: { name: words("The checkpoint's name.") },
    required: ["name"],
    method: "BranchService.CreateCheckpoint",
    effect: "adds",
    isIdempotent: false,
    ask: (given, visit) => ({ db: databaseOf(visit), branch: branchOf(visit), ...given }),
  },
  {
    name: "rewind",
    title: "Rewind",
    description: "Take everything back to an earlier state. What came after it is gone from here. Needs confirm: true.",
    takes: { to: words(`The state: ${state}.`), confirm },
    required: ["to"],
    method: "BranchService.RewindBranch",
    effect: "destroys",
    isIdempotent: false,
    ask({ to, confirm: isWanted }, visit) {
      if (isWanted !== true)
        throw invalid("this gives up all that came after: ask the user, and call with confirm: true");
      return { db: databaseOf(visit), branch: branchOf(visit), to };
    },
  },
  {
    name: "fork",
    title: "Fork",
    description: "A branch of its own, to try something out: the server's address with @NAME behind it.",
    takes: {
      name: words("The new branch."),
      at: words(`Of an earlier state: ${state}.`),
      ttl: number("Seconds until it goes; absent: it stays.", 315_360_000),
    },
    required: ["name"],
    method: "BranchService.CreateBranch",
    effect: "adds",
    isIdempotent: false,
    ask: (given, visit) => ({ db: databaseOf(visit), ...given }),
  },
  {
    name: "diff",
    title: "Diff",
    description: "What differs between two states, or between two branches.",
    takes: {
      from: words(`The earlier state: ${state}.`),
      from_branch: words("Its branch, if it is another one."),
      to: words("The later state; absent: now."),
      cursor: words("next_cursor of the page before."),
    },
    required: [],
    method: "BranchService.DiffStates",
    ask: (given, visit) => ({ db: databaseOf(visit), ...given }),
  },
  {
    name: "erasure_status",
    title: "Erasure status",
    description: "How far an erasure is; a completed one has its receipt.",
    takes: { id: words("The erasure's id.") },
    required: ["id"],
    method: "MemoryService.GetErasure",
    ask: ({ id }, { address: { ns, profile } }) => ({ ns, profile, id }),
  },
];

const files: readonly OneCall[] = [
  {
    name: "list_files",
    title: "List files",
    description: "The files and folders of a folder.",
    takes: {
      folder: words("The folder; absent: the root."),
      recursive: { type: "boolean", description: "At any depth." },
      cursor: words("next_cursor of the page before."),
    },
    required: [],
    method: "FileService.ListFiles",
    ask: (given, visit) => ({ db: databaseOf(visit), ...given }),
  },
  {
    name: "read_file",
    title: "Read file",
    description: "A file's text, all of it or some lines.",
    takes: {
      path: words("The path."),
      first_line: number("From this line on.", 2 ** 31),
      last_line: number("Up to this line.", 2 ** 31),
    },
    required: ["path"],
    method: "FileService.GetFile",
    ask: (given, visit) => ({ db: databaseOf(visit), ...given }),
  },
  {
    name: "write_file",
    title: "Write file",
    description: "Write a file whole. Earlier versions are kept.",
    takes: {
      path: words("The path."),
      text: words("The text."),
      if_match: words("Only if the file has this hash, as it was read."),
    },
    required: ["path", "text"],
    method: "FileService.PutFile",
    effect: "adds",
    isIdempotent: true,
    ask: (given, visit) => ({ db: databaseOf(visit), ...given }),
  },
  {
    name: "edit_file",
    title: "Edit file",
    description: "Replace a text that occurs exactly once in a file.",
    takes: { path: words("The path."), old_text: words("What is there."), new_text: words("What takes its place.") },
    required: ["path", "old_text", "new_text"],
    method: "FileService.EditFile",
    effect: "adds",
    isIdempotent: false,
    ask: ({ path, old_text, new_text }, visit) => ({
      db: databaseOf(visit),
      path,
      edits: [{ old_text, text: new_text }],
    }),
  },
];

/** What is offered beside the tools of memory. */
export const furtherTools: readonly Tool[] = [...turns, ...states, ...files].map(toTool);

function toTool(call: OneCall): Tool {
  const { name, title, description, takes, required, method, effect = "reads", isIdempotent = true } = call;
  return {
    name,
    title,
    description,
    takes,
    required,
    gives: { txid, next_cursor: text("Where the next page begins.") },
    always: [],
    effect,
    isIdempotent,
    async run(given, visit) {
      const { body } = await visit.call(method, call.ask(given, visit));
      const structured = toolRecord(call.pick ? call.pick(body) : body);
      return { structured, text: listAsData(name, [structured]) };
    },
  };
}
