/** A node for all tests of a file whose models are a server of the test's own. */
import { afterAll, beforeAll, beforeEach } from "vitest";
import { startAssistantServer, type AssistantServer } from "./assistant-server.ts";
import { startService, type Service } from "./service.ts";

export interface AssistedService {
  readonly service: Service;
  readonly server: AssistantServer;
}

/** The variables that make a node ask this server. */
export function assistedBy({ address }: AssistantServer): Record<string, string> {
  return {
    SERVICE_ASSISTANT_API_KEY: "key-of-ask",
    SERVICE_ASSISTANT_MODEL: "model-of-ask",
    SERVICE_ASSISTANT_BASE_URL: address,
    SERVICE_EXTRACT_API_KEY: "key-of-extract",
    SERVICE_EXTRACT_MODEL: "model-of-extract",
    SERVICE_EXTRACT_BASE_URL: address,
  };
}

/** Starts both before the tests of a file; the server has been asked nothing when a test begins. */
export function useAssistedService(variables: Record<string, string> = {}): () => AssistedService {
  let started: AssistedService | undefined;
  beforeAll(async () => {
    const server = await startAssistantServer({ lasting: true });
    started = { server, service: await startService({ ...assistedBy(server), ...variables }) };
  });
  beforeEach(() => void (started && (started.server.requests.length = 0)));
  afterAll(async () => {
    await started?.service.close();
    await started?.server.close();
  });
  return () => {
    if (!started) throw new Error("the node is not running outside a test");
    return started;
  };
}
