/** The embedder against a server that speaks the real protocols and can be told to misbehave. */
import { expect, onTestFinished, test } from "vitest";
import {
  embedAddress,
  ModelEmbedder,
  embedBatchItemsMax,
  embedBatchBytesMax,
  embedRequestsMax,
  embedRejectionsMax,
} from "../../../src/ai/embedder.ts";
import { findTraits, type EmbedProvider } from "../../../src/ai/embedding-models.ts";
import { retryAfterMs } from "../../../src/ai/model-failure.ts";
import { limits } from "../../../src/base/limits.ts";
import { realWorld } from "../../../src/base/world.ts";
import { hastyWorld } from "../../support/hasty-world.ts";
import { modelServer, computeVector, type ModelServer } from "../../support/model-server.ts";
import { embedTextBytesMax } from "../../../src/model/embedding.ts";
import { breakerFailures, breakerOpenMs } from "../../../src/ai/breaker.ts";

const world = realWorld();

function buildEmbedder(
  server: ModelServer,
  {
    provider = "openai",
    model,
    world: given = world,
  }: { provider?: EmbedProvider; model?: string; world?: typeof world } = {},
): ModelEmbedder {
  const embedder = new ModelEmbedder({
    provider,
    apiKey: "secret-key",
    model,
    baseAddress: server.address,
    world: given,
  });
  onTestFinished(() => embedder.close());
  return embedder;
}

function soon(ms = 5_000, from = world): number {
  return from.monotonicMs() + ms;
}

test("OpenAI's protocol: only key, model and texts are sent; vectors come in the order of the texts", async () => {
  // Nothing of the machine is sent.
  const server = await modelServer();
  const embedder = buildEmbedder(server);
  const answer = await embedder.embed(["red apples", "green pears"], "document", soon());
  expect(answer.failure).toBeUndefined();
  expect([answer.sentItems, answer.sentBytes]).toEqual([2, 21]);
  expect(answer.vectors.map((vector) => [...vector!])).toEqual(
    ["red apples", "green pears"].map((text) => [...Float32Array.from(computeVector(text, 256))]),
  );
  const [request] = server.requests;
  expect(server.requests).toHaveLength(1);
  expect([request!.path, request!.authorization]).toEqual(["/v1/embeddings", "Bearer secret-key"]);
  expect(request!.body).toEqual({
    input: ["red apples", "green pears"],
    model: "text-embedding-3-small",
    encoding_format: "float",
  });
  expect(
    Object.keys(request!.headers).filter((header) => header.startsWith("x-") || header.startsWith("openai")),
  ).toEqual([]);
  expect(embedder).toMatchObject({
    provider: "openai",
    name: "openai/text-embedding-3-small",
    endpointHost: "127.0.0.1",
    floor: 0.2,
  });
});

test("Voyage's protocol says what a text is for, and lets the server cut what is too long", async () => {
  const server = await modelServer();
  const embedder = buildEmbedder(server, { provider: "voyage" });
  expect((await embedder.embed(["a question"], "query", soon())).vectors[0]).toHaveLength(256);
  await embedder.embed(["a text"], "document", soon());
  expect(server.requests.map(({ body }) => body)).toEqual([
    { input: ["a question"], model: "voyage-4", input_type: "query", truncation: true },
    { input: ["a text"], model: "voyage-4", input_type: "document", truncation: true },
  ]);
});

test("what a model's makers put before a text stands before it, and its floor goes with it", async () => {
  const server = await modelServer();
  const embedder = buildEmbedder(server, { model: "nomic-embed-text:v1.5" });
  await embedder.embed(["bees"], "query", soon());
  await embedder.embed(["bees"], "document", soon());
  expect(server.requests.map(({ body }) => body.input)).toEqual([["search_query: bees"], ["search_document: bees"]]);
  expect(embedder.floor).toBe(0.4);
  expect([
    findTraits("intfloat/multilingual-e5-large").floor,
    findTraits("text-embedding-ada-002").floor,
    findTraits("bge-m3").floor,
    findTraits("anything").floor,
  ]).toEqual([0.7, 0.7, 0.2, 0.2]);
});

test("a base address that is a mere origin gets the protocol's path, any other is taken as it is", () => {
  expect(embedAddress("openai", "http://localhost:11434")).toBe("http://localhost:11434/v1");
  expect(embedAddress("openai", "http://localhost:11434/api/v3")).toBe("http://localhost:11434/api/v3");
  expect(embedAddress("voyage", undefined)).toBe("https://api.voyageai.com/v1");
});

