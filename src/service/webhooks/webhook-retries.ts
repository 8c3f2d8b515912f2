/**
 * When what a receiver did not take is posted again, and how long what was given up is listed.
 *
 * Always true: later and later, at a random time within a fifth, so that those that failed together part; never sooner
 * than the receiver asked for, as far as that is bearable; and in the end not any more. Must not know: what failed.
 */
import type { World } from "../../base/world.ts";
import { webhookFailuresMax, type WebhookFailure } from "../../format/records/webhook.ts";

/** A receiver may ask to be left alone for so long: the longest pause of the usual schedule. */
const retryAfterMsMax = 7_200_000;
const spread = 0.2;
/** What was given up stays in the list for so long. */
const failureKeptMs = 7 * 86_400_000;

/** How long to wait after so many tries, at least one; undefined when there were enough. */
export function computeRetryMs(
  schedule: readonly number[],
  tries: number,
  askedMs: number | undefined,
  world: Pick<World, "randomBytes">,
): number | undefined {
  const secs = schedule[tries - 1];
  if (secs === undefined) return undefined;
  const [chance = 0] = world.randomBytes(1);
  const ownMs = Math.round(secs * 1_000 * (1 - spread + (2 * spread * chance) / 255));
  return Math.max(ownMs, Math.min(askedMs ?? 0, retryAfterMsMax));
}

/** Those of the list that are kept: of the last days, and of these the newest. */
export function listKept(failures: readonly WebhookFailure[], nowMs: number): readonly WebhookFailure[] {
  return failures.filter(({ atMs }) => atMs >= nowMs - failureKeptMs).slice(-webhookFailuresMax);
}
