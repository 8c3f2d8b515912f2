/**
 * Which protocol nodes of different builds and on different Nodes speak with each other: with builds before `protocols`
 * on either side, played here to the letter of what they send and take.
 */
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { deserialize, serialize } from "node:v8";
import { describe, expect, test } from "vitest";
import {
  type CallAnswer,
  CallAnswerSchema,
  type ExchangeRequest,
  ExchangeRequestSchema,
  type ExchangeResponse,
  ExchangeResponseSchema,
} from "../../../../gen/palimpsest/node/v1/node_pb.ts";
import type { Answer } from "../../../../src/engine/api/protocol.ts";
import { encodeCall } from "../../../../src/server/node-wire/node-messages.ts";
import {
  codecsOn,
  commonCodec,
  buildGreeting,
  ownCodecs,
  peerProtocolsMax,
} from "../../../../src/server/node-wire/node-protocol.ts";
import { decodeValue } from "../../../../src/server/node-wire/value-decoder.ts";
import { callSamples } from "../../../support/command-samples.ts";
import { hastyWorld } from "../../../support/hasty-world.ts";
import {
  answered,
  expectAnswer,
  buildCall,
  openLinks,
  openPeer,
  openScripted,
  sayTo,
} from "../../../support/peer-node.ts";
import { peerPieceBytes } from "../../../../src/server/node-wire/message-chunking.ts";

const here = process.versions.v8.split(".", 1)[0]!;
const clones = `1/${here}`;
const elsewhere = codecsOn(`${Number(here) + 1}.6.233.17-node.53`);
const [newest, legacy] = ownCodecs as [(typeof ownCodecs)[0], (typeof ownCodecs)[0]];

/** What a build before `protocols` begins with, and the calls that follow. */
async function* oldCaller(protocol: string, ...calls: ExchangeRequest["calls"]): AsyncGenerator<ExchangeRequest> {
  yield create(ExchangeRequestSchema, { protocol });
  if (calls.length > 0) yield create(ExchangeRequestSchema, { calls });
}

/** A build before `protocols`: it looks at `protocol` alone, and answers every call with how much it was given. */
async function* oldReceiver(
  protocol: string,
  requests: AsyncIterable<ExchangeRequest>,
  heard: ExchangeRequest[],
): AsyncGenerator<ExchangeResponse> {
  let isGreeted = false;
  const pieces = new Map<number, Uint8Array[]>();
  for await (const message of requests) {
    heard.push(message);
    if (!isGreeted) {
      if (message.protocol !== protocol)
        throw new ConnectError(`this node speaks ${protocol} and not ${message.protocol}`, Code.FailedPrecondition);
      isGreeted = true;
      yield create(ExchangeResponseSchema, { protocol });
      continue;
    }
    for (const { id, payload } of message.pieces) pieces.set(id, [...(pieces.get(id) ?? []), payload]);
    const answers = message.calls.map(({ id, payload }) => {
      const { value } = deserialize(Buffer.concat([...(pieces.get(id) ?? []), payload])) as { value: Uint8Array };
      return create(CallAnswerSchema, { id, txid: 1n, payload: serialize(value.length) });
    });
    yield create(ExchangeResponseSchema, { answers, pong: message.ping });
  }
}

async function saidBy(
  messages: AsyncIterable<ExchangeResponse>,
): Promise<{ protocol: string | undefined; answers: readonly CallAnswer[]; error: ConnectError | undefined }> {
  const said: ExchangeResponse[] = [];
  let error: ConnectError | undefined;
  try {
    for await (const message of messages) said.push(message);
  } catch (thrown) {
    error = ConnectError.from(thrown);
  }
  return { protocol: said[0]?.protocol, answers: said.flatMap(({ answers }) => answers), error };
}