test("many texts go in batches of bounded count and size, a few at a time, and each gets its own vector", async () => {
  const server = await modelServer();
  let [running, most] = [0, 0];
  server.misbehave = () => {
    most = Math.max(most, ++running);
    setTimeout(() => running--, 5);
    return undefined;
  };
  const texts = Array.from({ length: 400 }, (_, at) =>
    at % 50 === 0 ? `text ${at} `.padEnd(embedTextBytesMax, "x") : `text ${at}`,
  );
  const { vectors, failure, sentItems } = await buildEmbedder(server).embed(texts, "document", soon(20_000));
  expect([failure, sentItems]).toEqual([undefined, 400]);
  for (const [at, text] of texts.entries())
    expect([...vectors[at]!]).toEqual([...Float32Array.from(computeVector(text, 256))]);
  for (const { body } of server.requests) {
    expect(body.input.length).toBeLessThanOrEqual(embedBatchItemsMax);
    expect(Buffer.byteLength(body.input.join(""))).toBeLessThanOrEqual(embedBatchBytesMax);
  }
  expect(server.requests.length).toBeGreaterThanOrEqual(4);
  expect(most).toBeLessThanOrEqual(embedRequestsMax);
});

test("429 and 5xx are asked again, not before the time that Retry-After names", async () => {
  const server = await modelServer();
  const times: number[] = [];
  server.misbehave = () => {
    times.push(world.monotonicMs());
    if (times.length === 1) return { kind: "status", status: 429, headers: { "retry-after": "1" } };
    return times.length === 2 ? { kind: "status", status: 503 } : undefined;
  };
  const answer = await buildEmbedder(server).embed(["a"], "document", soon());
  expect([answer.failure, answer.sentItems, answer.vectors[0]?.length]).toEqual([undefined, 1, 256]);
  expect(times).toHaveLength(3);
  expect(times[1]! - times[0]!).toBeGreaterThanOrEqual(990);
});

test("a Retry-After beyond the deadline ends it at once", async () => {
  const server = await modelServer();
  server.misbehave = () => ({ kind: "status", status: 429, headers: { "retry-after": "60" } });
  const startMs = world.monotonicMs();
  const answer = await buildEmbedder(server).embed(["a"], "document", soon(3_000));
  expect([answer.failure, answer.vectors]).toEqual(["unavailable", [undefined]]);
  expect(world.monotonicMs() - startMs).toBeLessThan(2_000);
  expect(server.requests).toHaveLength(1);
});

test("a server that hangs is given up at the deadline", async () => {
  const server = await modelServer();
  server.misbehave = () => ({ kind: "hang" });
  const startMs = world.monotonicMs();
  const { failure, vectors } = await buildEmbedder(server).embed(["a", "b"], "query", soon(300));
  expect([failure, vectors]).toEqual(["unavailable", [undefined, undefined]]);
  expect(world.monotonicMs() - startMs).toBeLessThan(2_000);
});

const unusable: readonly (readonly [string, string])[] = [
  ["no JSON", "<html>"],
  ["too few vectors", JSON.stringify({ data: [] })],
  [
    "a vector twice",
    JSON.stringify({
      data: [
        { index: 0, embedding: [1] },
        { index: 0, embedding: [1] },
      ],
    }),
  ],
  [
    "two dimensions",
    JSON.stringify({
      data: [
        { index: 0, embedding: [1, 0] },
        { index: 1, embedding: [1] },
      ],
    }),
  ],
  [
    "numbers that are none",
    JSON.stringify({
      data: [
        { index: 0, embedding: [1, null] },
        { index: 1, embedding: [1, "2"] },
      ],
    }),
  ],
  ["numbers beyond 32 bits", '{"data":[{"index":0,"embedding":[1e300]},{"index":1,"embedding":[1]}]}'],
  [
    "too many numbers",
    JSON.stringify({
      data: [0, 1].map((index) => ({ index, embedding: Array(limits.vectorDimensionMax + 1).fill(1) })),
    }),
  ],
  [
    "an index beyond the texts",
    JSON.stringify({
      data: [
        { index: 0, embedding: [1] },
        { index: 7, embedding: [1] },
      ],
    }),
  ],
];

test.each(unusable)("an answer with %s is none", async (_, text) => {
  const server = await modelServer();
  server.misbehave = () => ({ kind: "body", text });
  const { failure, vectors } = await buildEmbedder(server).embed(["a", "b"], "document", soon());
  expect([failure, vectors]).toEqual(["unusable", [undefined, undefined]]);
});

