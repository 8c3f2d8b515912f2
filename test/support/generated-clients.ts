/**
 * The test of a client of `examples/` that is generated from the proto files: generated, built and run as
 * docs/start-grpc.md prints it, in an empty folder and against a node that asks for a token.
 */
import { execFile } from "node:child_process";
import { cpSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { parseBlocks, root } from "./documents.ts";
import { inGate } from "./gate.ts";
import { startNodeProcess } from "./node-process.ts";
import { temporaryDirectory } from "./temporary.ts";

const run = promisify(execFile);
const path = "docs/start-grpc.md";
const platformKey = "platform-key-of-the-generated-clients";

/** What the commands of the document find beside them. */
const carried = ["buf.yaml", "proto", "node_modules/google-proto-files"];
/** What an earlier build has left is not taken along. */
const made = /\/(gen|target)$/;
/** A first build brings its packages, and compiles them. */
const timeout = 600_000;

interface GeneratedClient {
  readonly language: string;
  readonly folder: string;
  /** Its profile in the namespace `acme`. */
  readonly profile: string;
  readonly person: string;
  /** How its language names the codes of gRPC. */
  readonly notFound: string;
  readonly unauthenticated: string;
}

export function testGeneratedClient(client: GeneratedClient): void {
  const { language, folder, profile, person, notFound, unauthenticated } = client;
  describe.skipIf(!inGate)(`a client in ${language}`, () => {
    test("remembers, recalls, reads the change feed, and shows what a refusal says", { timeout }, async () => {
      const node = await startNodeProcess(temporaryDirectory(), {
        SERVICE_AUTH: "on",
        SERVICE_SINGLE_NODE: "1",
        SERVICE_PLATFORM_KEY: platformKey,
      });
      onTestFinished(() => node.end("SIGTERM"));
      const bearer = (credential: string) => ({ authorization: `Bearer ${credential}` });
      const minting = { scope: "write" };
      const minted = await node.call("POST", "/v1/namespaces/acme/tokens", minting, bearer(platformKey));
      const { token } = minted.json;

      const tree = temporaryDirectory();
      for (const name of [...carried, folder])
        cpSync(join(root, name), join(tree, name), { recursive: true, filter: (file) => !made.test(file) });
      const blocks = parseBlocks({ path, text: readFileSync(join(root, path), "utf8") });
      const { text } = blocks.find((block) => block.language === "bash" && block.text.startsWith(`cd ${folder}\n`))!;
      const follow = (script: string, given: string) =>
        run("bash", ["-e", "-c", script], {
          cwd: tree,
          timeout,
          env: {
            ...process.env,
            PATH: [join(root, "node_modules/.bin"), process.env["PATH"]].join(delimiter),
            PALIMPSEST_ADDRESS: `http://127.0.0.1:${node.port}`,
            PALIMPSEST_TOKEN: given,
          },
        });

      const { stdout } = await follow(text, token);
      expect(stdout.trim().split("\n")).toEqual([
        "created by transaction 1",
        expect.stringMatching(`^recalled: ${person} prefers the light theme .*light`),
        "change of transaction 1: memory created",
        `refused: ${notFound}, reason not_found: no memory has this id`,
      ]);
      const recalling = { query: "theme" };
      const kept = await node.call("POST", `/v1/memory/acme/${profile}/recall`, recalling, bearer(token));
      expect(kept.json.memories).toMatchObject([{ topic_key: "theme", content: { theme: "light" } }]);

      // It was the token that opened the door.
      const again = text.replace(/^buf .*\n/m, "");
      const refused = (await follow(again, "no-token").then(
        () => expect.unreachable("a stranger was let in"),
        (error: unknown) => error,
      )) as { stdout: string; stderr: string };
      expect(refused.stdout + refused.stderr).toMatch(unauthenticated);
      expect(refused.stdout).not.toContain("created");
    });
  });
}