describe("the newest in common", () => {
  const greetings = [
    ["a node of this build on the same V8", buildGreeting(ownCodecs), "2"],
    ["a node of this build on another V8", buildGreeting(elsewhere), "2"],
    ["an older build on the same V8", { protocol: clones, protocols: [] }, clones],
    ["an older build on another V8", { protocol: "1/99", protocols: [] }, undefined],
    ["a newer build that still knows ours", { protocol: "2", protocols: ["4", "3", "2"] }, "2"],
    ["a newer build that does not", { protocol: "3", protocols: ["4", "3"] }, undefined],
    ["a build that lists no more than clones", { protocol: clones, protocols: [clones] }, clones],
    ["whoever says nothing", { protocol: "", protocols: [] }, undefined],
    [
      "more than may be named",
      { protocol: "2", protocols: [...new Array<string>(peerProtocolsMax).fill("x"), "2"] },
      undefined,
    ],
  ] as const;

  test.each(greetings)("%s", (_, greeting, expected) => {
    expect(commonCodec(ownCodecs, { ...greeting, protocols: [...greeting.protocols] })?.protocol).toBe(expected);
  });

  test("an older build finds in a greeting the only protocol that it speaks", () => {
    expect(buildGreeting(ownCodecs)).toEqual({ protocol: clones, protocols: ["2", clones] });
  });
});

describe("two nodes of this build", () => {
  test.each([
    ["on one V8", ownCodecs, ownCodecs],
    ["the caller on a newer one", elsewhere, ownCodecs],
    ["the caller on an older one", ownCodecs, elsewhere],
  ])("speak values, %s", async (_, callers, receivers) => {
    const peer = await openPeer(({ minTxid }) => answered(callSamples[minTxid]!.value), { codecs: receivers });
    const said: (ExchangeRequest | ExchangeResponse)[] = [];
    const between = await openScripted(async function* (requests) {
      async function* overheard(): AsyncGenerator<ExchangeRequest> {
        for await (const message of requests) {
          said.push(message);
          yield message;
        }
      }
      for await (const message of sayTo(peer.address, overheard())) {
        said.push(message);
        yield message;
      }
    });
    const { links, log } = openLinks({ codecs: callers });
    const answers = await Promise.all(
      callSamples.map(({ call }, minTxid) => links.forward(between, buildCall({ call, minTxid }))),
    );
    expect(answers.map(({ value }) => value)).toEqual(callSamples.map(({ value }) => value));
    expect(said.map(({ protocol }) => protocol).filter((protocol) => protocol !== "")).toEqual([
      callers.at(-1)!.protocol,
      "2",
    ]);
    const payloads = said.flatMap((message): readonly { readonly payload: Uint8Array }[] =>
      "calls" in message ? message.calls : message.answers,
    );
    expect(payloads.length).toBe(2 * callSamples.length);
    for (const { payload } of payloads) decodeValue(payload);
    expect([...log.said, ...peer.log.said]).toEqual([]);
  });
});

describe("a caller of an older build", () => {
  test("on the same V8 is answered in its own protocol", async () => {
    const peer = await openPeer(({ minTxid }) => answered(callSamples[minTxid]!.value));
    const calls = callSamples.map(({ call }, at) => encodeCall(at + 1, buildCall({ call, minTxid: at }), legacy));
    const { protocol, answers, error } = await saidBy(sayTo(peer.address, oldCaller(clones, ...calls)));
    expect([protocol, error]).toEqual([clones, undefined]);
    expect(peer.served.map(({ call }) => call)).toEqual(callSamples.map(({ call }) => call));
    const values = new Map(answers.map(({ id, payload }) => [id, payload]));
    for (const [at, { value }] of callSamples.entries()) {
      const payload = values.get(at + 1)!;
      expect(payload.length === 0 ? undefined : plain(deserialize(payload))).toEqual(value);
    }
  });

  /** The runtime reads bytes as a Buffer. */
  const plain = (value: unknown): unknown => legacy.decode(legacy.encode(value));

  test("on another V8, and one of a build that is too new, are refused with what both speak", async () => {
    const peer = await openPeer(() => answered(1));
    for (const protocol of ["1/99", "3", ""]) {
      const { error } = await saidBy(sayTo(peer.address, oldCaller(protocol)));
      expect(error?.code).toBe(Code.FailedPrecondition);
      expect(error?.message).toContain(`this node speaks 2 and ${clones}, and the caller ${protocol || "nothing"}`);
    }
    expect(peer.served).toEqual([]);
  });

  test("what is named is repeated only as far as a name goes", async () => {
    const peer = await openPeer(() => answered(1));
    const { error } = await saidBy(sayTo(peer.address, oldCaller("x".repeat(100_000))));
    expect(error?.code).toBe(Code.FailedPrecondition);
    expect(error?.message.length).toBeLessThan(200);
  });
});

