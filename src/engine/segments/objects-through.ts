/**
 * The objects of a restore as the thread that restores gets them: each through a port, when it is asked for.
 *
 * Always true: however many there are, the port has two listeners; when the other side is gone, whoever waits hears of
 * it. Must not know: what the objects hold.
 */
import type { MessagePort } from "node:worker_threads";
import { StoreError } from "../../base/faults/errors.ts";
import type { FetchedObject } from "./segment-maker.ts";
import type { ObjectMessage } from "./threaded-maker.ts";

/** Throws StoreError("unavailable") where an object could not be fetched; the port is closed in the end. */
export async function* objectsThrough(port: MessagePort): AsyncGenerator<FetchedObject> {
  let hear: (message: ObjectMessage) => void = () => {};
  let isOver = false;
  port.on("message", (message: ObjectMessage) => hear(message));
  // The thread that ordered it is gone.
  port.once("close", () => {
    isOver = true;
    hear({ kind: "none" });
  });
  try {
    for (;;) {
      const message = await new Promise<ObjectMessage>((resolve) => {
        if (isOver) return resolve({ kind: "none" });
        hear = resolve;
        port.postMessage("next");
      });
      if (message.kind === "end") return;
      if (message.kind === "none")
        throw new StoreError("unavailable", "the next object of a restore could not be fetched");
      yield message.object;
    }
  } finally {
    port.close();
  }
}
