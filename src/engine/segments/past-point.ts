/**
 * Which state of a branch is meant by a name, a transaction id or a time, and how it is restored.
 *
 * One resolution for all who ask: forks, rewinds, reads of the past, and the restore of the command line. Always true:
 * a point that is given is a state of the branch that its manifest and history can restore. Must not know: what is done
 * with it.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import type { History } from "../../format/history/history.ts";
import type { SegmentRef } from "../../format/history/refs.ts";
import { findRestorePlan, isRestorable, listTimelines, type Plan, type TimelineView } from "../history/timelines.ts";
import { parseState } from "../../format/core/state-names.ts";
import { fetchObject, provenTail, type PageSource } from "./pool-objects.ts";

/** What is known of a branch's past, and from when on states may be asked for that have no name. */
export interface KnownPast {
  readonly manifest: Manifest;
  readonly history: History;
  /** Begin of the point-in-time window, Unix ms; undefined where everything that is there may be had. */
  readonly cutoffMs: number | undefined;
}

/** How to restore the state that `at` means. Throws not_found. */
export async function findPastPlan(source: PageSource, past: KnownPast, at: string): Promise<Plan> {
  const { manifest, history, cutoffMs } = past;
  const txid = await findTxid(source, past, at);
  const isOpen = cutoffMs === undefined || isRestorable(manifest, history, txid, cutoffMs);
  const plan = isOpen ? findRestorePlan(manifest, history, txid) : undefined;
  if (plan) return plan;
  throw new ServiceError(
    "not_found",
    `transaction ${txid} of this branch cannot be restored: it is outside the point-in-time window, or no ` +
      "state of this branch",
  );
}

async function findTxid(source: PageSource, { manifest, history }: KnownPast, at: string): Promise<number> {
  const named = history.checkpoints.find(({ name }) => name === at);
  if (named) return named.txid;
  const state = parseState(at);
  if (state?.kind === "txid") return state.txid;
  if (state?.kind !== "time") throw new ServiceError("not_found", `checkpoint ${at} does not exist on this branch`);
  // Ids only grow with time, on whatever timeline: the newest timeline that had begun by then has the state.
  for (const timeline of listTimelines(manifest, history)) {
    const txid = await findAtTime(source, timeline, state.atMs);
    if (txid !== undefined) return txid;
  }
  throw new ServiceError("not_found", `${at} is before the first state of this branch that can be restored`);
}

/** The newest of the timeline's own states that was committed by then; undefined when it began later. */
async function findAtTime(source: PageSource, timeline: TimelineView, atMs: number): Promise<number | undefined> {
  const { fromTxid, toTxid, refs, tail } = timeline;
  let found: number | undefined;
  const entries = [...refs.filter(({ lastTxid }) => lastTxid >= fromTxid), ...tail];
  for (const entry of entries.toSorted((left, right) => left.lastTxid - right.lastTxid)) {
    if (entry.lastAtMs <= atMs) {
      found = Math.max(found ?? 0, Math.min(entry.lastTxid, toTxid));
      continue;
    }
    // An image is of one state alone.
    if ("kind" in entry && entry.kind === "image") break;
    // Some of its groups may have been committed by then; of one that was cut, all that count.
    const groups = await readGroups(source, entry);
    const own = groups.filter(({ txid }) => txid >= fromTxid && txid <= Math.min(entry.lastTxid, toTxid));
    for (const { txid, committedAtMs } of own) if (committedAtMs <= atMs) found = Math.max(found ?? 0, txid);
    if (own.some(({ committedAtMs }) => committedAtMs > atMs)) break;
  }
  return found;
}

async function readGroups(
  source: PageSource,
  entry: SegmentRef | TimelineView["tail"][number],
): Promise<readonly { readonly txid: number; readonly committedAtMs: number }[]> {
  const { indexes } = "id" in entry ? await fetchObject(source, entry) : provenTail(source.uuid, entry);
  return indexes.flatMap(({ groups }) => groups);
}
