/**
 * One request to the door of models, as its tools see it: which profile it is to, and how the service is called.
 *
 * Always true: a tool reaches the service by `call` alone, which goes through the pipeline as a call of any other wire
 * does. Must not know: the protocol, the engine.
 */
import type { CallHeaders } from "../../service/call/call.ts";
import type { ProfileAddress, ToolSetName } from "./mcp-address.ts";

/** Any JSON that is an object. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** What a method of the service answered. */
export interface ServiceAnswer<Body = JsonObject> {
  /** The answer as REST writes it; of a stored value its bytes, as `{ content_type, bytes }`. */
  readonly body: Body;
  /** The answer's headers, by their names. */
  readonly headers: ReadonlyMap<string, string>;
}

/** The headers that a tool may set. */
export type ToolHeaders = Pick<CallHeaders, "at" | "ifMatch" | "ifNoneMatch">;

export interface Visit {
  readonly address: ProfileAddress;
  readonly toolSet: ToolSetName;
  /** The client's name as it told it when it introduced itself, where it did so before. */
  readonly clientName: string | undefined;
  /**
   * Calls a method, such as `MemoryService.Ingest`, with all fields of its request as REST writes them.
   * @throws ServiceError, whatever went wrong.
   */
  call<Body = JsonObject>(method: string, request: JsonObject, headers?: ToolHeaders): Promise<ServiceAnswer<Body>>;
}

/** The fields of a request that say which profile of the memory service it is about. */
export function ofProfile({ address: { ns, profile, branch } }: Visit): JsonObject {
  return branch === undefined ? { ns, profile } : { ns, profile, branch };
}
