/** A data directory and an object store that an earlier build left: this build goes on with them, and loses nothing. */
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { verifyReceipt } from "../../src/control/access/receipts.ts";
import { goldenAnswers, lasting, unpackGoldenStore } from "../support/make-golden-store.ts";
import { startService, type Service } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const text = { "content-type": "text/plain" };

/** A copy of what the earlier build left, and a node of this build on it. */
async function golden(): Promise<{ readonly directory: string; readonly start: () => Promise<Service> }> {
  const directory = join(temporaryDirectory(), "data");
  unpackGoldenStore(directory);
  return {
    directory,
    start: async () => {
      const service = await startService({}, directory);
      onTestFinished(() => service.close());
      return service;
    },
  };
}

async function collectAnswers(service: Service): Promise<unknown[]> {
  const answers: unknown[] = [];
  for (const { path, body, status: _status, answer: _answer, ...rest } of goldenAnswers()) {
    const { status, json, text: plain } = await service.call(body === undefined ? "GET" : "POST", path, body);
    answers.push({ path, ...(body === undefined ? {} : { body }), status, answer: lasting(json) ?? plain, ...rest });
  }
  return answers;
}

test(
  "every read of the store of format 1 is answered as by the build that left it",
  async () => {
    // What only its disk had is included.
    const { start } = await golden();
    expect(await collectAnswers(await start())).toEqual(goldenAnswers());
  },
);

test("what lies in its object storage alone is all of it, once this build has shipped what the disk had", async () => {
  const { directory, start } = await golden();
  const first = await start();
  for (const { path } of goldenAnswers())
    await first.call("GET", path.replace(/\/(kv|branches|docs|sql|vectors|memory)\/.*$/, "/kv/n"));
  expect((await first.call("POST", "/v1/db/acme--alice/sync")).status).toBe(200);
  await first.close();
  for (const name of readdirSync(directory)) if (name !== "objects") rmSync(join(directory, name), { recursive: true });
  expect(await collectAnswers(await start())).toEqual(goldenAnswers());
});

test(
  "this build writes on: over branches, back to an old checkpoint, over a receipt that verifies",
  async () => {
    const { start } = await golden();
    const service = await start();
    const plain = "/v1/db/plain";
    const rewound = await service.call("POST", `${plain}/branches/main/rewind`, { to: "ten" });
    expect(rewound.status, rewound.text).toBe(200);
    expect(
      (await service.call("PUT", `${plain}/kv/n/new`, "new", { ...text, "service-durability": "durable" })).status,
    ).toBe(200);
    expect((await service.call("GET", `${plain}/kv/n/counter`)).text).toBe("10");
    expect((await service.call("GET", `${plain}/kv/n/after`)).status).toBe(404);
    expect((await service.call("PUT", `${plain}@side/kv/n/new`, "new", text)).status).toBe(200);
    const [erasure] = (await service.call("GET", "/v1/memory/acme/alice/erasures")).json.erasures as {
      receipt: unknown;
    }[];
    const keys: unknown = (await service.call("GET", "/.well-known/jwks.json")).json;
    expect(verifyReceipt(erasure!.receipt, keys)).toMatchObject({ isValid: true });
    const found = await service.call("POST", "/v1/memory/acme/alice/recall", { query: "which theme" });
    expect(found.json.memories[0]).toMatchObject({ summary: "Alice prefers the light theme" });
  },
);
