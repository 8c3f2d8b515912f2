/**
 * The packages as they are published: made in one folder, looked at by publint and attw, and tried as a stranger would
 * with `npx -y palimpsest`, without a compiler.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { root } from "../support/documents.ts";
import { gateTool, inGate } from "../support/gate.ts";
import { openModelServer } from "../support/model-server.ts";
import { callRest } from "../support/node-process.ts";
import { install, serve } from "../support/packed.ts";
import { startS3Double } from "../support/s3-double.ts";
import { startCollector } from "../support/trace-collector.ts";

const run = promisify(execFile);
const tools = join(root, "node_modules/.bin");
/** Of one platform, on the disk. */
const installedMegabytesMax = 120;

async function runNode(...given: readonly string[]): Promise<string> {
  const { stdout } = await run(process.execPath, [...given], { cwd: root, maxBuffer: 64 * 1024 * 1024 });
  return stdout;
}

describe.skipIf(!inGate)("the published packages", { timeout: 600_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), "palimpsest-published-"));
  const staged = join(folder, "staged");
  let archives: readonly string[];
  const find = (pattern: RegExp): string =>
    join(
      staged,
      archives.find((name) => pattern.test(name))!,
    );
  beforeAll(async () => {
    await runNode("packages/native/main.ts", "--out", staged);
    archives = readdirSync(staged);
    return () => rmSync(folder, { recursive: true, force: true });
  }, 600_000);

  test("are the main one, that of this platform, and the clients", () => {
    const names = archives.map((name) => name.replace(/-\d.*/, ""));
    expect(names.filter((name) => !name.startsWith("palimpsest-native-")).toSorted()).toEqual([
      "palimpsest",
      "palimpsest-client",
      "palimpsest-connect",
      "palimpsest-mcp",
    ]);
    expect(names).toHaveLength(5);
  });

  test("publint finds nothing in any of them", async () => {
    for (const archive of archives)
      await run(join(tools, "publint"), ["run", join(staged, archive), "--strict"], { cwd: root }).catch(
        ({ stdout, stderr }: { stdout: string; stderr: string }) =>
          expect.fail(`${archive}: publint says\n${stdout}${stderr}`),
      );
  });

  test.each(["client", "connect"])("attw finds the types of %s right for whoever may import it", async (name) => {
    const archive = find(new RegExp(`^palimpsest-${name}-\\d`));
    await run(join(tools, "attw"), [archive, "--profile", "esm-only"], { cwd: root }).catch(
      ({ stdout, stderr }: { stdout: string; stderr: string }) => expect.fail(`attw says\n${stdout}${stderr}`),
    );
  });

  test("npx -y palimpsest in an empty folder, without a compiler: small, and soon has its first memory", async () => {
    const told = await runNode("packages/native/try.ts", staged);
    console.log(`installed, and from the command to the first memory: ${told.trim()}`);
    const { megabytes } = JSON.parse(told) as { readonly megabytes: number };
    expect(megabytes).toBeGreaterThan(10);
    expect(megabytes).toBeLessThanOrEqual(installedMegabytesMax);
  });

  describe("installed", () => {
    const stranger = mkdtempSync(join(tmpdir(), "palimpsest-stranger-"));
    beforeAll(async () => {
      await install(stranger, find(/^palimpsest-\d/));
      return () => rmSync(stranger, { recursive: true, force: true });
    }, 300_000);

    test("have all that a node loads on occasion: S3, traces, metrics, models, MCP", async () => {
      const [store, collector, model] = [await startS3Double(), await startCollector(), await openModelServer()];
      onTestFinished(() => model.close());
      const port = await serve(stranger, {
        AWS_ACCESS_KEY_ID: "first",
        AWS_SECRET_ACCESS_KEY: "secret",
        AWS_ENDPOINT_URL: store.location.endpoint!,
        AWS_REGION: "us-east-1",
        AWS_ALLOW_HTTP: "true",
        SERVICE_OBJECT_STORE: "s3://bucket/objects",
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.address,
        SERVICE_EMBED_API_KEY: "key",
        SERVICE_EMBED_PROVIDER: "openai",
        SERVICE_EMBED_BASE_URL: model.address,
      });
      const memories = [{ type: "fact", summary: "The lighthouse keeper is Ada", content: null }];
      expect(await callRest(port, "POST", "/v1/memory/pack/s3/memories", { memories })).toMatchObject({ status: 201 });
      expect(await callRest(port, "POST", "/v1/db/pack--s3/sync", {})).toMatchObject({ status: 200 });
      expect(await callRest(port, "GET", "/metrics")).toMatchObject({ status: 200 });
      const asked = { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} };
      const accept = { accept: "application/json, text/event-stream" };
      expect(await callRest(port, "POST", "/mcp/pack/s3", asked, accept)).toMatchObject({ status: 200 });
      expect(store.requests.some(({ method, key }) => method === "PUT" && key.includes("db/"))).toBe(true);
      expect(model.requests.length).toBeGreaterThan(0);
      await vi.waitFor(() => expect(collector.spans.length).toBeGreaterThan(0), { timeout: 30_000 });
    });

    test("have every file that one of their files imports", async () => {
      const lib = join(stranger, "node_modules/palimpsest/dist/lib");
      // Those without a hash in their names are started as processes and threads, and load others of them.
      const shared = readdirSync(lib).filter((name) => /-[\w-]{8}\.js$/.test(name));
      expect(shared.length).toBeGreaterThan(10);
      const program = shared.map((name) => `await import(${JSON.stringify(join(lib, name))});`).join("\n");
      await run(process.execPath, ["--input-type=module", "--eval", `${program}\nprocess.exit();`], { cwd: stranger });
    });

    test("have the licences of all that is built into them", () => {
      const text = readFileSync(join(stranger, "node_modules/palimpsest/dist/THIRD-PARTY-LICENSES.txt"), "utf8");
      for (const name of ["openai", "@anthropic-ai/sdk", "@aws-sdk/client-s3", "@opentelemetry/api", "pino", "jose"])
        expect(text).toContain(`Name: ${name}\n`);
      expect(text.length).toBeGreaterThan(50_000);
    });

    test("have a proxy for MCP that runs on an older Node and on this one", async () => {
      await install(stranger, find(/^palimpsest-mcp-/));
      const port = await serve(stranger);
      for (const node of [gateTool("PALIMPSEST_OLDER_NODE"), process.execPath]) {
        const proxy = run(
          "npx",
          ["--no-install", "palimpsest-mcp", "acme/alice", "--url", `http://127.0.0.1:${port}`],
          {
            cwd: stranger,
            env: { ...process.env, PATH: [dirname(node), process.env["PATH"]].join(delimiter) },
          },
        );
        proxy.child.stdin!.end('{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}\n');
        expect(JSON.parse((await proxy).stdout)).toMatchObject({ id: 1, result: { tools: expect.any(Array) } });
      }
    });

    test("say in one line which Node they need to an older one", async () => {
      const older = gateTool("PALIMPSEST_OLDER_NODE");
      const { stdout: version } = await run(older, ["--version"]);
      await expect(
        run("npx", ["--no-install", "palimpsest"], {
          cwd: stranger,
          env: { ...process.env, PATH: [dirname(older), process.env["PATH"]].join(delimiter) },
        }),
      ).rejects.toMatchObject({
        code: 1,
        stdout: "",
        stderr: expect.stringMatching(
          new RegExp(`^palimpsest needs Node 24 or later, and this is Node ${version.trim().slice(1)}\\.[^\\n]*\\n$`),
        ),
      });
    });
  });
});
