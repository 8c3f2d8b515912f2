#!/usr/bin/env node
/**
 * `palimpsest-mcp`: a client's standard input and output, and the node's /mcp behind them.
 *
 * Always true: it holds no memory and no database, so that any number of them may run at once, one for each agent; it
 * ends when its input ends. Only messages of the protocol go to standard output, all else to standard error.
 */
import { readLines } from "./lines.js";
import { findNode } from "./local-node.js";
import { helpText, readOptions } from "./options.js";
import { Proxy } from "./proxy.js";

/** How long answers that are on their way are waited for when the input has ended: as long as a node takes at most. */
const lastAnswersMs = 30_000;

const options = readOptions(process.argv.slice(2), process.env);
if (options === "help") {
  process.stdout.write(helpText);
} else if ("problem" in options) {
  process.stderr.write(`palimpsest-mcp: ${options.problem}\n`);
  process.exitCode = 2;
} else {
  const tell = (/** @type {string} */ text) => void process.stderr.write(`palimpsest-mcp: ${text}\n`);
  // A client that has gone reads nothing more.
  process.stdout.on("error", () => process.exit(0));
  const proxy = new Proxy({
    ...options,
    ready: findNode(options, tell),
    send: (message) => void process.stdout.write(`${JSON.stringify(message)}\n`),
  });
  await readLines(process.stdin, {
    take: (line) => proxy.take(line),
    tooLong: (bytes) => proxy.refuseLine(`a message may have ${bytes} bytes`),
  });
  await Promise.race([proxy.settled(), new Promise((resolve) => setTimeout(resolve, lastAnswersMs).unref())]);
  process.exit(0);
}
