/** Forwarded calls and answers as messages: what goes through whole, and what is refused. */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { type Call, CallAnswerSchema, CallKind, CallSchema } from "../../../../gen/palimpsest/node/v1/node_pb.ts";
import { type ErrorCode, errorCodes, ServiceError } from "../../../../src/base/faults/errors.ts";
import { limits } from "../../../../src/base/limits.ts";
import { type CallerTold, TurnedAway } from "../../../../src/engine/api/engine-port.ts";
import { readCommands, writeCommands } from "../../../../src/model/commands.ts";
import { readShapes, writeShapes } from "../../../../src/server/node-wire/command-shapes.ts";
import {
  decodeCall,
  encodeAnswer,
  encodeCall,
  encodeRefusal,
  encodeTurnedAway,
  type Outcome,
  decodeOutcome,
} from "../../../../src/server/node-wire/node-messages.ts";
import { Inbox, Outbox, peerPieceBytes } from "../../../../src/server/node-wire/message-chunking.ts";
import { ownCodecs } from "../../../../src/server/node-wire/node-protocol.ts";
import type { ForwardedCall } from "../../../../src/service/placement/peers.ts";
import { callSamples } from "../../../support/command-samples.ts";
import { buildCall, codec } from "../../../support/peer-node.ts";
import { seeded } from "../../../support/random.ts";

function across(call: ForwardedCall, spoken = codec): ForwardedCall {
  const message = fromBinary(CallSchema, toBinary(CallSchema, encodeCall(7, call, spoken)));
  expect(message.id).toBe(7);
  return decodeCall(message, message.payload, spoken);
}

function outcome(message: ReturnType<typeof encodeAnswer>, spoken = codec): Outcome {
  const read = fromBinary(CallAnswerSchema, toBinary(CallAnswerSchema, message));
  expect(read.id).toBe(7);
  return decodeOutcome(read, read.payload, spoken);
}

const statements = [{ text: "SELECT 1", paramsJson: undefined }];

describe("calls", () => {
  describe.each(ownCodecs)("in protocol $protocol", (spoken) => {
    test.each(callSamples)("$name comes as it went, and so does what it gives", ({ call, value }) => {
      expect(across(buildCall({ call }), spoken).call).toStrictEqual(call);
      const answer = { value, txid: 2 ** 52, durableTxid: 0 };
      expect(outcome(encodeAnswer(7, answer, spoken), spoken)).toStrictEqual({ answer });
    });
  });

  test("there is a sample of every command, and a shape", () => {
    const commands = new Set(callSamples.map(({ call }) => ("command" in call ? call.command : undefined)));
    for (const command of [...Object.keys(writeCommands), ...Object.keys(readCommands)])
      expect([...commands]).toContain(command);
    expect(Object.keys(writeShapes)).toEqual(expect.arrayContaining(Object.keys(writeCommands)));
    expect(Object.keys(readShapes)).toEqual(expect.arrayContaining(Object.keys(readCommands)));
  });

  test("what stands around a call comes as it went, present or absent", () => {
    const callers: (CallerTold | undefined)[] = [
      undefined,
      { kind: "anonymous", scope: undefined, hash: undefined },
      { kind: "platform", scope: undefined, hash: "ab12" },
      ...(["read", "write", "admin"] as const).map((scope): CallerTold => ({ kind: "token", scope, hash: "" })),
    ];
    for (const caller of callers) expect(across(buildCall({ caller })).caller).toEqual(caller);
    for (const term of [undefined, 0, 1, Number.MAX_SAFE_INTEGER]) expect(across(buildCall({ term })).term).toBe(term);
    for (const consistency of [undefined, "primary", "cached"] as const)
      expect(across(buildCall({ consistency })).consistency).toBe(consistency);
    for (const budgetMs of [0, 0.25, 30_000, Infinity]) expect(across(buildCall({ budgetMs })).budgetMs).toBe(budgetMs);
    for (const retention of [
      undefined,
      { pitrMs: 0 },
      { pitrMs: 1, eventMaxAgeMs: 0, supersededMaxAgeMs: 3, supersededMaxCount: 4 },
    ]) {
      const { target } = buildCall();
      expect(across(buildCall({ target: { ...target, retention } })).target).toEqual({ ...target, retention });
    }
    const rest = {
      minTxid: 2 ** 50,
      bytes: 12,
      durable: true,
      traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    };
    expect(across(buildCall(rest))).toMatchObject(rest);
    expect(across(buildCall()).traceparent).toBeUndefined();
  });
});

