/** `@palimpsest/client`: what programs import. */
export { Palimpsest, type PublicKey, type Readiness } from "./palimpsest.ts";
export { Profile, type MemoryConditions, type NewMemory } from "./profile.ts";
export { Database, type SqlParameters } from "./database.ts";
export type { ExportedLines } from "./transfer.ts";
export { Namespace } from "./namespace.ts";
export { Documents } from "./documents.ts";
export { KeyValues, type Value } from "./kv.ts";
export { Vectors } from "./vectors.ts";
export { Files } from "./files.ts";
export { Webhooks } from "./webhooks.ts";
export { Turns } from "./turns.ts";
export type { WatchOptions } from "./watch.ts";
export { Erasure, type CompletedOptions } from "./erasure.ts";
export type { CallOptions, ClientOptions, Consistency } from "./transport.ts";
export { operations, errorCodes, type ErrorCode } from "./generated/operations.ts";
export * from "./errors.ts";
export type * from "./generated/types.ts";
