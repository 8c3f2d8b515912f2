/** The client of a model that writes, against a server that speaks the provider's protocol. */
import { describe, expect, test } from "vitest";
import {
  Assistant,
  type AssistantOptions,
  type AssistantTask,
  assistantCallsMax,
  assistantAttemptsMax,
  assistantAnswerBytesMax,
} from "../../../src/ai/assistant.ts";
import type { ServiceError } from "../../../src/base/faults/errors.ts";
import type { Log } from "../../../src/base/log.ts";
import { realWorld, type World } from "../../../src/base/world.ts";
import { startAssistantServer, type AssistantReply, type AssistantServer } from "../../support/assistant-server.ts";

const secret = "what-a-tenant-said";
const key = "key-of-this-node";
const task: AssistantTask<object> = {
  instructions: "say yes",
  data: secret,
  schema: { type: "object", properties: { yes: { type: "boolean" } }, required: ["yes"], additionalProperties: false },
  tokensMax: 100,
  read: (written) => (typeof written === "object" && written !== null && "yes" in written ? written : undefined),
};

/** The real world, but for pauses below the deadline's length: they are over at once, and noted. */
function hastyWorld(pausesMs: number[]): World {
  const world = realWorld();
  return {
    ...world,
    after(delayMs, act) {
      if (delayMs > 60_000) return world.after(delayMs, act);
      pausesMs.push(delayMs);
      return world.after(0, act);
    },
  };
}

interface Bench {
  readonly server: AssistantServer;
  readonly assistant: Assistant;
  readonly pausesMs: number[];
  readonly logged: string[];
  write(deadlineInMs?: number, signal?: AbortSignal): Promise<unknown>;
}

async function bench(replies: readonly AssistantReply[], options: Partial<AssistantOptions> = {}): Promise<Bench> {
  const server = await startAssistantServer();
  server.say(...replies);
  const pausesMs: number[] = [];
  const logged: string[] = [];
  const note = (...words: unknown[]): void => void logged.push(JSON.stringify(words));
  const log: Log = { info: note, warn: note, error: note };
  const world = options.world ?? hastyWorld(pausesMs);
  const assistant = new Assistant({
    apiKey: key,
    model: "model-of-this-test",
    baseAddress: server.address,
    selfHostedHosts: [],
    log,
    ...options,
    world,
  });
  const write = (deadlineInMs = 100_000, signal?: AbortSignal): Promise<unknown> =>
    assistant.write(task, { deadlineMs: world.monotonicMs() + deadlineInMs, signal });
  return { server, assistant, pausesMs, logged, write };
}

/** The refusal, of which neither message nor log may hold what was sent. */
async function refusal({ write, logged }: Bench, deadlineInMs?: number): Promise<ServiceError> {
  const error = (await write(deadlineInMs).then(
    () => expect.unreachable("it was answered"),
    (thrown: unknown) => thrown,
  )) as ServiceError;
  expect(error.name).toBe("ServiceError");
  for (const text of [error.message, ...logged]) for (const hidden of [secret, key]) expect(text).not.toContain(hidden);
  return error;
}

const fine: AssistantReply = { json: { yes: true } };

describe("what is sent", () => {
  test("instructions, data and schema each in their place, with the key and nothing of this machine", async () => {
    const { server, write } = await bench([fine]);
    expect(await write()).toEqual({ yes: true });
    const [{ headers, body }] = server.requests as [AssistantServer["requests"][0]];
    expect(body).toEqual({
      model: "model-of-this-test",
      max_tokens: 100,
      system: "say yes",
      messages: [{ role: "user", content: secret }],
      output_config: { format: { type: "json_schema", schema: task.schema } },
    });
    expect(headers.authorization).toBe(`Bearer ${key}`);
    expect(Object.keys(headers).filter((name) => name.startsWith("x-stainless"))).toEqual([]);
  });

  test("only a model that nobody has chosen is told how much to think", async () => {
    // Of others it is not known what they understand.
    const { server, write } = await bench([fine], { model: undefined });
    await write();
    expect(server.requests[0]!.body.output_config).toMatchObject({ effort: "low" });
  });

  test("the identity says where it goes: the provider's own address unless told otherwise", async () => {
    const { assistant } = await bench([fine]);
    expect(assistant.identity).toEqual({
      provider: "anthropic",
      model: "model-of-this-test",
      endpointHost: "127.0.0.1",
      selfHosted: true,
    });
    const own = await bench([fine], { baseAddress: undefined, model: undefined });
    expect(own.assistant.identity).toMatchObject({ endpointHost: "api.anthropic.com", selfHosted: false });
    const listed = await bench([fine], {
      baseAddress: "https://models.example.com/v2",
      selfHostedHosts: ["models.example.com"],
    });
    expect(listed.assistant.identity).toMatchObject({ endpointHost: "models.example.com", selfHosted: true });
  });
});