describe("what no node sends is refused", () => {
  const catchRefusal = (given: Partial<Call>): unknown => {
    const message = { ...encodeCall(7, buildCall(), codec), ...given };
    try {
      return decodeCall(message, message.payload, codec);
    } catch (error) {
      return error instanceof ServiceError ? error.code : error;
    }
  };

  test("databases and branches with other names than theirs", () => {
    for (const uuid of [
      "",
      "x",
      "../../etc",
      "00000000-0000-4000-8000-00000000000A",
      `${buildCall().target.uuid}\n`,
      `../${buildCall().target.uuid}`,
    ])
      expect([uuid, catchRefusal({ uuid })]).toEqual([uuid, "invalid_request"]);
    for (const branch of ["", ".", "..", "a/b", "x".repeat(65), "ü"])
      expect([branch, catchRefusal({ branch })]).toEqual([branch, "invalid_request"]);
  });

  test("numbers that are none", () => {
    for (const budgetMs of [-1, NaN, -Infinity]) expect(catchRefusal({ budgetMs })).toBe("invalid_request");
    for (const wrong of [{ minTxid: 2n ** 53n }, { inputBytes: 2n ** 64n - 1n }, { term: 2n ** 60n }])
      expect(catchRefusal(wrong)).toBe("invalid_request");
    const { $typeName } = encodeCall(
      7,
      buildCall({ target: { ...buildCall().target, retention: { pitrMs: 1 } } }),
      codec,
    ).retention!;
    for (const pitrMs of [-1, NaN, Infinity])
      expect(catchRefusal({ retention: { $typeName, pitrMs } })).toBe("invalid_request");
  });

  test("kinds, scopes and consistencies that are not in the tables", () => {
    for (const kind of [CallKind.UNSPECIFIED, 8 as CallKind, 99 as CallKind])
      expect(catchRefusal({ kind })).toBe("invalid_request");
    expect(catchRefusal({ consistency: 9 as never })).toBe("invalid_request");
    const client = encodeCall(7, buildCall({ caller: { kind: "token", scope: "read", hash: "a" } }), codec).client!;
    expect(catchRefusal({ client: { ...client, kind: 0 } })).toBe("invalid_request");
    expect(catchRefusal({ client: { ...client, scope: 4 as never } })).toBe("invalid_request");
  });

  test("commands of another table or of none", () => {
    for (const kind of [CallKind.WRITE, CallKind.READ]) {
      for (const command of [
        "",
        "constructor",
        "__proto__",
        "toString",
        "no.such",
        kind === CallKind.READ ? "kv.put" : "kv.get",
      ])
        expect([command, catchRefusal({ kind, command })]).toEqual([command, "unavailable"]);
    }
    expect(catchRefusal({ kind: CallKind.BRANCH, payload: codec.encode({ act: "constructor" }) })).toBe("unavailable");
    expect(catchRefusal({ kind: CallKind.BRANCH, payload: codec.encode({ act: 1 }) })).toBe("invalid_request");
  });

  test("batches and acts without what they need", () => {
    const batches = [
      undefined,
      null,
      1,
      [],
      {},
      { statements: 1, atomic: true, mayWrite: true },
      { statements: [{}], atomic: true, mayWrite: true },
      { statements: [null], atomic: true, mayWrite: true },
      { statements: [{ text: "x", paramsJson: 1 }], atomic: true, mayWrite: true },
      { statements, atomic: 1, mayWrite: true },
      { statements, atomic: true },
    ];
    for (const kind of [CallKind.SQL_READ, CallKind.SQL_WRITE])
      for (const batch of batches)
        expect(catchRefusal({ kind, payload: batch === undefined ? new Uint8Array(0) : codec.encode(batch) })).toBe(
          "invalid_request",
        );
    const acts = [
      { act: "fork" },
      { act: "fork", name: 1 },
      { act: "rewind", to: { toString: undefined } },
      { act: "erase", couponId: "c" },
      { act: "erase", couponId: "c", erase: {}, traceKey: new Uint8Array(1) },
      { act: "erase", couponId: "c", erase: { kind: "memory", memoryId: "m" }, traceKey: "text" },
      { act: "expunge" },
      { act: "expunge", coupons: {} },
      { act: "expunge", coupons: [{}] },
    ];
    for (const act of acts)
      expect([act, catchRefusal({ kind: CallKind.BRANCH, payload: codec.encode(act) })]).toEqual([
        act,
        "invalid_request",
      ]);
  });

  test.each(callSamples)("$name with other kinds of values than its own", ({ call }) => {
    const message = encodeCall(7, buildCall({ call }), codec);
    const given = codec.decode(message.payload) as object | undefined;
    if (given === undefined) return;
    for (const wrong of [null, 1, "text", [], new Uint8Array(1), new Float32Array(1)])
      expect(catchRefusal({ ...message, payload: codec.encode(wrong) })).toBe("invalid_request");
    for (const name of Object.keys(given)) {
      for (const wrong of [null, [null]]) {
        const payload = codec.encode({ ...given, [name]: wrong });
        expect([name, wrong, catchRefusal({ ...message, payload })]).toEqual([name, wrong, "invalid_request"]);
      }
    }
  });

  test.each(callSamples)("$name with a field that this build does not know, unless it is absent", ({ call }) => {
    const message = encodeCall(7, buildCall({ call }), codec);
    const given = codec.decode(message.payload) as object | undefined;
    if (call.kind === "sync" || call.kind === "drop") return;
    expect(catchRefusal({ ...message, payload: codec.encode({ ...given, later: true }) })).toBe("unavailable");
    if (given === undefined) return;
    const read = catchRefusal({ ...message, payload: codec.encode({ ...given, later: undefined }) });
    expect((read as ForwardedCall).call.kind).toBe(call.kind);
  });

  test.each(ownCodecs)(
    "payloads of protocol $protocol that cannot be read: cut off, garbled, or of nothing",
    (spoken) => {
      const { call } = callSamples.find(({ name }) => name === "memory.ingest")!;
      const message = encodeCall(7, buildCall({ call }), spoken);
      const read = (payload: Uint8Array): unknown => {
        try {
          return decodeCall({ ...message, payload }, payload, spoken);
        } catch (error) {
          if (error instanceof ServiceError) return error.code;
          throw error;
        }
      };
      for (let length = 0; length < message.payload.length; length++)
        expect(read(message.payload.subarray(0, length))).toBe("invalid_request");
      const random = seeded(4);
      for (let round = 0; round < 3_000; round++) {
        const garbled = Uint8Array.from(message.payload);
        for (let times = 0; times < 3; times++)
          garbled[Math.floor(random() * garbled.length)] = Math.floor(random() * 256);
        // Read as something else, or refused; nothing else is thrown and nothing breaks.
        read(garbled);
      }
    },
  );
});

