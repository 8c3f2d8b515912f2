/** Calls from node to node over real sockets: values, order, and what many or large ones do to each other. */
import { setTimeout as pause } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { describe, expect, onTestFinished, test } from "vitest";
import { type ExchangeRequest, ExchangeResponseSchema } from "../../../../gen/palimpsest/node/v1/node_pb.ts";
import { ServiceError } from "../../../../src/base/faults/errors.ts";
import { TurnedAway } from "../../../../src/engine/api/engine-port.ts";
import type { Answer } from "../../../../src/engine/api/protocol.ts";
import { encodeAnswer } from "../../../../src/server/node-wire/node-messages.ts";
import { openInlineEngine } from "../../../support/inline-engine.ts";
import {
  answered,
  buildCall,
  codec,
  openLinks,
  openPeer,
  openScripted,
  readCall,
  sayTo,
  welcome,
} from "../../../support/peer-node.ts";
import { seeded } from "../../../support/random.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

describe("calls", () => {
  test("reads and writes of a real engine: values, states and refusals as they would be here", async () => {
    const { client, world } = openInlineEngine(temporaryDirectory());
    onTestFinished(async () => void (await client.close()));
    const peer = await openPeer(({ target, call, budgetMs, ...options }) =>
      client.run(target, call, { ...options, deadlineMs: world.monotonicMs() + budgetMs }),
    );
    const { links } = openLinks();
    const value = new Uint8Array([0, 255, 7]);
    const put = await links.forward(
      peer.address,
      buildCall({ call: { kind: "write", command: "kv.put", input: { ns: "n", key: "k", value } }, durable: true }),
    );
    expect(put.txid).toBeGreaterThan(0);
    expect(put.durableTxid).toBeGreaterThanOrEqual(put.txid);
    const got = await links.forward(peer.address, buildCall({ call: readCall }));
    expect(got).toMatchObject({ txid: put.txid, value: { value } });
    const conflict = links.forward(
      peer.address,
      buildCall({ call: { kind: "branch", act: { act: "rewind", to: "999" } } }),
    );
    const here = client.run(
      buildCall().target,
      { kind: "branch", act: { act: "rewind", to: "999" } },
      { deadlineMs: world.monotonicMs() + 9_000 },
    );
    const [there, local] = (await Promise.allSettled([conflict, here])).map(
      (settled) => (settled as PromiseRejectedResult).reason as ServiceError,
    );
    expect([there!.code, there!.message, there!.detail]).toEqual([local!.code, local!.message, local!.detail]);
  });

  test("a slow call does not hold back others, and each gets its own answer", async () => {
    const slow = Promise.withResolvers<Answer>();
    const peer = await openPeer(({ minTxid }) => (minTxid === 0 ? slow.promise : answered(minTxid)));
    const { links } = openLinks();
    const first = links.forward(peer.address, buildCall());
    const others = await Promise.all(
      Array.from({ length: 100 }, (_, at) => links.forward(peer.address, buildCall({ minTxid: at + 1 }))),
    );
    expect(others.map(({ value }) => value)).toEqual(Array.from({ length: 100 }, (_, at) => at + 1));
    slow.resolve(answered("slow"));
    expect((await first).value).toBe("slow");
  });

  test("calls of one turn share a message, and so do their answers", async () => {
    const messages: ExchangeRequest[] = [];
    const address = await openScripted(async function* (requests) {
      for await (const message of requests) {
        messages.push(message);
        yield message.protocol
          ? welcome()
          : create(ExchangeResponseSchema, {
              answers: message.calls.map(({ id }) => encodeAnswer(id, answered(id), codec)),
            });
      }
    });
    const { links } = openLinks();
    await links.forward(address, buildCall());
    messages.length = 0;
    await Promise.all(Array.from({ length: 50 }, () => links.forward(address, buildCall())));
    expect(messages.map(({ calls }) => calls.length)).toEqual([50]);
  });

  test("answers of one turn share a message", async () => {
    const peer = await openPeer(() => answered("x"));
    const sizes: number[] = [];
    const { links } = openLinks();
    const proxy = await openScripted(async function* (requests) {
      for await (const message of sayTo(peer.address, requests)) {
        if (message.answers.length > 0) sizes.push(message.answers.length);
        yield message;
      }
    });
    await Promise.all(Array.from({ length: 50 }, () => links.forward(proxy, buildCall())));
    expect(sizes).toEqual([50]);
  });

  test("payloads of many megabytes come whole both ways while small calls pass", async () => {
    const peer = await openPeer(({ call }) => answered((call as { input: { value: Uint8Array } }).input.value));
    const { links } = openLinks();
    const random = seeded(11);
    const put = (value: Uint8Array): Promise<Answer> =>
      links.forward(
        peer.address,
        buildCall({ call: { kind: "write", command: "kv.put", input: { ns: "n", key: "k", value } } }),
      );
    await put(new Uint8Array(1));
    const largeOnes = [3, 12, 6].map((mebibytes) => {
      const value = new Uint8Array(mebibytes * 1024 * 1024 + 1).fill(mebibytes);
      // Marks that no two pieces have alike.
      for (let at = 0; at < value.length; at += 1_000) new DataView(value.buffer).setUint16(at, at / 1_000);
      return value;
    });
    let isOver = false;
    const large = Promise.all(largeOnes.map(put)).finally(() => (isOver = true));
    let passed = 0;
    while (!isOver) {
      const value = new Uint8Array(Math.floor(random() * 1_000)).fill(passed);
      expect(Buffer.compare((await put(value)).value as Uint8Array, value)).toBe(0);
      if (!isOver) passed++;
    }
    for (const [at, { value }] of (await large).entries())
      expect(Buffer.compare(value as Uint8Array, largeOnes[at]!)).toBe(0);
    expect(passed).toBeGreaterThan(3);
  });

  test("hundreds of calls of random sizes, times and outcomes: each is settled once, by its own", async () => {
    const random = seeded(12);
    const outcomes = Array.from({ length: 500 }, () => ({
      bytes: Math.floor(random() ** 8 * 600_000),
      ms: random() ** 4 * 100,
      fate: random(),
    }));
    const peer = await openPeer(async ({ call, minTxid }) => {
      const { ms, fate, bytes } = outcomes[minTxid]!;
      const { value } = (call as { input: { value: Uint8Array } }).input;
      expect(value.length).toBe(bytes);
      if (ms > 1) await pause(ms);
      if (fate < 0.1) throw new TurnedAway("behind");
      if (fate < 0.2) throw new ServiceError("conflict", `number ${minTxid}`);
      return answered(fate < 0.6 ? value : minTxid);
    });
    const { links } = openLinks();
    await Promise.all(
      outcomes.map(async ({ bytes, fate }, minTxid) => {
        if (minTxid % 3 === 0) await pause(minTxid / 10);
        const value = new Uint8Array(bytes).fill(minTxid);
        const answer = links.forward(
          peer.address,
          buildCall({ minTxid, call: { kind: "write", command: "kv.put", input: { ns: "n", key: "k", value } } }),
        );
        if (fate < 0.1) await expect(answer).rejects.toThrow(TurnedAway);
        else if (fate < 0.2) await expect(answer).rejects.toThrow(`number ${minTxid}`);
        else if (fate < 0.6) expect(Buffer.compare((await answer).value as Uint8Array, value)).toBe(0);
        else expect((await answer).value).toBe(minTxid);
      }),
    );
  });

  test("the receiver learns how much time is left, and whoever runs out of it is told so on time", async () => {
    const peer = await openPeer(({ minTxid }) => (minTxid === 0 ? new Promise<Answer>(() => {}) : answered(1)));
    const { links } = openLinks();
    await links.forward(peer.address, buildCall({ minTxid: 1 }));
    const begun = performance.now();
    const late = links.forward(peer.address, buildCall({ budgetMs: 300 }));
    await expect(late).rejects.toMatchObject({
      code: "request_timeout",
      message: expect.stringContaining("may still happen"),
    });
    expect(performance.now() - begun).toBeGreaterThan(290);
    expect(performance.now() - begun).toBeLessThan(2_000);
    expect(peer.served[1]!.budgetMs).toBeGreaterThan(0);
    expect(peer.served[1]!.budgetMs).toBeLessThanOrEqual(300);
    expect((await links.forward(peer.address, buildCall({ minTxid: 1, budgetMs: Infinity }))).value).toBe(1);
  });

  test("an answer after the deadline is nobody's, and nobody else gets it", async () => {
    const slow = Promise.withResolvers<Answer>();
    const peer = await openPeer(({ minTxid }) => (minTxid === 0 ? slow.promise : answered(minTxid)));
    const { links } = openLinks();
    await expect(links.forward(peer.address, buildCall({ budgetMs: 60 }))).rejects.toMatchObject({
      code: "request_timeout",
    });
    slow.resolve(answered("late"));
    expect((await links.forward(peer.address, buildCall({ minTxid: 2 }))).value).toBe(2);
  });
});
