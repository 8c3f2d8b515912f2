/**
 * Entry of a process that runs a model for the node that has started it: one text at a time, in the order in which they
 * come. It ends when that node is gone.
 */
import type { FromModelProcess, ToModelProcess } from "./local-process.ts";

/** The part of the optional package that is used here; it is no dependency, so its types are said again. */
interface ModelPackage {
  openModel(options: { readonly threads: number }): Promise<Model>;
}

interface Model {
  embed(text: string): Promise<Float32Array>;
}

function answer(message: FromModelProcess): void {
  process.send?.(message);
}

async function open(entry: string, threads: number): Promise<Model | undefined> {
  try {
    const { openModel } = (await import(entry)) as ModelPackage;
    const model = await openModel({ threads });
    answer({ kind: "opened", residentBytes: process.memoryUsage.rss() });
    return model;
  } catch (error) {
    answer({ kind: "unusable", reason: error instanceof Error ? error.message : String(error) });
    return undefined;
  }
}

async function embedEach(model: Model, texts: readonly string[]): Promise<void> {
  const vectors: (Float32Array | undefined)[] = [];
  for (const text of texts) vectors.push(await model.embed(text).catch(() => undefined));
  const { user, system } = process.cpuUsage();
  answer({ kind: "embedded", vectors, residentBytes: process.memoryUsage.rss(), cpuMs: (user + system) / 1_000 });
}

let opened: Promise<Model | undefined> = Promise.resolve(undefined);
let turn: Promise<void> = Promise.resolve();

process.on("message", (message: ToModelProcess) => {
  if (message.kind === "open") opened = open(message.entry, message.threads);
  else
    turn = turn.then(async () => {
      const model = await opened;
      if (model) await embedEach(model, message.texts);
    });
});
// A signal that ends all processes of a node in order is meant for the node, which answers first and ends this one.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
