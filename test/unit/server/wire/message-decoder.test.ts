/** Bodies become the same messages in pieces as at once, whatever is in them; only the wait of others differs. */
import { create, equals, type Message, toBinary, toJsonString } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { InsertDocsRequestSchema } from "../../../../gen/palimpsest/v1/data_pb.ts";
import { type IngestRequest, IngestRequestSchema, MemoryInputSchema } from "../../../../gen/palimpsest/v1/memory_pb.ts";
import { ServiceError } from "../../../../src/base/faults/errors.ts";
import { limits } from "../../../../src/base/limits.ts";
import { decodeBinary, decodeJson } from "../../../../src/server/wire/message-decoder.ts";
import { compileBody } from "../../../../src/server/wire/json-decoder.ts";
import { jsonElements, jsonText } from "../../../../src/service/call/exact-json.ts";
import { hostileMessages, hostileTexts } from "../../../support/hostile-bodies.ts";

const MiB = 1 << 20;
const { fields } = IngestRequestSchema;
/** On REST the address is in the path. */
const forms = {
  rest: {
    decoder: compileBody(fields.filter(({ name }) => name === "memories" || name === "branch")),
    frameBytesMax: limits.elementBytesMax,
  },
  proto: { decoder: compileBody(fields, "proto"), frameBytesMax: limits.elementBytesMax },
};
const make = (): Message => create(IngestRequestSchema);

/** A loop that measures: the longest that the thread was held between two turns, in milliseconds of its own time. */
function measured(): { readonly world: { soon(act: () => void): void }; longestMs(): number } {
  const nowMs = (): number => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1_000;
  };
  let longest = 0;
  let from = nowMs();
  const end = (): void => void (longest = Math.max(longest, nowMs() - from));
  return {
    world: {
      soon(act) {
        end();
        setImmediate(() => {
          from = nowMs();
          act();
        });
      },
    },
    longestMs() {
      end();
      return longest;
    },
  };
}

async function outcome(
  decode: (world: { soon(act: () => void): void }) => Message | Promise<Message>,
): Promise<{ readonly code: string; readonly text: string; readonly longestMs: number }> {
  const { world, longestMs } = measured();
  try {
    await decode(world);
    return { code: "ok", text: "", longestMs: longestMs() };
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    return { code: error.code, text: error.message, longestMs: longestMs() };
  }
}

/**
 * The best of a few: what the machine does in between is not the decoder's doing, and what the decoder does it does
 * each time.
 */
async function best(decode: Parameters<typeof outcome>[0]): ReturnType<typeof outcome> {
  let found = await outcome(decode);
  for (let again = 0; again < 4 && found.longestMs > 50; again++) {
    const next = await outcome(decode);
    if (next.longestMs < found.longestMs) found = next;
  }
  return found;
}

describe.each(["rest", "proto"] as const)("JSON of the dialect %s", (dialect) => {
  test.each(hostileTexts(31 * MiB))("%s: 31 MiB hold the thread for no longer than 60 ms", async (_what, text) => {
    const bytes = Buffer.from(text);
    const found = await best((world) => decodeJson(bytes, forms[dialect], make, world));
    expect(["ok", "invalid_request"]).toContain(found.code);
    expect(found.text.length).toBeLessThan(300);
    expect(found.longestMs, found.text).toBeLessThan(60);
  });
});

test.each(hostileMessages(31 * MiB))(
  "protobuf, %s: 31 MiB hold the thread for no longer than 60 ms",
  async (_what, bytes) => {
    const found = await best((world) => decodeBinary(bytes, IngestRequestSchema, world));
    expect(["ok", "invalid_request"]).toContain(found.code);
    expect(found.longestMs, found.text).toBeLessThan(60);
  },
);

test.each(hostileTexts(40_000))("%s: what is decoded at once takes no longer either", async (_what, text) => {
  const bytes = Buffer.from(text).subarray(0, limits.decodedAtOnceBytes);
  expect((await best((world) => decodeJson(bytes, forms.rest, make, world))).longestMs).toBeLessThan(60);
});

test.each(hostileMessages(40_000))(
  "protobuf, %s: what is decoded at once takes no longer either",
  async (_what, bytes) => {
    expect(
      (await best((world) => decodeBinary(bytes.subarray(0, limits.decodedAtOnceBytes), IngestRequestSchema, world)))
        .longestMs,
    ).toBeLessThan(60);
  },
);

const plain = { soon: (act: () => void): void => void setImmediate(act) };

