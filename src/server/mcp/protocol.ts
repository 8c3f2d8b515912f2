/**
 * The Model Context Protocol as its official library speaks it: both revisions, one request at a time, nothing kept
 * between two of them.
 *
 * Always true: a request is served by a server of its own, made for its visit, so nothing of one caller can reach
 * another; every node answers every request alike. Loaded by the first visit, as a node starts in less time than the
 * library. Must not know: sockets, what a tool does.
 */
import { createMcpHandler, type McpServer, type Server, type ServerEventBus } from "@modelcontextprotocol/server";
import { assert } from "../../base/faults/assert.ts";
import type { Log } from "../../base/log.ts";
import { createOwnServer } from "./own-server.ts";
import type { Visit } from "./visit.ts";

/** Answers messages. */
export interface Protocol {
  /** Answers `body`, the message that `request` brought. Never rejects but by a fault of ours. */
  answer(request: Request, body: unknown, visit: Visit): Promise<Response>;
}

export interface ProtocolOptions {
  /** Aborted when the node leaves: streams end. */
  readonly leaving: AbortSignal;
  readonly log: Log;
}

export type OpenProtocol = (options: ProtocolOptions) => Protocol;

/** The protocol with the node's own tools, which do not change while it runs: no one may wait for changes. */
export const openOwnProtocol: OpenProtocol = (options) =>
  openProtocol(createOwnServer, { ...options, listenersMax: 0 });

/** Who is told of changes of what is offered. */
interface Listening {
  /** So many streams may wait for changes. */
  readonly listenersMax: number;
  /** What tells of them; absent where there are none. */
  readonly bus?: ServerEventBus;
}

/** The protocol with what `makeServer` offers to a visit. */
export function openProtocol(
  makeServer: (visit: Visit) => Server | McpServer,
  { leaving, log, listenersMax, bus }: ProtocolOptions & Listening,
): Protocol {
  const visits = new WeakMap<Request, Visit>();
  const handler = createMcpHandler(
    ({ requestInfo }) => {
      const visit = requestInfo && visits.get(requestInfo);
      assert(visit, "the library hands on the request that it was given");
      return makeServer(visit);
    },
    // Answers come in less time than a line is given up in, so that nothing need be sent to keep it.
    { keepAliveMs: 0, maxSubscriptions: listenersMax, ...(bus && { bus }) },
  );
  leaving.addEventListener("abort", () => void handler.close(), { once: true });
  return {
    async answer(request, body, visit) {
      visits.set(request, visit);
      const answer = await handler.fetch(request, { parsedBody: body });
      // The library's own words may hold what a client sent.
      if (answer.status === 500) log.error("the protocol's library failed at a message", undefined, { where: "mcp" });
      return answer;
    },
  };
}
