/**
 * What is said of the small records in JSON: name claims, copies, audit objects, what a backup and a store say of
 * themselves.
 *
 * Always true: it is told by the formats' own decoders, which throw where a record breaks a rule; of an audit object,
 * which lines do. Must not know: where the bytes came from.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { decodeUtf8 } from "../../base/bytes.ts";
import { auditTimeMs, decodeAuditEvent, type AuditEvent } from "../../format/audit/audit-event.ts";
import { splitAuditLines, brokenLinks } from "../../format/audit/audit-object.ts";
import { isObject } from "../../format/core/json-shape.ts";
import { formats, isUnreadable, requireVersion } from "../../format/core/versions.ts";
import { decodeBackupManifest } from "../../format/records/backup-manifest.ts";
import { decodeCopyRecord } from "../../format/records/copy-record.ts";
import { decodeNameClaim } from "../../format/records/name-claim.ts";
import { plain, buildTable, time, type Account, size } from "./account.ts";

/** Throws StoreError("corrupt") and NewerFormat, as the others here. */
export function buildNameClaimAccount(bytes: Uint8Array): Account {
  const { uuid, createdAtMs, deletedAtMs, freedAtMs, deletion } = decodeNameClaim(bytes);
  return {
    fields: {
      database: plain(uuid),
      is_deleted: plain(deletedAtMs !== undefined),
      created_at: time(createdAtMs),
      deleted_at: time(deletedAtMs),
      freed_at: time(freedAtMs),
      deletion: plain(deletion),
    },
    tables: {},
    damage: [],
  };
}

export function buildCopyAccount(bytes: Uint8Array): Account {
  const { uuid, node, copy, name, createdAtMs, purged, forgottenAtMs } = decodeCopyRecord(bytes);
  return {
    fields: {
      database: plain(uuid),
      node_id: plain(node),
      node: plain(name),
      copy: plain(copy),
      created_at: time(createdAtMs),
      purged_at: time(purged?.atMs),
      files_removed: plain(purged?.filesRemoved),
      forgotten_at: time(forgottenAtMs),
    },
    tables: {},
    damage: [],
  };
}

export function buildBackupAccount(bytes: Uint8Array): Account {
  const { id, state, from, scope, startedAtMs, signingKey, done } = decodeBackupManifest(bytes);
  return {
    fields: {
      id: plain(id),
      state: plain(state),
      from: plain(from),
      started_at: time(startedAtMs),
      completed_at: time(done?.completedAtMs),
      verified: plain(done?.verified),
      signing_key: plain(signingKey),
      databases: plain(done?.databases),
      branches: plain(done?.branches),
      objects: plain(done?.objects),
      object_bytes: size(done?.bytes),
      is_of_all: plain(scope === undefined),
    },
    tables: { scope: buildTable(scope ?? [], { database: (name) => plain(name) }) },
    damage: [],
  };
}

/** What a store or a data directory says of its layout. */
export function buildLayoutAccount(bytes: Uint8Array): Account {
  const value = parseJsonObject(bytes, "what a store says of its layout");
  const { layout, written_by: writtenBy } = value;
  requireVersion(formats.store, layout);
  return {
    fields: { layout: plain(layout), written_by: plain(typeof writtenBy === "string" ? writtenBy : undefined) },
    tables: {},
    damage: [],
  };
}

export function buildAuditAccount(bytes: Uint8Array): Account {
  const events: { readonly line: number; readonly event: AuditEvent }[] = [];
  const damage: string[] = [];
  for (const [at, text] of splitAuditLines(bytes).entries()) {
    try {
      events.push({ line: at + 1, event: decodeAuditEvent(text) });
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      damage.push(`line ${at + 1}: ${error.message}`);
    }
  }
  const links = damage.length > 0 ? [] : brokenLinks(events.map(({ event }) => event));
  const first = events[0]?.event;
  return {
    fields: { namespace: plain(first?.namespace), node_id: plain(first?.node) },
    tables: {
      events: buildTable(events, {
        line: ({ line }) => plain(line),
        at: ({ event }) => time(auditTimeMs(event)),
        action: ({ event }) => plain(event.action),
        outcome: ({ event }) => plain(event.outcome),
        error: ({ event }) => plain(event.errorCode),
        profile: ({ event }) => plain(event.profile),
        branch: ({ event }) => plain(event.branch),
        txid: ({ event }) => plain(event.txid),
        count: ({ event }) => plain(event.count),
        actor: ({ event }) => plain(event.actor?.kind),
        resource: ({ event }) => plain(event.resource),
        id: ({ event }) => plain(event.id),
      }),
    },
    damage: [...damage, ...links.map(({ id }) => `something was removed, changed or put in before the event ${id}`)],
  };
}

/** The JSON object that the bytes are. The parser's own message would quote them. */
export function parseJsonObject(bytes: Uint8Array, what: string): Readonly<Record<string, unknown>> {
  const value = parseJson(bytes);
  if (isObject(value)) return value;
  throw new StoreError("corrupt", `${what} is no JSON object`);
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(decodeUtf8(bytes) ?? "");
  } catch {
    // No JSON is no object either.
    return undefined;
  }
}
