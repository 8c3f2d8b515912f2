/** The tool that people reach for first on a gRPC port: grpcurl knows nothing but what reflection tells it. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { gateTool, inGate } from "../support/gate.ts";
import { startNodeProcess } from "../support/node-process.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const run = promisify(execFile);

describe.skipIf(!inGate)("grpcurl", () => {
  test(
    "memory-01, memory-04: lists, describes, asks for health, ingests and recalls",
    { timeout: 60_000 },
    async () => {
      const node = await startNodeProcess(temporaryDirectory());
      onTestFinished(() => node.end("SIGTERM"));
      const address = `127.0.0.1:${node.port}`;
      const grpcurl = async (...given: string[]): Promise<string> =>
        (await run(gateTool("PALIMPSEST_GRPCURL"), ["-plaintext", "-max-time", "20", ...given])).stdout;
      const call = async (method: string, message: unknown): Promise<unknown> =>
        JSON.parse(await grpcurl("-d", JSON.stringify(message), address, method));

      expect((await grpcurl(address, "list")).split("\n")).toEqual(
        expect.arrayContaining(["grpc.health.v1.Health", "palimpsest.v1.MemoryService", "palimpsest.v1.DataService"]),
      );
      expect(await grpcurl(address, "describe", "palimpsest.v1.MemoryService.Recall")).toContain("rpc Recall");
      expect(await call("grpc.health.v1.Health/Check", {})).toEqual({ status: "SERVING" });

      const profile = { ns: "curl", profile: "tool" };
      const stored = await call("palimpsest.v1.MemoryService/Ingest", {
        ...profile,
        memories: [{ type: "event", summary: "The harbour froze", content: { winter: 1929 } }],
      });
      expect(stored).toMatchObject({ results: [{ status: "created" }], txid: "1" });
      const found = await call("palimpsest.v1.MemoryService/Recall", { ...profile, query: "harbour" });
      expect(found).toMatchObject({ memories: [{ summary: "The harbour froze", content: { winter: 1929 } }] });
    },
  );
});
