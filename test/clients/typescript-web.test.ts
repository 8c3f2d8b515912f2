/**
 * The TypeScript client where there is nothing of Node's: in one script, as a bundler makes it for a browser or an edge
 * runtime, with the globals that all of these have (WinterTC's minimum common API) and no others.
 */
import { join } from "node:path";
import { createContext, runInContext } from "node:vm";
import { rolldown } from "rolldown";
import { expect, onTestFinished, test } from "vitest";
import { root } from "../support/documents.ts";
import { startService } from "../support/service.ts";

/** Of the globals of browsers, workers and edge runtimes, those that speak of nets, bytes, streams and time. */
const globals = [
  ...["fetch", "Headers", "Request", "Response", "FormData", "URL", "URLSearchParams"],
  ...["AbortController", "AbortSignal", "DOMException", "Event", "EventTarget", "Blob"],
  ...["ReadableStream", "WritableStream", "TransformStream", "TextDecoderStream", "TextEncoderStream"],
  ...["TextEncoder", "TextDecoder", "Uint8Array", "ArrayBuffer", "atob", "btoa", "crypto", "performance"],
  ...["setTimeout", "clearTimeout", "queueMicrotask", "structuredClone", "console"],
] as const;

test("runs as one script where there are only the globals of the web", async () => {
  const bundle = await rolldown({ input: join(root, "clients/typescript/src/index.ts"), platform: "browser" });
  const { output } = await bundle.generate({ format: "iife", name: "client" });
  const [{ code, imports, dynamicImports }] = output;
  // A client that traces loads the package of OpenTelemetry where there is one.
  expect([output.length, imports, dynamicImports.filter((name) => name !== "@opentelemetry/api")]).toEqual([1, [], []]);

  const service = await startService();
  onTestFinished(() => service.close());
  const known = globalThis as Record<string, unknown>;
  const context = createContext({
    ...Object.fromEntries(globals.map((name) => [name, known[name]])),
    address: service.address,
  });
  const told = await runInContext(
    `${code};
    (async () => {
      const { Palimpsest } = client;
      const db = new Palimpsest({ url: address }).profile("acme", "web");
      await db.remember({ type: "fact", topicKey: "lighthouse", summary: "Ada keeps the lighthouse" });
      const { memories } = await db.recall("who keeps the lighthouse?");
      const changes = [];
      for await (const { txid, changes: named } of db.watch({ after: 0 })) {
        changes.push(txid);
        if (named.length > 0) break;
      }
      const refused = await db.forget("mem_00000000000000000000000000").catch((error) => error);
      const found = memories.map(({ summary }) => summary);
      return { found, changes, refused: refused instanceof Palimpsest.NotFound };
    })()`,
    context,
  );
  expect(told).toEqual({ found: ["Ada keeps the lighthouse"], changes: [0, 1], refused: true });
});
