/** A stream of changes whose reader takes no event for 30 s of the world's time ends, and says where to go on. */
import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { WatchRequestSchema } from "../../../../gen/palimpsest/v1/change_pb.ts";
import { EnginePort } from "../../../../src/engine/api/engine-port.ts";
import type { Answer } from "../../../../src/engine/api/protocol.ts";
import type { ChangesPage } from "../../../../src/model/core/change-log.ts";
import type { Context } from "../../../../src/service/call/context.ts";
import { changeHandlers } from "../../../../src/service/changes/change-service.ts";
import { BranchSignals } from "../../../../src/service/feed/branch-signals.ts";
import { streamsOfDatabaseMax } from "../../../../src/service/feed/stream-places.ts";
import type { NodeParts } from "../../../../src/service/handlers/node-parts.ts";
import { pausedWorld } from "../../../support/paused-world.ts";

/** A branch of three transactions. */
class ThreeTransactions extends EnginePort {
  async run(): Promise<Answer> {
    const entries = [1, 2, 3].map((txid) => ({
      txid,
      afterTxid: txid - 1,
      at: txid,
      changes: [],
      isPartial: false,
      isRewind: false,
    }));
    const value: ChangesPage = { entries, position: 3, more: false };
    return { value, txid: 3, durableTxid: 3 };
  }
}

function open() {
  const { world, pass } = pausedWorld();
  const databases = { require: async (name: string) => ({ uuid: "u", name, createdAtMs: 0 }) };
  const node = { world, engine: new ThreeTransactions(), signals: new BranchSignals(world), databases };
  const handlers = changeHandlers(node as unknown as NodeParts);
  const context = {
    call: { headers: {}, trace: undefined },
    identity: { kind: "anonymous" },
    minTxid: 0,
    recheck: async () => {},
  };
  const watch = () => handlers.watch(create(WatchRequestSchema, { db: "d", after: 0n }), context as unknown as Context);
  return { watch, pass };
}

async function start({ watch }: ReturnType<typeof open>) {
  const events = (await watch())[Symbol.asyncIterator]();
  const next = async () => (await events.next()).value as { readonly kind: string; readonly txid: bigint };
  return { next, end: () => events.return?.() };
}

test("whoever takes an event within 30 s goes on; whoever takes longer is told to come again", async () => {
  const opened = open();
  const { next } = await start(opened);
  expect(await next()).toMatchObject({ kind: "position", txid: 0n });
  expect(await next()).toMatchObject({ kind: "changes", txid: 1n });
  await opened.pass(30_000);
  expect(await next()).toMatchObject({ txid: 2n });
  await opened.pass(30_001);
  await expect(next()).rejects.toMatchObject({
    code: "overloaded",
    message: "the client took no event for 30 s: go on after 2",
    detail: { txid: 2 },
  });
});

test("a stream that has ended so leaves its place", async () => {
  const opened = open();
  const streams = await Promise.all(Array.from({ length: streamsOfDatabaseMax }, () => start(opened)));
  await expect(start(opened)).rejects.toMatchObject({ code: "overloaded" });
  const { next } = streams[0]!;
  await next();
  await next();
  await opened.pass(31_000);
  await expect(next()).rejects.toMatchObject({ code: "overloaded" });
  await start(opened);
});
