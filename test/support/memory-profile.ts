/** Typed memory of one profile as a client calls it. */
import { ok } from "./service.ts";
import type { Reply, Wire } from "./wires.ts";

/** What became of one memory of an ingest. */
interface IngestedItem {
  readonly id: string;
  readonly status: string;
  readonly superseded: readonly string[];
}

/** One profile over one wire. */
export class MemoryProfile {
  readonly wire: Wire;
  readonly at: { readonly ns: string; readonly profile: string };

  constructor(wire: Wire, at: { readonly ns: string; readonly profile: string }) {
    this.wire = wire;
    this.at = at;
  }

  ingest(...memories: readonly object[]): Promise<Reply> {
    return this.wire.call("MemoryService.Ingest", { ...this.at, memories });
  }

  /** Ingests what must be taken, and gives what became of each. */
  async add(...memories: readonly object[]): Promise<IngestedItem[]> {
    return (await ok(this.ingest(...memories))).body.results;
  }

  recall(request: object, headers: Record<string, string> = {}): Promise<Reply> {
    return this.wire.call("MemoryService.Recall", { ...this.at, ...request }, headers);
  }

  async found(request: object): Promise<any[]> {
    return (await ok(this.recall(request))).body.memories;
  }

  async summaries(request: object): Promise<string[]> {
    return (await this.found(request)).map(({ summary }) => summary);
  }

  get(id: string): Promise<Reply> {
    return this.wire.call("MemoryService.GetMemory", { ...this.at, id });
  }

  forget(id: string): Promise<Reply> {
    return this.wire.call("MemoryService.ForgetMemory", { ...this.at, id });
  }

  async sessions(): Promise<string[]> {
    return (await ok(this.wire.call("MemoryService.ListSessions", this.at))).body.sessions.map(
      ({ id }: { id: string }) => id,
    );
  }

  endSession(sid: string, extra: object = {}): Promise<Reply> {
    return this.wire.call("MemoryService.EndSession", { ...this.at, sid, ...extra });
  }
}

export const fact = (summary: string, extra: object = {}): object => ({
  type: "fact",
  summary,
  content: null,
  ...extra,
});
export const event = (summary: string, extra: object = {}): object => ({
  type: "event",
  summary,
  content: null,
  ...extra,
});
export const task = (summary: string, extra: object = {}): object => ({
  type: "task",
  summary,
  content: null,
  ...extra,
});
export const theme = (colour: string): object =>
  fact(`The user prefers the ${colour} theme`, { topic_key: "ui.theme", content: { theme: colour } });
