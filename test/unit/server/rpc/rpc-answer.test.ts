/** Large answers over gRPC: refused when encoding them would hold up everybody, and quick enough below that. */
import { create, toBinary, toJson } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { ExecuteSqlResponseSchema, SqlResultSchema } from "../../../../gen/palimpsest/v1/data_pb.ts";
import { MemorySchema, RecallResponseSchema } from "../../../../gen/palimpsest/v1/memory_pb.ts";
import { prepareAnswer } from "../../../../src/server/rpc/rpc-answer.ts";
import { compileWriter } from "../../../../src/server/rest/rest-encoder.ts";
import { setJson } from "../../../../src/service/call/exact-json.ts";

const world = { soon: (act: () => void): void => void setImmediate(act) };

function recalled(contents: readonly string[]) {
  const memories = contents.map((content, at) => {
    const memory = create(MemorySchema, { id: `mem_${at}`, type: "fact", summary: "s" });
    setJson(memory, "content", content);
    return memory;
  });
  return create(RecallResponseSchema, { memories });
}

/** What the thread takes for it, in milliseconds of its own time. */
function costMs(act: () => void): number {
  const before = process.threadCpuUsage();
  act();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

test("an answer of more values than can be encoded at once is refused, and REST has it in a moment", async () => {
  const dense = `[${"[],".repeat(340_000)}[]]`;
  const answer = recalled(Array(31).fill(dense));
  await expect(prepareAnswer(answer, world)).rejects.toMatchObject({
    code: "invalid_request",
    message: expect.stringContaining("over REST"),
  });
  const write = compileWriter(RecallResponseSchema);
  let text = "";
  expect(costMs(() => (text = write(answer)))).toBeLessThan(60);
  expect(text.length).toBeGreaterThan(31 * 1_000_000);
  const rows = create(SqlResultSchema, { columns: ["a"] });
  setJson(rows, "rows", dense);
  await expect(prepareAnswer(create(ExecuteSqlResponseSchema, { results: [rows] }), world)).rejects.toMatchObject({
    code: "invalid_request",
  });
});

test("one below that is encoded in a time that can be told", async () => {
  const answer = recalled(Array(9).fill(`[${"[],".repeat(10_000)}[]]`));
  await prepareAnswer(answer, world);
  expect(costMs(() => toBinary(RecallResponseSchema, answer))).toBeLessThan(300);
  const text = recalled(Array(31).fill(JSON.stringify("x".repeat(1_000_000))));
  await prepareAnswer(text, world);
  expect(costMs(() => toBinary(RecallResponseSchema, text))).toBeLessThan(100);
});

test.each([
  '{"a":[1,null,"\\ud83d\\ude00"]}',
  '"\\ud800 alone"',
  "[1e308,1e999,-1e999]",
  `[${"9".repeat(400)}]`,
  '"E+300 in a text"',
])("what is made ready is what is read otherwise: %s", async (content) => {
  const [plain, settled] = [recalled([content]), recalled([content, JSON.stringify("y".repeat(40_000)), content])];
  await prepareAnswer(settled, world);
  expect(toJson(MemorySchema, settled.memories[2]!)).toMatchObject({
    content: (toJson(MemorySchema, plain.memories[0]!) as { content: never }).content,
  });
});