function sample(count: number): IngestRequest {
  return create(IngestRequestSchema, {
    ns: "a",
    profile: "b",
    memories: Array.from({ length: count }, (_, at) =>
      create(MemoryInputSchema, {
        type: "fact",
        summary: `summary, of [${at}] {"}`,
        content: { kind: { case: "stringValue", value: `"${"x,]}".repeat(40)}\\` } },
        embedding: { values: [at, 0.5] },
        metadata: { at },
      }),
    ),
  });
}

test("a large body in pieces is what it is at once, in every form", async () => {
  const whole = sample(900);
  const binary = toBinary(IngestRequestSchema, whole);
  const json = Buffer.from(toJsonString(IngestRequestSchema, whole, { useProtoFieldName: true }));
  expect(Math.min(binary.length, json.length)).toBeGreaterThan(2 * limits.decodedAtOnceBytes);
  expect(
    equals(IngestRequestSchema, (await decodeBinary(binary, IngestRequestSchema, plain)) as never, whole as never),
  ).toBe(true);
  expect(equals(IngestRequestSchema, (await decodeJson(json, forms.proto, make, plain)) as never, whole as never)).toBe(
    true,
  );
  const rest = JSON.parse(json.toString()) as { memories: { embedding: { values: number[] } }[] };
  const restJson = Buffer.from(
    JSON.stringify(
      { memories: rest.memories.map((one) => ({ ...one, embedding: one.embedding.values })) },
      undefined,
      2,
    ),
  );
  const addressed = (): Message => create(IngestRequestSchema, { ns: "a", profile: "b" });
  expect(
    equals(IngestRequestSchema, (await decodeJson(restJson, forms.rest, addressed, plain)) as never, whole as never),
  ).toBe(true);
});

test("documents in pieces keep every digit and their order", async () => {
  const docs = Array.from(
    { length: 1_000 },
    (_, at) => `{"n":${9_007_199_254_740_993n + BigInt(at)},"t":"${"y".repeat(80)}"}`,
  );
  const form = {
    decoder: compileBody(InsertDocsRequestSchema.fields.filter(({ name }) => name === "docs")),
    frameBytesMax: limits.elementBytesMax,
  };
  const message = await decodeJson(
    Buffer.from(`{ "docs" : [ ${docs.join(" , ")} ] }`),
    form,
    () => create(InsertDocsRequestSchema),
    plain,
  );
  expect(jsonElements(message, "docs")).toEqual(docs);
  expect(jsonText(message, "docs")).toBe(`[${docs.join(",")}]`);
});

const filler = `{"type":"fact","summary":"${"s".repeat(200)}","content":1}`;
const many = Array(400).fill(filler).join(",");

test.each([
  [
    "an unknown field of a late element",
    `{"memories":[${many},{"type":"fact","summary":"s","colour":1}]}`,
    "memories[400].colour is not a field",
  ],
  [
    "a wrong type in a late element",
    `{"memories":[${many},{"type":5,"summary":"s"}]}`,
    "memories[400].type must be a string",
  ],
  ["an unknown field of the body", `{"memories":[${many}],"colour":1}`, "colour is not a field of this request"],
  ["a comma too many at the end", `{"memories":[${many},]}`, "not JSON"],
  ["a comma too many inside", `{"memories":[${many},,${many}]}`, "not JSON"],
  ["a comma too many at the beginning", `{"memories":[,${many}]}`, "not JSON"],
  ["a bracket of the wrong kind", `{"memories":[${many}}}`, "not JSON"],
  ["a list that does not end", `{"memories":[${many}`, "not JSON"],
  ["more after the end", `{"memories":[${many}]}]`, "not JSON"],
  ["brackets crossed in an element", `{"memories":[${many},{"a":[}],${many}]}`, "not JSON"],
  [
    "bytes that are no UTF-8",
    Buffer.concat([Buffer.from(`{"memories":[${many},"`), Buffer.from([0xff, 0xfe]), Buffer.from('"]}')]),
    "UTF-8",
  ],
  ["a list where none belongs", `{"branch":[${many}]}`, "branch must be a string"],
  ["an object for a list", `{"memories":{"a":[${many}]}}`, "memories must be an array"],
])("%s is refused in a large body as in a small one", async (_what, text, message) => {
  const found = await outcome((world) => decodeJson(Buffer.from(text as string), forms.rest, make, world));
  expect([found.code, found.text]).toEqual(["invalid_request", expect.stringContaining(message)]);
});

test("an empty list beside a large one is a list", async () => {
  const message = (await decodeJson(
    Buffer.from(`{"ns":"${"n".repeat(60_000)}","memories":[ ]}`),
    forms.proto,
    make,
    plain,
  )) as Message & { memories: unknown[] };
  expect(message.memories).toEqual([]);
});
