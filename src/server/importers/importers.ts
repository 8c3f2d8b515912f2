/**
 * The programs whose memories can be imported, and what of theirs becomes which record.
 *
 * Always true: an importer reads its input and nothing else; what it does not understand it counts. Must not know: how
 * the records get to a node.
 */
import type { ForeignRecords } from "./foreign-records.ts";
import type { ImporterName } from "./importer-names.ts";
import { importChatGpt, importClaude } from "./chats.ts";
import { importLangGraph, importMem0History } from "./sqlite-stores.ts";
import { importLetta } from "./letta.ts";
import { importMem0 } from "./mem0.ts";
import { importServerMemory } from "./server-memory.ts";
import { importTexts } from "./text-tree.ts";

/** What an importer reads: a file of text, a SQLite file, or a file or folder. */
export type Importer =
  | { readonly reads: "text"; readonly run: (text: string, records: ForeignRecords) => void }
  | { readonly reads: "path"; readonly run: (path: string, records: ForeignRecords) => void };

/** By the name that the command line takes. */
export const importers: Readonly<Record<ImporterName, Importer>> = {
  "server-memory": { reads: "text", run: importServerMemory },
  mem0: { reads: "text", run: importMem0 },
  "mem0-history": { reads: "path", run: importMem0History },
  letta: { reads: "text", run: importLetta },
  chatgpt: { reads: "text", run: importChatGpt },
  claude: { reads: "text", run: importClaude },
  langgraph: { reads: "path", run: importLangGraph },
  texts: { reads: "path", run: importTexts },
};
