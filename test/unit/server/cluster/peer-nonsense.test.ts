/** Links between nodes when the other side talks nonsense, or whoever has the key sends garbage. */
import { connect as connectHttp2 } from "node:http2";
import { create, toBinary } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import {
  ExchangeRequestSchema,
  type ExchangeResponse,
  ExchangeResponseSchema,
} from "../../../../gen/palimpsest/node/v1/node_pb.ts";
import { limits } from "../../../../src/base/limits.ts";
import { encodeAnswer, encodeCall } from "../../../../src/server/node-wire/node-messages.ts";
import { Unreachable } from "../../../../src/service/placement/peers.ts";
import { uuidOf } from "../../../support/inline-engine.ts";
import {
  answered,
  buildCall,
  clusterKey,
  codec,
  greeting,
  openLinks,
  openPeer,
  openScripted,
  readCall,
  sayTo,
  welcome,
} from "../../../support/peer-node.ts";
import { of, foreverAfter, saidBy } from "../../../support/exchanges.ts";

describe("a node that talks nonsense", () => {
  const nonsense: readonly (readonly [string, (ids: number[]) => ExchangeResponse])[] = [
    [
      "a refusal with a code that is none",
      ([id]) =>
        create(ExchangeResponseSchema, { answers: [{ id: id!, refusal: { code: "constructor", message: "x" } }] }),
    ],
    [
      "a value that cannot be read",
      ([id]) =>
        create(ExchangeResponseSchema, {
          answers: [{ ...encodeAnswer(id!, answered(1), codec), payload: new Uint8Array([255, 15, 1]) }],
        }),
    ],
  ];

  test.each(nonsense)("%s: the line is given up and the write's fate is unknown", async (_, answer) => {
    const address = await openScripted(async function* (requests) {
      for await (const { protocol: greeted, calls } of requests)
        yield greeted ? welcome() : answer(calls.map(({ id }) => id));
    });
    const { links } = openLinks();
    await expect(links.forward(address, buildCall())).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("not known"),
    });
    await new Promise((resolve) => setTimeout(resolve, 150));
    await expect(links.forward(address, buildCall({ call: readCall }))).rejects.toThrow(Unreachable);
  });

  test("answers to nobody or twice, hints about what nobody follows: each call has its own answer once", async () => {
    const address = await openScripted(async function* (requests) {
      for await (const { protocol: greeted, calls } of requests) {
        if (greeted) yield welcome();
        const answers = calls.flatMap(({ id }) => [
          encodeAnswer(id + 77, answered("nobody's"), codec),
          encodeAnswer(id, answered("first"), codec),
          encodeAnswer(id, answered("second"), codec),
        ]);
        if (!greeted) yield create(ExchangeResponseSchema, { answers, moved: [uuidOf(9), "nonsense"], pong: true });
      }
    });
    const { links, hinted } = openLinks();
    for (let round = 0; round < 3; round++) expect((await links.forward(address, buildCall())).value).toBe("first");
    expect(hinted).toEqual([]);
  });
});

describe("garbage from whoever has the key", () => {
  test("a call of no known shape is refused, and the stream goes on", async () => {
    const peer = await openPeer(() => answered(1));
    const bad = { ...encodeCall(1, buildCall(), codec), uuid: "../../../etc/passwd" };
    const unknown = { ...encodeCall(2, buildCall(), codec), command: "__proto__" };
    const good = encodeCall(3, buildCall(), codec);
    const { said, error } = await saidBy(
      sayTo(peer.address, of(greeting(), create(ExchangeRequestSchema, { calls: [bad, unknown, good] }))),
    );
    expect(error).toBeUndefined();
    const answers = said.flatMap((message) => message.answers.map(({ id, refusal }) => [id, refusal?.code]));
    expect(answers.sort()).toEqual([
      [1, "invalid_request"],
      [2, "unavailable"],
      [3, undefined],
    ]);
    expect(peer.served).toHaveLength(1);
  });

  test("a followed database that is none, and pieces that have no end, end the stream and nothing else", async () => {
    const peer = await openPeer(() => answered(1));
    const { links } = openLinks();
    await links.forward(peer.address, buildCall());
    const follows = await saidBy(
      sayTo(peer.address, foreverAfter(greeting(), create(ExchangeRequestSchema, { follows: ["../x"] }))),
    );
    expect(follows.error?.code).toBe(Code.InvalidArgument);
    expect((await links.forward(peer.address, buildCall())).value).toBe(1);
    expect(peer.log.said).toEqual([]);
  });

  test("a message that is larger than any may be is refused", async () => {
    const peer = await openPeer(() => answered(1));
    const call = { ...encodeCall(1, buildCall(), codec), payload: new Uint8Array(limits.peerMessageBytesMax) };
    const { error } = await saidBy(
      sayTo(peer.address, foreverAfter(greeting(), create(ExchangeRequestSchema, { calls: [call] }))),
    );
    expect(error?.code).toBe(Code.ResourceExhausted);
    expect(peer.served).toEqual([]);
  });

  test("bytes that are no messages end their stream; the node goes on", async () => {
    const peer = await openPeer(() => answered(1));
    const envelope = (payload: Uint8Array, flags = 0): Buffer => {
      const head = Buffer.alloc(5);
      head[0] = flags;
      head.writeUInt32BE(payload.length, 1);
      return Buffer.concat([head, payload]);
    };
    const greeted = envelope(toBinary(ExchangeRequestSchema, greeting()));
    const bodies = [
      Buffer.from("GET / HTTP/1.1"),
      envelope(Buffer.from([255, 255, 255, 255])),
      Buffer.concat([greeted, envelope(Buffer.from([26, 200, 1]))]),
      Buffer.concat([greeted, envelope(Buffer.from("{}"), 1)]),
      envelope(Buffer.alloc(0), 0x80),
      Buffer.concat([greeted, Buffer.from([0, 255, 255, 255, 255])]),
    ];
    for (const body of bodies) {
      const session = connectHttp2(peer.address);
      const stream = session.request({
        ":method": "POST",
        ":path": "/palimpsest.node.v1.NodeService/Exchange",
        "content-type": "application/grpc+proto",
        te: "trailers",
        "service-internal": clusterKey,
      });
      const ended = new Promise((resolve) => stream.once("close", resolve));
      stream.on("error", () => {});
      stream.resume();
      stream.end(body);
      await ended;
      session.destroy();
    }
    const { links } = openLinks();
    expect((await links.forward(peer.address, buildCall())).value).toBe(1);
    expect(peer.served).toHaveLength(1);
  });
});