test("vectors are told by their index, and one without a direction is left out", async () => {
  const server = await modelServer();
  server.misbehave = () => ({
    kind: "body",
    text: JSON.stringify({
      data: [
        { index: 1, embedding: [0, 1] },
        { index: 2, embedding: [0, 0] },
        { index: 0, embedding: [1, 0] },
      ],
    }),
  });
  const { failure, vectors } = await buildEmbedder(server).embed(["a", "b", "c"], "document", soon());
  expect([failure, vectors.map((vector) => vector && [...vector])]).toEqual([undefined, [[1, 0], [0, 1], undefined]]);
});

test("an endless answer and one that is cut off fail", async () => {
  const server = await modelServer();
  server.misbehave = () => ({ kind: "flood" });
  expect((await buildEmbedder(server).embed(["a"], "document", soon())).failure).toBe("unusable");
  server.misbehave = () => ({ kind: "cut" });
  expect((await buildEmbedder(server).embed(["a"], "document", soon(1_500))).failure).toBe("unavailable");
});

test("a redirect is not followed: the texts stay with the host that was named", async () => {
  const [server, elsewhere] = [await modelServer(), await modelServer()];
  server.misbehave = () => ({
    kind: "status",
    status: 307,
    headers: { location: `${elsewhere.address}/v1/embeddings` },
  });
  const { failure } = await buildEmbedder(server).embed(["a"], "document", soon(1_500));
  expect(failure).toBe("unavailable");
  expect(elsewhere.requests).toEqual([]);
});

test("a text that the model does not take costs no other text its vector", async () => {
  const server = await modelServer();
  server.misbehave = ({ body }) => (body.input.includes("bad") ? { kind: "status", status: 400 } : undefined);
  const texts = Array.from({ length: 100 }, (_, at) => (at === 37 ? "bad" : `good ${at}`));
  const { failure, vectors, sentItems } = await buildEmbedder(server).embed(texts, "document", soon());
  expect([failure, sentItems]).toEqual([undefined, 100]);
  expect(vectors.flatMap((vector, at) => (vector ? [] : [at]))).toEqual([37]);
});

test("where no text is taken, it is soon given up", async () => {
  const server = await modelServer();
  server.misbehave = () => ({ kind: "status", status: 400 });
  const { failure } = await buildEmbedder(server).embed(
    Array.from({ length: 128 }, (_, at) => `t${at}`),
    "document",
    soon(),
  );
  expect(failure).toBe("rejected");
  expect(server.requests.length).toBeLessThanOrEqual(embedRejectionsMax + 1);
});

test("a provider that refuses the key is not asked again for this call, and left alone after some", async () => {
  const server = await modelServer();
  server.misbehave = () => ({ kind: "status", status: 401, text: "Incorrect API key provided: secret-key" });
  const embedder = buildEmbedder(server);
  for (let call = 1; call <= breakerFailures; call++)
    expect((await embedder.embed(["a"], "document", soon())).failure).toBe("refused");
  expect(embedder.isAwake).toBe(false);
  expect(await embedder.embed(["a"], "document", soon())).toEqual({
    vectors: [undefined],
    failure: "resting",
    sentItems: 0,
    sentBytes: 0,
  });
  expect(server.requests).toHaveLength(breakerFailures);
});

test("a provider that is back is found by one probe", async () => {
  const server = await modelServer();
  const hasty = hastyWorld(20);
  server.misbehave = () => ({ kind: "status", status: 401 });
  const embedder = buildEmbedder(server, { world: hasty });
  for (let call = 1; call <= breakerFailures; call++) await embedder.embed(["a"], "document", soon(60_000, hasty));
  server.misbehave = undefined;
  await new Promise((resolve) => setTimeout(resolve, (2 * breakerOpenMs) / 20));
  expect((await embedder.embed(["a"], "document", soon(60_000, hasty))).failure).toBeUndefined();
});

test("callers with too little time do not make it leave the provider alone", async () => {
  const server = await modelServer();
  server.misbehave = () => ({ kind: "hang" });
  const embedder = buildEmbedder(server);
  for (let call = 0; call < 2 * breakerFailures; call++) await embedder.embed(["a"], "query", soon(20));
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(embedder.isAwake).toBe(true);
});

test("Retry-After is read in both its forms", () => {
  expect(retryAfterMs("2", 0)).toBe(2_000);
  expect(retryAfterMs("Wed, 21 Oct 2015 07:28:10 GMT", Date.parse("2015-10-21T07:28:00Z"))).toBe(10_000);
  expect(retryAfterMs("Wed, 21 Oct 2015 07:28:10 GMT", Date.parse("2016-10-21T07:28:00Z"))).toBe(0);
  expect([retryAfterMs("soon", 0), retryAfterMs(null, 0), retryAfterMs("", 0)]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});