describe("answers", () => {
  test("a value comes as it went, with the state that it speaks of", () => {
    for (const value of [undefined, null, new Uint8Array(0), "text", [1, undefined]]) {
      expect(outcome(encodeAnswer(7, { value, txid: 2 ** 52, durableTxid: 0 }, codec))).toEqual({
        answer: { value, txid: 2 ** 52, durableTxid: 0 },
      });
    }
  });

  test("a refusal of every code comes with all its details, or without", () => {
    const full = { retryAfterSecs: 7, httpStatus: 415, headers: { Allow: "GET" }, txid: 0 };
    for (const code of Object.keys(errorCodes) as ErrorCode[]) {
      for (const detail of [full, {}, { txid: 12 }, { retryAfterSecs: 0.5 }]) {
        const { error } = outcome(encodeRefusal(7, new ServiceError(code, `why ${code}`, detail))) as {
          error: ServiceError;
        };
        expect(error).toBeInstanceOf(ServiceError);
        expect([error.code, error.message, error.detail]).toEqual([code, `why ${code}`, detail]);
      }
    }
  });

  test("that a call was turned away comes with the reason", () => {
    for (const reason of ["unheld", "behind"] as const)
      expect(outcome(encodeTurnedAway(7, new TurnedAway(reason)))).toEqual({
        error: expect.objectContaining({ name: "TurnedAway", reason }),
      });
  });

  test("codes, reasons and values that no node sends are no answers", () => {
    const good = encodeRefusal(7, new ServiceError("conflict", "x"));
    const bad = [
      create(CallAnswerSchema, { refusal: { ...good.refusal!, code: "toString" } }),
      create(CallAnswerSchema, { turnedAway: 3 as never }),
      create(CallAnswerSchema, { txid: 2n ** 60n }),
      create(CallAnswerSchema, { payload: new Uint8Array([1, 2]) }),
    ];
    for (const message of bad) expect(() => decodeOutcome(message, message.payload, codec)).toThrow(ServiceError);
  });
});

