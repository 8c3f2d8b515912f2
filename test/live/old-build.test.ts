/**
 * Two builds on one data directory and one store, in turns: this one, and the released one before it. What
 * docs/formats.md promises of upgrades that are taken back.
 */
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { inGate } from "../support/gate.ts";
import { goldenAnswers, unpackGoldenStore } from "../support/make-golden-store.ts";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { buildEntry, hasReleasedBuild, releasedCommit } from "../support/released-build.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const text = { "content-type": "text/plain" };
const durable = { "service-durability": "durable" };
const variables = { SERVICE_CONTROL_RATE: "1000", SERVICE_GC_GRACE_SECS: "1", SERVICE_NODE_ID: "golden" };

async function ask(
  node: NodeProcess,
  method: string,
  path: string,
  body?: unknown,
  headers?: Record<string, string>,
): Promise<any> {
  const { status, json, text: plain } = await node.call(method, path, body, headers);
  expect(status, `${method} ${path}: ${plain}`).toBeLessThan(300);
  return json ?? plain;
}

/** What either build does in its turn: writes of every durability, a checkpoint, a fork, a memory. */
async function takeTurn(node: NodeProcess, turn: number): Promise<void> {
  const plain = "/v1/db/plain";
  await ask(node, "PUT", `${plain}/kv/turns/durable${turn}`, String(turn), { ...text, ...durable });
  await ask(node, "POST", `${plain}/branches/main/checkpoint`, { name: `turn${turn}` });
  await ask(node, "POST", `${plain}/branches`, { name: `fork${turn}` });
  await ask(node, "PUT", `${plain}@fork${turn}/kv/turns/fork${turn}`, String(turn), { ...text, ...durable });
  await ask(node, "POST", "/v1/memory/acme/alice/memories", {
    memories: [{ type: "fact", topic_key: "turn", summary: `Turn ${turn} was taken`, content: { turn } }],
  });
  // On this disk only, when the node is killed right after.
  await ask(node, "PUT", `${plain}/kv/turns/standard${turn}`, String(turn), text);
}

describe.skipIf(!inGate && !hasReleasedBuild())("the released build and this one, in turns", () => {
  test.each(["SIGTERM", "SIGKILL"] as const)(
    "each goes on where the other ended (%s)",
    { timeout: 240_000 },
    async (signal) => {
      expect(hasReleasedBuild(), "the history of this clone reaches back to the released build").toBe(true);
      const directory = join(temporaryDirectory(), "data");
      unpackGoldenStore(directory);
      const released = buildEntry(join(temporaryDirectory(), "released"), releasedCommit);
      const answers = goldenAnswers().filter(
        ({ path }) => !path.includes("/plain") && path !== "/v1/databases" && !path.includes("/memories"),
      );
      for (let turn = 1; turn <= 4; turn++) {
        const node = await startNodeProcess(directory, variables, turn % 2 === 1 ? undefined : released);
        for (const { path, body, answer } of answers)
          expect(
            await ask(node, body === undefined ? "GET" : "POST", path, body),
            `turn ${turn}: ${path}`,
          ).toMatchObject(withoutTxid(answer));
        const keys = await ask(node, "GET", "/v1/db/plain/kv/turns");
        const before = Array.from({ length: turn - 1 }, (_, index) => index + 1);
        expect(keys.keys).toEqual([...before.map((one) => `durable${one}`), ...before.map((one) => `standard${one}`)]);
        for (const one of before)
          expect(await ask(node, "GET", `/v1/db/plain@fork${one}/kv/turns`)).toMatchObject({
            keys: expect.arrayContaining([`fork${one}`]),
          });
        const { memories } = await ask(node, "POST", "/v1/memory/acme/alice/recall", {
          topic_key: "turn",
          include_superseded: true,
        });
        expect((memories as unknown[]).length).toBe(turn - 1);
        await takeTurn(node, turn);
        await node.end(signal);
      }
    },
  );
});

/** The state goes on: whose number it is, each turn raises. */
function withoutTxid(answer: unknown): object {
  if (typeof answer !== "object" || answer === null) return answer as object;
  const {
    txid: _txid,
    branches,
    ...rest
  } = answer as { readonly txid?: number; readonly branches?: readonly { readonly name: string }[] };
  return branches
    ? {
        ...rest,
        branches: expect.arrayContaining(
          branches.map(({ name }) => expect.objectContaining({ name }) as unknown),
        ) as unknown,
      }
    : rest;
}
