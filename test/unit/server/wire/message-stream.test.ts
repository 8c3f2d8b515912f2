/** Messages of a stream: a client that takes nothing is cut, one that takes them late is not, and leaving ends them. */
import { create, type Message } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { WatchResponseSchema } from "../../../../gen/palimpsest/v1/change_pb.ts";
import { paced } from "../../../../src/server/wire/message-stream.ts";
import { pausedWorld } from "../../../support/paused-world.ts";

async function* endless(): AsyncGenerator<Message> {
  for (let txid = 1n; ; txid++) yield create(WatchResponseSchema, { txid });
}

function open(): {
  readonly stream: AsyncGenerator<Message>;
  readonly pass: (ms: number) => Promise<void>;
  readonly leave: () => void;
  readonly cuts: () => number;
} {
  const { world, pass } = pausedWorld();
  const leaving = new AbortController();
  let cuts = 0;
  const stream = paced(endless(), { world, leaving: leaving.signal, cut: () => cuts++ });
  return { stream, pass, leave: () => leaving.abort(), cuts: () => cuts };
}

test("a client that takes no message for 60 s is cut, once", async () => {
  const { stream, pass, cuts } = open();
  await stream.next();
  await pass(59_999);
  expect(cuts()).toBe(0);
  await pass(1);
  expect(cuts()).toBe(1);
  await pass(600_000);
  expect(cuts()).toBe(1);
  await stream.return(undefined);
});

test("a client that takes each message in time is never cut, and none after its end", async () => {
  const { stream, pass, cuts } = open();
  for (let taken = 0; taken < 5; taken++) {
    await stream.next();
    await pass(59_000);
  }
  await stream.return(undefined);
  await pass(600_000);
  expect(cuts()).toBe(0);
});

test("a node that leaves ends the stream with a word of where to go on", async () => {
  const { stream, leave } = open();
  await stream.next();
  leave();
  await expect(stream.next()).rejects.toMatchObject({ code: "unavailable" });
});