describe("a receiver of an older build", () => {
  test("on the same V8 gets clones, also those that waited for its greeting, in pieces too", async () => {
    const heard: ExchangeRequest[] = [];
    const address = await openScripted((requests) => oldReceiver(clones, requests, heard));
    const { links, log } = openLinks();
    const sizes = [1, 3 * peerPieceBytes + 7, 200, 2 * peerPieceBytes];
    const put = (bytes: number): Promise<Answer> =>
      links.forward(
        address,
        buildCall({
          call: { kind: "write", command: "kv.put", input: { ns: "n", key: "k", value: new Uint8Array(bytes) } },
        }),
      );
    for (let round = 0; round < 2; round++)
      expect((await Promise.all(sizes.map(put))).map(({ value }) => value)).toEqual(sizes);
    expect(heard[0]).toMatchObject({ protocol: clones, protocols: ["2", clones] });
    expect(heard.slice(1).every(({ protocol, protocols }) => protocol === "" && protocols.length === 0)).toBe(true);
    expect(log.said).toEqual([]);
  });

  test("a call whose time was over before the greeting does not reach it", async () => {
    const heard: ExchangeRequest[] = [];
    const greet = Promise.withResolvers<void>();
    const address = await openScripted(async function* (requests) {
      await greet.promise;
      yield* oldReceiver(clones, requests, heard);
    });
    const { links } = openLinks();
    const late = links.forward(address, buildCall({ budgetMs: 100 }));
    const kept = links.forward(address, buildCall());
    await expect(late).rejects.toMatchObject({ code: "request_timeout" });
    greet.resolve();
    expect((await kept).value).toBe(3);
    expect(heard.flatMap(({ calls }) => calls)).toHaveLength(1);
  });

  test("on another V8 refuses, and so does one that is too new: callers are told, and no call has left", async () => {
    const heard: ExchangeRequest[] = [];
    const refusing = await openScripted((requests) => oldReceiver("1/99", requests, heard));
    const tooNew = await openScripted(async function* (requests) {
      yield create(ExchangeResponseSchema, { protocol: "3" });
      for await (const message of requests) heard.push(message);
    });
    for (const [address, why] of [
      [refusing, "speaks 1/99"],
      [tooNew, `this node speaks 2 and ${clones}, and the other 3`],
    ] as const) {
      const { links, log } = openLinks({ world: hastyWorld(5) });
      await expect(links.forward(address, buildCall())).rejects.toMatchObject({
        code: "unavailable",
        message: expect.stringContaining(why),
      });
      expect(log.said).toMatchObject([{ level: "error", message: expect.stringContaining("same version") }]);
    }
    expect(heard.flatMap(({ calls }) => calls)).toEqual([]);
  });

  test("that is upgraded is spoken to in values from its next stream on", async () => {
    const heard: ExchangeRequest[] = [];
    let streams = 0;
    const address = await openScripted(async function* (requests) {
      if (streams++ === 0) {
        for await (const message of oldReceiver(clones, requests, heard)) {
          yield message;
          if (message.answers.length > 0) return;
        }
      }
      for await (const message of requests) {
        heard.push(message);
        yield message.protocol
          ? create(ExchangeResponseSchema, { protocol: "2" })
          : create(ExchangeResponseSchema, {
              answers: message.calls.map(({ id }) => create(CallAnswerSchema, { id, payload: newest.encode("new") })),
            });
      }
    });
    const { links } = openLinks();
    expect((await links.forward(address, buildCall())).value).toBe(3);
    await expectAnswer(links, address, "new");
    expect(newest.decode(heard.flatMap(({ calls }) => calls).at(-1)!.payload)).toEqual(
      (buildCall().call as { readonly input: unknown }).input,
    );
  });
});
