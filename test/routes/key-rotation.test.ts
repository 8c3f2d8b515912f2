/** The signing key is replaced by a command, and no token is refused for it before its time. */
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { keyCommand } from "../../src/server/cli/key-command.ts";
import { runCommand } from "../support/command-runs.ts";
import { startGuarded, type Guarded } from "../support/guarded-service.ts";
import { temporaryDirectory } from "../support/temporary.ts";

async function rotate(
  directory: string,
  env: Record<string, string> = {},
): Promise<readonly [code: number | undefined, said: string]> {
  const { code, out, error } = await runCommand(keyCommand, ["rotate", "--data-dir", directory], env);
  return [code, out + error];
}

async function on<Value>(directory: string, act: (node: Guarded) => Promise<Value>): Promise<Value> {
  const node = await startGuarded({}, directory);
  try {
    return await act(node);
  } finally {
    await node.service.close();
  }
}

const readKid = (token: string): string =>
  JSON.parse(Buffer.from(token.split(".")[0]!, "base64url").toString()).kid as string;

test("tokens of earlier keys are taken until they can have expired, and each key set lists them all", async () => {
  const directory = temporaryDirectory();
  const ingest = async (node: Guarded, token: string): Promise<number> =>
    (
      await node.call(token, "POST", "/v1/memory/acme/p/memories", {
        memories: [{ type: "fact", summary: "x", content: 1 }],
      })
    ).status;
  const tokens: string[] = [];
  for (let turn = 0; turn < 3; turn++) {
    if (turn > 0) expect(await rotate(directory)).toEqual([0, expect.stringContaining(readKid(tokens.at(-1)!))]);
    await on(directory, async (node) => {
      tokens.push(await node.mint({ ns: "acme" }, "write"));
      for (const token of tokens) expect(await ingest(node, token)).toBe(201);
      const listed = (await node.call(undefined, "GET", "/.well-known/jwks.json")).json.keys.map(
        ({ kid }: { kid: string }) => kid,
      ) as string[];
      expect(listed[0]).toBe(readKid(tokens.at(-1)!));
      expect(listed.toSorted()).toEqual(tokens.map(readKid).toSorted());
    });
  }
  const path = join(directory, "signing-key.pem");
  const text = readFileSync(path, "utf8");
  expect([
    text.match(/PRIVATE KEY-----\n/g)?.length,
    text.match(/BEGIN PUBLIC KEY/g)?.length,
    statSync(path).mode & 0o077,
  ]).toEqual([2, 2, 0]);
  // A month later no token of the old keys can be good, whatever its claims say.
  writeFileSync(path, text.replaceAll(/Retired: \S+/g, "Retired: 2020-01-01T00:00:00.000Z"));
  await on(directory, async (node) =>
    expect([await ingest(node, tokens[0]!), await ingest(node, tokens[1]!), await ingest(node, tokens[2]!)]).toEqual([
      401, 401, 201,
    ]),
  );
  await rotate(directory);
  expect(readFileSync(path, "utf8").match(/BEGIN PUBLIC KEY/g)).toHaveLength(1);
});

test("nothing is rotated that is not there, or is not what counts", async () => {
  const directory = temporaryDirectory();
  expect(await rotate(directory)).toEqual([1, expect.stringContaining("no signing key")]);
  expect(await rotate(directory, { SERVICE_AUTH_KEY: "x" })).toEqual([1, expect.stringContaining("SERVICE_AUTH_KEY")]);
  writeFileSync(join(directory, "signing-key.pem"), "garbage");
  expect(await rotate(directory)).toEqual([1, expect.stringContaining("not a private key")]);
  expect(readFileSync(join(directory, "signing-key.pem"), "utf8")).toBe("garbage");
});
