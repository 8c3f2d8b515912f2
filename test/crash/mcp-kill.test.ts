/**
 * kill -9 of a node while sixteen agents write to one profile by MCP: what a tool has answered is there, nothing is
 * there twice, and the agents go on with the connections that they have.
 */
import { join } from "node:path";
import type { Client } from "@modelcontextprotocol/client";
import { expect, onTestFinished, test } from "vitest";
import { connectMcp, revisions } from "../support/mcp-client.ts";
import { freePort, type NodeProcess, serviceEntry, startNodeProcess } from "../support/node-process.ts";
import { seeded } from "../support/random.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const rounds = process.env["PALIMPSEST_GATE"] ? 12 : 4;
const agents = 16;
/** A client that is not told of the end of its connection gives up after this. */
const answerMsMax = 10_000;

/** An agent, what it wants to remember next, and what was answered. */
interface Agent {
  readonly name: string;
  readonly client: Client;
  /** The ids by their summaries. */
  readonly kept: Map<string, string>;
  next: number;
}

/** Writes one thing after the other until the node dies; what had no answer is written first the next time. */
async function writeUntilKilled(agent: Agent): Promise<void> {
  for (;;) {
    const summary = `${agent.name} saw ship ${agent.next}`;
    const call = { name: "remember", arguments: { type: "event", summary } };
    // Without an answer the node is gone; whether it had stored this one, nobody knows yet.
    const reply = await agent.client.callTool(call, { timeout: answerMsMax }).catch(() => undefined);
    if (reply === undefined) return;
    expect(reply.isError, JSON.stringify(reply.content)).not.toBe(true);
    const { id, status } = reply.structuredContent as { readonly id: string; readonly status: string };
    // It may have been stored before the node died, and is the same memory then.
    expect(["created", "duplicate"]).toContain(status);
    agent.kept.set(summary, id);
    agent.next++;
  }
}

async function readAll(node: NodeProcess): Promise<readonly { readonly id: string; readonly summary: string }[]> {
  const all = [];
  for (let cursor = ""; ;) {
    const { json } = await node.call("GET", `/v1/memory/fleet/one/memories?limit=1000${cursor}`);
    all.push(...json.memories);
    if (json.next_cursor === null) return all;
    cursor = `&cursor=${encodeURIComponent(json.next_cursor)}`;
  }
}

test(`mcp: ${rounds} rounds of kill -9 under ${agents} agents`, { timeout: 300_000 }, async () => {
  const directory = join(temporaryDirectory(), "data");
  const port = await freePort();
  const random = seeded(11);
  const start = () => startNodeProcess(directory, {}, serviceEntry, port);
  let node = await start();
  onTestFinished(() => node.end("SIGKILL"));
  const all: Agent[] = [];
  for (let at = 0; at < agents; at++) {
    const { client } = await connectMcp(`http://127.0.0.1:${port}/mcp/fleet/one`, revisions[at % revisions.length]!);
    all.push({ name: `agent ${at}`, client, kept: new Map(), next: 0 });
  }
  for (let round = 0; round < rounds; round++) {
    const reached = all.map(({ next }) => next);
    const writing = Promise.all(all.map(writeUntilKilled));
    const lifeMs = 100 + random() * 400;
    // However slow the machine is: a round in which nobody was answered would prove nothing.
    do await new Promise((resolve) => setTimeout(resolve, lifeMs));
    while (all.every(({ next }, at) => next === reached[at]));
    await node.end("SIGKILL");
    await writing;
    node = await start();
    const found = await readAll(node);
    const bySummary = new Map(found.map(({ id, summary }) => [summary, id]));
    expect(bySummary.size, "nothing is there twice").toBe(found.length);
    for (const { kept } of all) for (const [summary, id] of kept) expect(bySummary.get(summary), summary).toBe(id);
    // Beside what was answered only what was on its way.
    const answered = all.reduce((sum, { kept }) => sum + kept.size, 0);
    expect(found.length - answered).toBeLessThanOrEqual(agents);
  }
  expect(all.every(({ kept }) => kept.size > 0)).toBe(true);
});
