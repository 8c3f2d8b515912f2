/** Clients of /mcp, of both revisions: the official library's, over a socket. */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { expect, onTestFinished } from "vitest";

export const revisions = ["2026-07-28", "2025-11-25"] as const;
export type Revision = (typeof revisions)[number];

/** What a tool answered. */
interface ToolReply {
  /** The stable code of a refusal, or `ok`. */
  readonly code: string;
  readonly text: string;
  /** The structured answer. */
  readonly body: any;
}

export interface McpClient {
  readonly client: Client;
  /** Calls a tool; refusals are given too. The library holds the answer to the tool's output schema. */
  call(tool: string, given?: Record<string, unknown>): Promise<ToolReply>;
  /** Calls a tool that must not refuse. */
  ok(tool: string, given?: Record<string, unknown>): Promise<any>;
}

export interface McpClientOptions {
  readonly name?: string;
  readonly headers?: Record<string, string>;
}

/** Connects to the address of a profile; the connection ends with the test. */
export async function connectMcp(
  url: string,
  revision: Revision,
  { name = "test-client", headers = {} }: McpClientOptions = {},
): Promise<McpClient> {
  const mode = revision === "2026-07-28" ? { pin: revision } : "legacy";
  const client = new Client({ name, version: "1.0.0" }, { versionNegotiation: { mode } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  onTestFinished(() => client.close());
  // What the library knows of the answers' schemas, it has from the list.
  await client.listTools();
  const call: McpClient["call"] = async (tool, given = {}) => {
    const answer = await client.callTool({ name: tool, arguments: given });
    const [content] = answer.content;
    expect(content?.type).toBe("text");
    return {
      code: answer.isError === true ? String(answer._meta?.["palimpsest/code"]) : "ok",
      text: (content as { text: string }).text,
      body: answer.structuredContent,
    };
  };
  const ok: McpClient["ok"] = async (tool, given) => {
    const { code, text, body } = await call(tool, given);
    expect(code, text).toBe("ok");
    return body;
  };
  return { client, call, ok };
}
