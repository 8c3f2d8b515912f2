/** A namespace with policies of its own and of its profiles, as a client calls it. */
import { ok, type Service } from "./service.ts";
import type { Reply, Wire, WireName } from "./wires.ts";

let namespaces = 0;

/** Makes the namespaces of a file's tests: each on the file's node by one of its wires, or on the node of the wire. */
export const namespacesOn =
  (service: () => Service) =>
  (wire: WireName | Wire): GovernedNamespace =>
    new GovernedNamespace(typeof wire === "string" ? service().wire(wire) : wire);

/** A namespace of one test, by one wire. */
export class GovernedNamespace {
  readonly name = `ns${++namespaces}`;
  readonly wire: Wire;

  constructor(wire: Wire) {
    this.wire = wire;
  }

  put(policy: unknown): Promise<Reply> {
    return this.wire.call("ControlService.PutNamespacePolicy", { ns: this.name, policy });
  }

  get(): Promise<Reply> {
    return this.wire.call("ControlService.GetNamespacePolicy", { ns: this.name });
  }

  putProfile(profile: string, policy: unknown): Promise<Reply> {
    return this.call("PutProfilePolicy", profile, { policy });
  }

  getProfile(profile: string): Promise<Reply> {
    return this.call("GetProfilePolicy", profile);
  }

  call(method: string, profile: string, request: object = {}): Promise<Reply> {
    return this.wire.call(`MemoryService.${method}`, { ns: this.name, profile, ...request });
  }

  async ingest(profile: string, ...memories: readonly object[]): Promise<string[]> {
    const { body } = await ok(
      this.call("Ingest", profile, { memories: memories.map((memory) => ({ type: "fact", content: {}, ...memory })) }),
    );
    return body.results.map(({ id }: { id: string }) => id);
  }

  async summaries(profile: string, request: object): Promise<string[]> {
    const { body } = await ok(this.call("Recall", profile, { include_superseded: true, k: 100, ...request }));
    return body.memories.map(({ summary }: { summary: string }) => summary).sort();
  }
}
