/**
 * What asking for credentials costs: key-value calls with authentication off and on, in turn, on two nodes of one
 * build.
 */
import { join } from "node:path";
import { bearer, guardedVariables, platformKey } from "../support/credentials.ts";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { load, median, type LoadResult, type Request } from "./raw-client.ts";
import { report, type Row } from "./report.ts";

const clients = 16;
const warmMs = 3_000;
const roundMs = 2_000;
const rounds = 7;

interface Bearer {
  readonly node: NodeProcess;
  readonly token: string | undefined;
}

type NextOf = (token: string | undefined) => (client: number, step: number) => Request;

/** Both nodes in turn, each first in every other round; the round with the median ratio speaks. */
async function inTurn(
  open: Bearer,
  guarded: Bearer,
  nextOf: NextOf,
): Promise<{ off: LoadResult; on: LoadResult; ratio: number }> {
  const run = ({ node, token }: Bearer, durationMs: number): Promise<LoadResult> =>
    load(node.port, clients, durationMs, nextOf(token));
  for (const bearerOf of [open, guarded]) await run(bearerOf, warmMs);
  const pairs: { off: LoadResult; on: LoadResult; ratio: number }[] = [];
  for (let round = 0; round < rounds; round++) {
    const first = round % 2 === 0 ? open : guarded;
    const one = await run(first, roundMs);
    const two = await run(first === open ? guarded : open, roundMs);
    const [off, on] = first === open ? [one, two] : [two, one];
    pairs.push({ off, on, ratio: on.perSecond / off.perSecond });
  }
  const middle = median(pairs.map(({ ratio }) => ratio));
  return pairs.find(({ ratio }) => ratio === middle)!;
}

export async function benchAuth(directory: string): Promise<void> {
  const open: Bearer = { node: await startNodeProcess(join(directory, "open")), token: undefined };
  const node = await startNodeProcess(join(directory, "guarded"), guardedVariables);
  await open.node.call("POST", "/v1/databases", { name: "kv" });
  await node.call("POST", "/v1/databases", { name: "kv" }, bearer(platformKey));
  const { json } = await node.call("POST", "/v1/databases/kv/tokens", { scope: "write" }, bearer(platformKey));
  const guarded: Bearer = { node, token: (json as { token: string }).token };
  for (const { node: each, token } of [open, guarded])
    await each.call("PUT", "/v1/db/kv/kv/n/k", "value", { "content-type": "text/plain", ...bearer(token) });

  const rows: Row[] = [];
  const calls: readonly (readonly [string, NextOf])[] = [
    ["kv get", (token) => () => ["GET", "/v1/db/kv/kv/n/k", undefined, undefined, token]],
    [
      "kv put",
      (token) => (client, step) => ["PUT", `/v1/db/kv/kv/n/${client}-${step % 1000}`, "value", "text/plain", token],
    ],
  ];
  for (const [what, nextOf] of calls) {
    const { off, on, ratio } = await inTurn(open, guarded, nextOf);
    rows.push(
      { what: `${what}, authentication off`, ...off },
      { what: `${what}, with a verified token`, ...on, note: `${ratio.toFixed(2)} times off` },
    );
  }
  for (const each of [open, guarded]) await each.node.end("SIGTERM");
  report(`Authentication (${clients} raw clients, median of ${rounds} paired rounds in turn)`, rows);
}
