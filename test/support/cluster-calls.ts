/** Calls to the nodes of a cluster that tests of it have in common. */
import { expect } from "vitest";
import { type Reply, type Wire } from "./wires.ts";

export function expectOk(reply: Reply): Reply {
  expect(reply, reply.message).toMatchObject({ code: "ok" });
  return reply;
}

export const ingest = (
  wire: Wire,
  ns: string,
  profile: string,
  memory: object,
  headers: Record<string, string> = {},
): Promise<Reply> =>
  wire.call("MemoryService.Ingest", { ns, profile, memories: [{ type: "fact", content: null, ...memory }] }, headers);

export async function summariesAt(
  wire: Wire,
  ns: string,
  profile: string,
  query: string,
  headers: Record<string, string> = {},
): Promise<string[]> {
  const { body } = expectOk(await wire.call("MemoryService.Recall", { ns, profile, query, k: 100 }, headers));
  return body.memories.map(({ summary }: { summary: string }) => summary).toSorted();
}

export async function readUuid(
  wire: Wire,
  name: string,
  headers: Record<string, string> = {},
): Promise<string | undefined> {
  const { body } = expectOk(await wire.call("ControlService.ListDatabases", {}, headers));
  return body.databases.find((database: { name: string }) => database.name === name)?.uuid;
}
