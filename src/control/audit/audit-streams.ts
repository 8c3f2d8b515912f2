/**
 * What object storage holds of the audit streams: pages of events, the ends of chains, and the days that are too old.
 *
 * Always true: an object is written once, by one node, after all that this node has in the same stream; so a reader
 * that goes on from a cursor misses nothing that the node stores meanwhile. Between nodes the order is that of each
 * object's first event: what another node stores late may lie before a cursor, and a new reading finds it.
 * Must not know: policies, and who may read.
 */
import { invalid, StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import { auditTimeMs, type AuditEvent, type AuditOutcome } from "../../format/audit/audit-event.ts";
import { splitAuditLines, auditLinkTo, decodeAuditObject, firstLink } from "../../format/audit/audit-object.ts";
import { auditKeyAt, auditPrefix, auditStreamPrefix, formatDay, parseAuditKey } from "../../format/audit/audit-keys.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";

/** Objects that one page reads at most: with a narrow filter it ends early, and the next one goes on. */
export const auditObjectsReadMax = 1_000;
/** Keys that are listed to find a node's newest event in a stream; beyond them its chain begins anew. */
const auditChainKeysMax = 100_000;

/** Which events are wanted. */
export interface AuditQuery {
  /** At or after; what a cursor has passed is never given again. */
  readonly fromMs: number;
  /** Before; undefined when the window is open. */
  readonly toMs?: number | undefined;
  /** An action, or the beginning of some, ending in a dot. */
  readonly action?: string | undefined;
  readonly profile?: string | undefined;
  readonly outcome?: AuditOutcome | undefined;
  readonly limit: number;
  /** `nextCursor` of the page before. */
  readonly cursor?: string | undefined;
}

/** Some events of a stream, oldest first. */
export interface AuditPage {
  readonly events: readonly AuditEvent[];
  /** Where the next page begins; undefined on the last one. A page with one may be empty. */
  readonly nextCursor: string | undefined;
  /** Whether every event of the window that has been stored is on this page. */
  readonly complete: boolean;
}

/** An event of an object. */
interface Position {
  readonly key: string;
  readonly index: number;
}

const cursorPattern = /^(\S{1,200}) (0|[1-9]\d{0,5})$/;
const minuteMs = 60_000;
const dayMs = 86_400_000;
/** A node's newest event is looked for in the last hour first, then further and further back. */
const lookBackMs = [60 * minuteMs, dayMs, 32 * dayMs, Infinity];

function encodeCursor(namespace: string, { key, index }: Position): string {
  return Buffer.from(`${key.slice(auditStreamPrefix(namespace).length)} ${index}`).toString("base64url");
}

function decodeCursor(namespace: string, cursor: string): Position {
  const [, name, digits] = cursorPattern.exec(Buffer.from(cursor, "base64url").toString()) ?? [];
  const position = { key: `${auditStreamPrefix(namespace)}${name}`, index: Number(digits) };
  if (name === undefined || parseAuditKey(position.key) === undefined || encodeCursor(namespace, position) !== cursor) {
    throw invalid("cursor must be the next_cursor of an earlier page");
  }
  return position;
}

function isMatch(event: AuditEvent, { fromMs, toMs, action, profile, outcome }: AuditQuery): boolean {
  const atMs = auditTimeMs(event);
  if (atMs < fromMs || atMs >= (toMs ?? Infinity)) return false;
  if (profile !== undefined && event.profile !== profile) return false;
  if (outcome !== undefined && event.outcome !== outcome) return false;
  return action === undefined || (action.endsWith(".") ? event.action.startsWith(action) : event.action === action);
}

export class AuditStreams {
  readonly #store: ObjectStore;
  readonly #log: Log;

  constructor(store: ObjectStore, log: Log) {
    this.#store = store;
    this.#log = log;
  }

  /** A page of the stream. Refuses a cursor that is none. */
  async read(namespace: string, query: AuditQuery): Promise<AuditPage> {
    const start = query.cursor === undefined ? undefined : decodeCursor(namespace, query.cursor);
    const after = start
      ? start.key.slice(0, -1)
      : auditKeyAt(namespace, Math.max(0, query.fromMs - limits.auditObjectSpanMs));
    const end = query.toMs === undefined ? undefined : auditKeyAt(namespace, query.toMs);
    const events: AuditEvent[] = [];
    const pageUntil = (position: Position): AuditPage => ({
      events,
      nextCursor: encodeCursor(namespace, position),
      complete: false,
    });
    let complete = true;
    let objectsRead = 0;
    for await (const keys of this.#keys(auditStreamPrefix(namespace), after, end)) {
      if (objectsRead >= auditObjectsReadMax) return pageUntil({ key: keys[0]!, index: 0 });
      objectsRead += keys.length;
      for (const [key, found] of await this.#objects(keys)) {
        if (found === "unreadable") complete = false;
        const list = found === "unreadable" ? [] : found;
        for (let index = key === start?.key ? start.index : 0; index < list.length; index++) {
          if (!isMatch(list[index]!, query)) continue;
          if (events.length === query.limit) return pageUntil({ key, index });
          events.push(list[index]!);
        }
      }
    }
    return { events, nextCursor: undefined, complete };
  }

  /** Whether anything was ever stored in the stream and is still there. */
  async hasBegun(namespace: string): Promise<boolean> {
    return (await this.#store.list(auditStreamPrefix(namespace), { limit: 1 })).objects.length > 0;
  }

  /** What the next event of the node in the stream has as `prev`. */
  async linkAfter(namespace: string, node: string, nowMs: number): Promise<string> {
    let listed = 0;
    let end: string | undefined;
    for (const ageMs of lookBackMs) {
      const after = auditKeyAt(namespace, Math.max(0, nowMs - ageMs));
      let newest: string | undefined;
      for await (const keys of this.#keys(auditStreamPrefix(namespace), after, end)) {
        newest = keys.findLast((key) => parseAuditKey(key)?.node === node) ?? newest;
        listed += keys.length;
        if (listed <= auditChainKeysMax) continue;
        this.#log.warn("the audit chain of this node begins anew: its last event lies too far back", { namespace });
        return firstLink;
      }
      if (newest !== undefined) return this.#linkAtEnd(newest);
      end = after;
    }
    return firstLink;
  }

  /** Every namespace that has a stream. */
  async *namespaces(): AsyncGenerator<string> {
    let after: string | undefined;
    for (;;) {
      const [object] = (await this.#store.list(auditPrefix, { after, limit: 1 })).objects;
      if (object === undefined) return;
      const namespace = parseAuditKey(object.key)?.namespace;
      if (namespace !== undefined) yield namespace;
      // "0" is what follows "/": past everything of this namespace and before the next.
      after = namespace === undefined ? object.key : `${auditPrefix}${namespace}0`;
    }
  }

  /**
   * Removes whole days that ended before `cutoffMs`, the oldest first; at most `most` objects. Gives how many it was.
   */
  async removeBefore(namespace: string, cutoffMs: number, most: number): Promise<number> {
    let removed = 0;
    const end = `${auditStreamPrefix(namespace)}${formatDay(cutoffMs)}/`;
    for await (const keys of this.#keys(auditStreamPrefix(namespace), undefined, end)) {
      const doomed = keys.slice(0, most - removed);
      await Promise.all(doomed.map((key) => this.#store.delete(key)));
      removed += doomed.length;
      if (removed === most) return removed;
    }
    return removed;
  }

  async #linkAtEnd(key: string): Promise<string> {
    const stored = await this.#store.get(key);
    if (stored === undefined)
      throw new StoreError("unavailable", "the newest audit object went away while it was read");
    try {
      return auditLinkTo(splitAuditLines(stored.bytes).at(-1)!);
    } catch (error) {
      this.#log.error("the audit chain of this node begins anew: its last object cannot be read", error, { key });
      return firstLink;
    }
  }

  /** Keys of audit objects after one and before another, in order, in lists of as many as are asked for at once. */
  async *#keys(prefix: string, after: string | undefined, end: string | undefined): AsyncGenerator<readonly string[]> {
    for (let from = after; ;) {
      const page = await this.#store.list(prefix, { after: from, limit: limits.storeListMax });
      const keys = page.objects.map(({ key }) => key).filter((key) => end === undefined || key < end);
      const ours = keys.filter((key) => parseAuditKey(key) !== undefined);
      for (let at = 0; at < ours.length; at += limits.auditRequestsAtOnceMax)
        yield ours.slice(at, at + limits.auditRequestsAtOnceMax);
      if (page.next === undefined || keys.length < page.objects.length) return;
      from = page.next;
    }
  }

  /**
   * The events of some objects. One that was removed meanwhile has none; one that cannot be understood is reported and
   * passed over.
   */
  async #objects(
    keys: readonly string[],
  ): Promise<readonly (readonly [string, readonly AuditEvent[] | "unreadable"])[]> {
    return Promise.all(
      keys.map(async (key) => {
        const stored = await this.#store.get(key);
        if (stored === undefined) return [key, []] as const;
        try {
          return [key, decodeAuditObject(stored.bytes)] as const;
        } catch (error) {
          this.#log.error("an audit object cannot be read", error, { key });
          return [key, "unreadable"] as const;
        }
      }),
    );
  }
}
