/** How long ago something was, or how long it still is, in few words that change rarely. */

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/** Whole minutes up to an hour, hours up to a day, then days; rounded down, and never less than nothing. */
export function formatSpan(ms: number): string {
  const span = Math.max(0, ms);
  if (span < hourMs) return `${Math.floor(span / minuteMs)} min`;
  if (span < dayMs) return `${Math.floor(span / hourMs)} h`;
  return `${Math.floor(span / dayMs)} d`;
}
