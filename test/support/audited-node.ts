/** A node over a store that tells of everything that dangles, under a clock of the test's own. */
import { TimedEngine, VirtualTime } from "./timed-engine.ts";

export function startAudited(options = {}): { time: VirtualTime; node: TimedEngine } {
  const time = new VirtualTime();
  time.store.audit();
  return { time, node: new TimedEngine(time, options) };
}
