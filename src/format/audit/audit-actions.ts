/**
 * What an audit event can say was done: the actions, which of them are on the stores of a database, and which came
 * late.
 *
 * Always true: an action that was ever written keeps its spelling; a new one is written with the version that knows it.
 */

/** Of the stores of a database. */
const storeActions = [
  "sql.write",
  "kv.put",
  "kv.delete",
  "docs.insert",
  "docs.put",
  "docs.update",
  "docs.delete",
  "docs.index",
  "docs.unindex",
  "vectors.upsert",
  "vectors.delete",
  "turns.append",
  "files.put",
  "files.edit",
  "files.move",
  "files.delete",
  "turns.delete",
  "turns.replace",
] as const;

/** Every action that an event can tell of, as it is spelled at rest and on the wires. */
export const auditActions = [
  "memory.ingest",
  "memory.extract",
  "memory.forget",
  "memory.session_end",
  "memory.recall",
  "memory.list",
  "memory.get",
  "memory.ask",
  "memory.context",
  "memory.update",
  "memory.review",
  "memory.history",
  "ai.extract",
  "ai.ask",
  "ai.embed",
  "token.mint",
  "policy.update",
  "db.delete",
  "erasure.requested",
  "erasure.completed",
  "token.revoke",
  "branch.create",
  "branch.delete",
  "branch.rewind",
  "branch.checkpoint",
  "branch.checkpoint_delete",
  "db.export",
  "db.import",
  "branch.undo",
  "changes.watch",
  "webhook.create",
  "webhook.update",
  "webhook.delete",
  "webhook.test",
  "webhook.redeliver",
  ...storeActions,
  // Events of this stream that the node could not keep; told by the node itself.
  "audit.dropped",
] as const;

/** What was done. */
export type AuditAction = (typeof auditActions)[number];

/** Actions on the stores of a database, which a policy may leave out. */
export const dataActions: ReadonlySet<AuditAction> = new Set(storeActions);

/** Actions that only version 2 knows. */
export const laterActions: ReadonlySet<AuditAction> = new Set([
  ...dataActions,
  "memory.context",
  "memory.update",
  "memory.review",
  "memory.history",
  "token.revoke",
  "branch.create",
  "branch.delete",
  "branch.rewind",
  "branch.checkpoint",
  "branch.checkpoint_delete",
  "db.export",
  "db.import",
  "branch.undo",
  "changes.watch",
  "webhook.create",
  "webhook.update",
  "webhook.delete",
  "webhook.test",
  "webhook.redeliver",
]);