describe("failures", () => {
  test.each([
    ["a refusal", { text: "I must not", stop: "refusal" }, /refused to answer/],
    ["an answer cut at its bound", { text: '{"yes":', stop: "max_tokens" }, /cut off/],
    ["a full context", { text: '{"yes":', stop: "model_context_window_exceeded" }, /cut off/],
    ["a pause", { text: "{}", stop: "pause_turn" }, /form/],
    ["words instead of JSON", { text: `Here you are: ${secret}` }, /form/],
    ["JSON of another form", { json: { no: true } }, /form/],
    ["a body that is no JSON", { raw: `<html>${secret}` }, /form/],
    ["another type", { raw: secret, type: "text/plain" }, /form/],
    ["JSON that is no message", { raw: "null" }, /form/],
    ["a message without content", { raw: '{"stop_reason":"end_turn","content":{}}' }, /form/],
    ["content without text", { raw: '{"stop_reason":"end_turn","content":[null,{"type":"text"}]}' }, /form/],
    ["an answer beyond its bound", { raw: `"${"x".repeat(assistantAnswerBytesMax)}"` }, /form/],
    ["a refused key", { status: 401 }, /key \(status 401\)/],
    ["a refused request", { status: 400 }, /refused the request \(status 400\)/],
  ] as const)("%s is unavailable, is not tried again, and quotes nothing", async (_, reply, message) => {
    const tried = await bench([reply, fine]);
    expect(await refusal(tried)).toMatchObject({
      code: "unavailable",
      message: expect.stringMatching(message),
      detail: { isLasting: true },
    });
    expect(tried.server.requests).toHaveLength(1);
    expect(tried.logged).toHaveLength(1);
  });

  test.each([429, 529, 500, 503, 408])("status %i is tried again, and passes", async (status) => {
    const tried = await bench([{ status }, { status }, fine]);
    expect(await tried.write()).toEqual({ yes: true });
    expect(tried.pausesMs).toHaveLength(2);
    expect(tried.logged).toEqual([]);
  });

  test("a cut connection is tried again; one that cannot be made is told as such", async () => {
    expect(await (await bench(["cut", fine])).write()).toEqual({ yes: true });
    const nobody = await bench([fine]);
    await nobody.server.close();
    expect(await refusal(nobody)).toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("cannot be reached"),
    });
  });

  test("attempts are bounded", async () => {
    const tried = await bench([{ status: 500 }]);
    expect(await refusal(tried)).toMatchObject({ code: "unavailable", message: expect.stringContaining("status 500") });
    expect(tried.server.requests).toHaveLength(assistantAttemptsMax);
  });

  test("Retry-After is kept; one that ends after the deadline is passed on at once", async () => {
    const kept = await bench([{ status: 429, headers: { "retry-after": "7" } }, fine]);
    await kept.write();
    expect(kept.pausesMs).toEqual([7_000]);
    const passed = await bench([{ status: 429, headers: { "retry-after": "700" } }, fine]);
    expect((await refusal(passed)).detail).toEqual({ retryAfterSecs: 700 });
    expect([passed.pausesMs, passed.server.requests.length]).toEqual([[], 1]);
  });

  test("no redirect is followed: neither key nor text reach another host", async () => {
    const other = await startAssistantServer();
    other.say(fine);
    const tried = await bench([{ redirect: `${other.address}/v1/messages` }]);
    expect(await refusal(tried)).toMatchObject({ code: "unavailable" });
    expect(other.requests).toEqual([]);
  });
});

describe("time and room", () => {
  test.each(["hang", "hang_in_body"] as const)(
    "%s: the call ends at its deadline, and the connection with it",
    async (reply) => {
      const tried = await bench([reply], { world: realWorld() });
      expect(await refusal(tried, 300)).toMatchObject({ code: "request_timeout" });
      await expect.poll(() => tried.server.abandoned.count).toBe(1);
      expect(tried.server.requests).toHaveLength(1);
    },
  );

  test("a caller that goes away takes the call with it, also while it pauses", async () => {
    for (const reply of ["hang", { status: 429, headers: { "retry-after": "30" } }] as const) {
      const { server, write } = await bench([reply], { world: realWorld() });
      const gone = new AbortController();
      const writing = write(50_000, gone.signal);
      await expect.poll(() => server.requests.length).toBe(1);
      gone.abort();
      await expect(writing).rejects.toMatchObject({ code: "request_timeout" });
      expect(server.requests).toHaveLength(1);
      await expect(write(50_000, gone.signal)).rejects.toMatchObject({ code: "request_timeout" });
      expect(server.requests).toHaveLength(1);
    }
  });

  test("only so many calls are under way; a further one is turned away and sends nothing", async () => {
    const { server, write } = await bench(["hang"], { world: realWorld() });
    const gone = new AbortController();
    const held = Array.from({ length: assistantCallsMax }, () => write(50_000, gone.signal).catch(() => "gone"));
    await expect(write()).rejects.toMatchObject({ code: "overloaded", detail: { retryAfterSecs: 1 } });
    await expect.poll(() => server.requests.length, { timeout: 5_000 }).toBe(assistantCallsMax);
    gone.abort();
    await Promise.all(held);
    server.say(fine);
    expect(await write()).toEqual({ yes: true });
  });
});
