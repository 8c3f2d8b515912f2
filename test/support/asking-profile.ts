/** A profile that asks, and what the model that it asks answers. */
import { parseBlock, type AssistantReply, type AssistantRequest } from "./assistant-server.ts";
import { ok } from "./service.ts";
import type { Reply, Wire } from "./wires.ts";

let profiles = 0;

/** A profile of one test in a namespace of its own. */
export class AskingProfile {
  readonly at: { readonly ns: string; readonly profile: string };
  readonly wire: Wire;

  constructor(wire: Wire, profile = "alice", ns = `asked${++profiles}`) {
    this.wire = wire;
    this.at = { ns, profile };
  }

  call(method: string, request: object, headers: Record<string, string> = {}): Promise<Reply> {
    return this.wire.call(`MemoryService.${method}`, { ...this.at, ...request }, headers);
  }

  async ingest(...memories: readonly object[]): Promise<string[]> {
    const { body } = await ok(
      this.call("Ingest", { memories: memories.map((memory) => ({ type: "fact", content: null, ...memory })) }),
    );
    return body.results.map(({ id }: { id: string }) => id);
  }

  ask(question: string, request: object = {}): Promise<Reply> {
    return this.call("Ask", { question, ...request });
  }

  policy(policy: unknown): Promise<Reply> {
    return ok(this.wire.call("ControlService.PutNamespacePolicy", { ns: this.at.ns, policy }));
  }
}

export const says = (answer: string | null, ...sources: unknown[]): AssistantReply => ({ json: { answer, sources } });
export const shownIds = ({ data }: AssistantRequest): string[] =>
  parseBlock(data, "memories").map(({ id }: { id: string }) => id);
/** An honest model: it answers from everything that it is shown. */
export const honest = (request: AssistantRequest): AssistantReply =>
  says("The harbour is in Lisbon.", ...shownIds(request));
