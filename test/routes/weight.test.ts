/**
 * Whatever a caller sends, the node goes on serving everybody else: large bodies are decoded in pieces, and what no
 * honest request holds is refused before a parser sees it.
 */
import { create, toBinary } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { IngestRequestSchema, MemoryInputSchema } from "../../gen/palimpsest/v1/memory_pb.ts";
import { field, hostileMessages, hostileTexts } from "../support/hostile-bodies.ts";
import {
  calm,
  envelope,
  openSession,
  sendHttp2,
  sendRaw,
  weighedNode,
  type RawAnswer,
  type WeighedNode,
} from "../support/weighed-node.ts";

const MiB = 1 << 20;
const ingest = "/palimpsest.v1.MemoryService/Ingest";
const rest = "/v1/memory/a/b/memories";

/** The refusal or acceptance of a body, as its code. */
function parseCode(answer: RawAnswer): string {
  if (answer.status === 201) return "ok";
  const body = answer.body.toString();
  return body.startsWith("{")
    ? String((JSON.parse(body) as { code: string }).code)
    : String({ ...answer.headers, ...answer.trailers }["grpc-status"]);
}

const open = (): Promise<WeighedNode> => weighedNode({ SERVICE_SINGLE_NODE: "1" });

test("REST and Connect: hostile JSON of 31 MiB is refused or taken, and holds nobody up", async () => {
  const { node, under } = await open();
  const seen: Record<string, readonly [string, string, number]> = {};
  for (const [what, text] of hostileTexts(31 * MiB)) {
    const body = Buffer.from(text);
    const { value, healthMs } = await calm(under, async () => {
      const byRest = await sendRaw(node.port, rest, { "content-type": "application/json" }, body);
      const byConnect = await sendRaw(
        node.port,
        ingest,
        { "content-type": "application/json" },
        Buffer.from(text.replace("{", '{"ns":"a","profile":"b",')),
      );
      return [byRest, byConnect] as const;
    });
    seen[what] = [parseCode(value[0]), value[1].status === 200 ? "ok" : parseCode(value[1]), Math.round(healthMs)];
  }
  for (const [what, [byRest, byConnect, healthMs]] of Object.entries(seen)) {
    expect(["ok", "invalid_request"], `${what} ${byRest}`).toContain(byRest);
    expect(["ok", "invalid_argument"], `${what} ${byConnect}`).toContain(byConnect);
    expect(healthMs, what).toBeLessThan(200);
  }
}, 300_000);

test("gRPC: hostile messages of 31 MiB are refused, and hold nobody up", async () => {
  const { address, under } = await open();
  const session = openSession(address);
  const seen: Record<string, readonly [string, number]> = {};
  for (const [what, message] of hostileMessages(31 * MiB)) {
    const { value, healthMs } = await calm(under, () =>
      sendHttp2(
        session,
        ingest,
        { "content-type": "application/grpc" },
        envelope(Buffer.concat([field(1, Buffer.from("a")), field(2, Buffer.from("b")), message])),
      ),
    );
    seen[what] = [parseCode(value), Math.round(healthMs)];
  }
  for (const [what, [code, healthMs]] of Object.entries(seen)) {
    expect(code, what).toBe("3");
    expect(healthMs, what).toBeLessThan(200);
  }
}, 300_000);

test("an honest ingest of a thousand memories with vectors, 25 MiB, is taken and holds nobody up", async () => {
  const { node, address, under } = await open();
  const embedding = Array.from({ length: 1536 }, (_, at) => Math.sin(at));
  const memories = Array.from({ length: 1_000 }, (_, at) => ({
    type: "event",
    summary: `event ${at}`,
    content: { at },
    embedding: embedding.map((value) => Math.fround(value + at / 1_000)),
  }));
  const restBody = Buffer.from(JSON.stringify({ memories }));
  const connectBody = Buffer.from(
    JSON.stringify({
      ns: "a",
      profile: "c",
      memories: memories.map((one) => ({ ...one, embedding: { values: one.embedding } })),
    }),
  );
  const message = create(IngestRequestSchema, {
    ns: "a",
    profile: "g",
    memories: memories.map((one) =>
      create(MemoryInputSchema, { type: one.type, summary: one.summary, embedding: { values: one.embedding } }),
    ),
  });
  const grpcBody = envelope(toBinary(IngestRequestSchema, message));
  const session = openSession(address);
  const seen: Record<string, number> = {};
  const one = async (what: string, act: () => Promise<RawAnswer>): Promise<void> => {
    const { value, healthMs } = await calm(under, act);
    expect([what, value.status, value.body.toString().slice(0, 200)]).toEqual([
      what,
      value.status === 201 ? 201 : 200,
      expect.any(String),
    ]);
    seen[what] = Math.round(healthMs);
  };
  await one("REST", () => sendRaw(node.port, rest, { "content-type": "application/json" }, restBody));
  await one("Connect", () => sendRaw(node.port, ingest, { "content-type": "application/json" }, connectBody));
  await one("gRPC", () => sendHttp2(session, ingest, { "content-type": "application/grpc" }, grpcBody));
  for (const [what, healthMs] of Object.entries(seen)) expect(healthMs, what).toBeLessThan(200);
}, 120_000);
