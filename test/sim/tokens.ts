/** How a token is written into each data model, and how all tokens of one are read. */
import type { CallOptions, EnginePort } from "../../src/engine/api/engine-port.ts";
import type { Answer } from "../../src/engine/api/protocol.ts";
import type { Target } from "../../src/engine/api/protocol.ts";
import type { Kind } from "./changes.ts";

const listedMax = 1_000;

/** Bytes that go with a token: mostly small, sometimes many pages. */
function buildBody(token: string): Buffer {
  const number = Number(token.slice(-6)) * 2_654_435_761;
  const length = number % 7 === 0 ? number % 30_000 : number % 200;
  return Buffer.alloc(length, `${token} `);
}

/** Writes a token. */
export async function put(
  client: EnginePort,
  target: Target,
  options: CallOptions,
  kind: Kind,
  token: string,
  change: { id?: string },
): Promise<Answer> {
  switch (kind) {
    case "kv":
      return client.write(target, "kv.put", { ns: "sim", key: token, value: buildBody(token) }, options);
    case "docs":
      return client.write(
        target,
        "docs.insert",
        { collection: "sim", docs: [JSON.stringify({ _id: token })] },
        options,
      );
    case "memory": {
      const answer = await client.write(
        target,
        "memory.ingest",
        { memories: [{ type: "event", summary: token, content: "null" }] },
        options,
      );
      change.id = answer.value.results[0]!.id;
      return answer;
    }
    case "sql":
      return client.sqlWrite(
        target,
        {
          statements: [
            {
              text:
                "CREATE TABLE IF NOT EXISTS sim (n INTEGER PRIMARY KEY AUTOINCREMENT, token TEXT NOT NULL, body " +
                "TEXT)",
              paramsJson: undefined,
            },
            {
              text: "INSERT INTO sim (token, body) VALUES (?, ?)",
              paramsJson: JSON.stringify([token, buildBody(token).toString()]),
            },
          ],
          atomic: true,
          mayWrite: true,
        },
        options,
      );
  }
}

/** Every token of a kind. */
export async function list(
  client: EnginePort,
  target: Target,
  options: CallOptions,
  kind: Exclude<Kind, "memory">,
): Promise<Answer<string[]>> {
  switch (kind) {
    case "kv": {
      const answer = await client.read(target, "kv.list", { ns: "sim", limit: listedMax }, options);
      return { ...answer, value: [...answer.value.keys] };
    }
    case "docs": {
      const answer = await client.read(
        target,
        "docs.find",
        { collection: "sim", limit: listedMax, filter: "{}" },
        options,
      );
      return { ...answer, value: answer.value.docs.map((doc) => (JSON.parse(doc) as { _id: string })._id) };
    }
    case "sql": {
      const answer = await client.sqlWrite(
        target,
        {
          statements: [{ text: "SELECT token FROM sim ORDER BY n", paramsJson: undefined }],
          atomic: true,
          mayWrite: false,
        },
        options,
      );
      return { ...answer, value: (JSON.parse(answer.value[0]!.rowsJson) as [string][]).map(([token]) => token) };
    }
  }
}
