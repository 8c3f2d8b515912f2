/** The names of the programs whose memories can be imported, without what reads them. */
export const importerNames = [
  "server-memory",
  "mem0",
  "mem0-history",
  "letta",
  "chatgpt",
  "claude",
  "langgraph",
  "texts",
] as const;
export type ImporterName = (typeof importerNames)[number];