describe("parcels", () => {
  const parcel = (id: number, bytes: number) => ({ id, payload: new Uint8Array(bytes).fill(id) });

  test("a large payload goes in pieces, others go between them, and it is whole again at the end", () => {
    const [outbox, inbox] = [new Outbox<ReturnType<typeof parcel>>(), new Inbox()];
    const bytes = 5 * peerPieceBytes + 1;
    outbox.put(parcel(1, bytes));
    outbox.put(parcel(2, bytes));
    const whole: [number, Uint8Array][] = [];
    let messages = 0;
    for (let next = 3; !outbox.isEmpty; next++) {
      outbox.put(parcel(next, 10));
      const { pieces, parcels } = outbox.take(() => true);
      for (const piece of pieces) inbox.add(piece);
      for (const sent of parcels) whole.push([sent.id, inbox.whole(sent)]);
      expect(parcels.some(({ id }) => id === next)).toBe(true);
      messages++;
    }
    expect(messages).toBe(12);
    expect(outbox.bytes).toBe(0);
    expect(whole.filter(([, { length }]) => length > 10).map(([id, { length }]) => [id, length])).toEqual([
      [1, bytes],
      [2, bytes],
    ]);
    for (const [id, payload] of whole) expect(payload.every((byte) => byte === id)).toBe(true);
  });

  test("a message takes about as much as it may, in order", () => {
    const outbox = new Outbox<ReturnType<typeof parcel>>();
    for (let id = 1; id <= 20; id++) outbox.put(parcel(id, peerPieceBytes));
    const ids: number[] = [];
    while (!outbox.isEmpty) {
      const { parcels } = outbox.take(() => true);
      expect(parcels.length).toBeLessThanOrEqual(4);
      ids.push(...parcels.map(({ id }) => id));
    }
    expect(ids).toEqual(Array.from({ length: 20 }, (_, at) => at + 1));
  });

  test("what nobody wants any more is left out, unless it has begun to leave", () => {
    const outbox = new Outbox<ReturnType<typeof parcel>>();
    const [begun, large] = [parcel(1, 3 * peerPieceBytes), parcel(2, 3 * peerPieceBytes)];
    for (const given of [begun, large, parcel(3, 1), parcel(4, 1)]) outbox.put(given);
    expect(outbox.take(({ id }) => id !== 3)).toMatchObject({ pieces: [{ id: 1 }], parcels: [{ id: 4 }] });
    expect(outbox.take(() => false).pieces.map(({ id }) => id)).toEqual([1]);
    expect(outbox.take(() => false).parcels).toEqual([begun]);
    expect(outbox.take(() => false)).toEqual({ pieces: [], parcels: [] });
    expect([outbox.isEmpty, outbox.bytes]).toEqual([true, 0]);
  });

  test("pieces without their rest do not add up without end", () => {
    const inbox = new Inbox();
    const payload = new Uint8Array(limits.peerBytesMax / 8);
    const add = (id: number): void => inbox.add({ $typeName: "palimpsest.node.v1.Piece", id, payload });
    for (let id = 0; id < 8; id++) add(id);
    expect(() => add(8)).toThrow(ServiceError);
    const another = new Inbox();
    for (let id = 0; id < 10; id++) {
      another.add({ $typeName: "palimpsest.node.v1.Piece", id, payload });
      expect(another.whole({ id, payload: new Uint8Array(1) }).length).toBe(payload.length + 1);
    }
  });
});
