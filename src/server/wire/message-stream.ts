/**
 * The messages of a stream on their way to a client, on every wire.
 *
 * Always true: no message is asked for before the one before it was taken, so that what waits is one message; the
 * stream ends when the node leaves, and the connection of a client that takes nothing is cut in the end. Must not know:
 * what the messages mean.
 */
import type { Message } from "@bufbuild/protobuf";
import { ServiceError } from "../../base/faults/errors.ts";
import type { World } from "../../base/world.ts";

/** A client that takes no message for so long is cut: longer than what makes the stream tell it why it ends. */
const cutAfterMs = 60_000;

export interface StreamEnd {
  readonly world: Pick<World, "after">;
  /** Aborted when the node leaves. */
  readonly leaving: AbortSignal;
  /** Cuts the connection. */
  readonly cut: () => void;
}

/** The messages, one at a time. Throws what ended them, `unavailable` when the node leaves. */
export async function* paced(
  messages: AsyncIterable<Message>,
  { world, leaving, cut }: StreamEnd,
): AsyncGenerator<Message> {
  const iterator = messages[Symbol.asyncIterator]();
  let left: (() => void) | undefined;
  const gone = new Promise<"left">((resolve) => {
    left = () => resolve("left");
    leaving.addEventListener("abort", left);
    if (leaving.aborted) left();
  });
  try {
    for (;;) {
      const next = await Promise.race([iterator.next(), gone]);
      if (next === "left")
        throw new ServiceError("unavailable", "the node leaves: go on, at another one, behind the last event");
      if (next.done === true) return;
      const cancel = world.after(cutAfterMs, cut);
      try {
        yield next.value;
      } finally {
        cancel();
      }
    }
  } finally {
    leaving.removeEventListener("abort", left!);
    // It may be waiting for something that never comes; what it throws then is nobody's.
    iterator.return?.().catch(() => {});
  }
}
