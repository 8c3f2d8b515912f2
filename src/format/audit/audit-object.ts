/**
 * The object that holds the audit events of one flush of a node, and the chain that its lines are.
 *
 * An object is lines of UTF-8, each ended by a line feed, each one event (format/audit/audit-event). Each event holds
 * the hash of the line of the event before, of the same node in the same stream.
 *
 * Always true: where an event was removed, changed or put in, a link is broken; only for a node's last event this
 * cannot be told.
 */
import { hash } from "node:crypto";
import { encodeUtf8, decodeUtf8 } from "../../base/bytes.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { decodeAuditEvent, encodeAuditEvent, type AuditEvent } from "./audit-event.ts";

/** What takes the place of a hash in the first event of a node in a stream. */
export const firstLink = "0".repeat(64);

/** What the next event of the same node in the same stream has as `prev`. */
export function auditLinkTo(line: string): string {
  return hash("sha256", line, "hex");
}

/** The object of these lines. */
export function encodeAuditObject(lines: readonly string[]): Uint8Array {
  return encodeUtf8(lines.map((line) => `${line}\n`).join(""));
}

/** The lines of an object. Throws StoreError("corrupt") when they have no end. */
export function splitAuditLines(bytes: Uint8Array): readonly string[] {
  const lines = decodeUtf8(bytes)?.split("\n") ?? [];
  if (lines.pop() !== "" || lines.length === 0)
    throw new StoreError("corrupt", "an audit object does not end with a line");
  return lines;
}

/**
 * The events of an object. Throws StoreError("corrupt") for anything that is not a list of events of a version we know.
 */
export function decodeAuditObject(bytes: Uint8Array): readonly AuditEvent[] {
  return splitAuditLines(bytes).map(decodeAuditEvent);
}

/** A place where an event was removed, changed or put in. */
export interface BrokenLink {
  readonly node: string;
  /** The id of the event whose `prev` is not the hash of the one before it. */
  readonly id: string;
}

/**
 * The breaks in the chain of a stream's events, node by node. `events` are all events of one namespace from some time
 * on, oldest first; what came before that time cannot be told, and nothing proves the last event of a node until the
 * next one.
 */
export function brokenLinks(events: readonly AuditEvent[]): readonly BrokenLink[] {
  const links = new Map<string, string>();
  const broken: BrokenLink[] = [];
  for (const event of events) {
    const link = links.get(event.node);
    if (link !== undefined && event.prev !== link) broken.push({ node: event.node, id: event.id });
    links.set(event.node, auditLinkTo(encodeAuditEvent(event)));
  }
  return broken;
}
