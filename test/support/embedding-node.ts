/** A node that makes vectors itself, against a server that speaks the real protocols, and profiles on it. */
import { afterAll, beforeAll, beforeEach, onTestFinished } from "vitest";
import { openModelServer, type ModelServer } from "./model-server.ts";
import { ok, startService, type Service } from "./service.ts";
import type { Wire } from "./wires.ts";

/** The server of models, and the node that asks it, of the test file that uses them. */
export let model: ModelServer;
export let service: Service;

export function variables(more: Record<string, string> = {}): Record<string, string> {
  return {
    SERVICE_EMBED_API_KEY: "key-of-the-test",
    SERVICE_EMBED_PROVIDER: "openai",
    SERVICE_EMBED_BASE_URL: model.address,
    SERVICE_AUDIT_FLUSH_MS: "20",
    ...more,
  };
}

/** Both run while the tests of the file do; each test begins with a model that behaves and was asked nothing. */
export function useEmbeddingNode(): void {
  beforeAll(async () => {
    model = await openModelServer();
    service = await startService(variables());
  });
  afterAll(async () => {
    await service.close();
    await model.close();
  });
  beforeEach(() => {
    model.requests.length = 0;
    model.misbehave = undefined;
  });
}

/** The node over REST. */
export const wire = (): Wire => service.wire("rest");

/** The texts that have reached the model. */
export function sent(): string[] {
  return model.requests.flatMap(({ body }) => body.input);
}

/** A node of one test. */
export async function nodeWith(more: Record<string, string>, directory?: string): Promise<Service> {
  const node = await startService(variables(more), directory);
  onTestFinished(() => node.close());
  return node;
}

let names = 0;

/** A profile of one test, in a namespace of its own. */
export class Profile {
  readonly at = { ns: `ns${++names}`, profile: "p" };
  wire: Wire;

  constructor(wire: Wire) {
    this.wire = wire;
  }

  /** What each memory of an ingest was told of its vector. */
  async ingest(...memories: readonly object[]): Promise<(string | undefined)[]> {
    const { body } = await ok(
      this.wire.call("MemoryService.Ingest", {
        ...this.at,
        memories: memories.map((memory) => ({ type: "fact", content: null, ...memory })),
      }),
    );
    return body.results.map(({ embedding }: { embedding?: string }) => embedding);
  }

  /** Summary and channels of what is found. */
  async recall(request: object): Promise<string[]> {
    const { body } = await ok(this.wire.call("MemoryService.Recall", { ...this.at, ...request }));
    return body.memories.map(
      ({ summary, channels }: { summary: string; channels: string[] }) => `${summary}: ${channels.join("+")}`,
    );
  }

  append(session: string, content: unknown): ReturnType<typeof ok> {
    return ok(this.wire.call("DataService.AppendTurn", { db: `${this.at.ns}--p`, session, role: "user", content }));
  }

  policy(policy: object): ReturnType<typeof ok> {
    return ok(this.wire.call("ControlService.PutNamespacePolicy", { ns: this.at.ns, policy }));
  }

  async events(action?: string): Promise<Record<string, any>[]> {
    const { body } = await ok(
      this.wire.call("ControlService.ReadAudit", { ns: this.at.ns, ...(action === undefined ? {} : { action }) }),
    );
    return body.events;
  }

  /** Goes through all steps of a reembed, and says how many there were and what they came to. */
  async reembed(request: object = {}): Promise<{ steps: number; embedded: number; left: number }> {
    const sum = { steps: 0, embedded: 0, left: 0 };
    for (let cursor: string | null | undefined; cursor !== null; sum.steps++) {
      const { body } = await ok(
        this.wire.call("MemoryService.Reembed", {
          ...this.at,
          ...request,
          ...(cursor === undefined ? {} : { cursor }),
        }),
      );
      sum.embedded += body.embedded;
      sum.left += body.left;
      cursor = body.next_cursor;
    }
    return sum;
  }
}
