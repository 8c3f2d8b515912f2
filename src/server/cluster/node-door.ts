/**
 * The door between nodes: serves the node-internal service, to callers that have the cluster key.
 *
 * Always true: the key is looked at before anything of a request's body is read, and in a time that says nothing of how
 * much of it was right; the key opens this service and nothing else, and no other credential opens it. It is asked for
 * whether clients are or not. Must not know what a call does.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { type ExchangeRequest, type ExchangeResponse, NodeService } from "../../../gen/palimpsest/node/v1/node_pb.ts";
import { ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { callHeaderNames } from "../../service/call/call.ts";
import { toConnectError } from "../rpc/rpc-protocols.ts";
import { refusalFor } from "../wire/refusal.ts";
import type { WireRequest } from "../wire/listener.ts";
import { Exchange, type ExchangeOptions } from "./node-exchange.ts";

export interface NodeDoorOptions extends ExchangeOptions {
  /** What the nodes of a cluster know each other by. */
  readonly clusterKey: string;
}

const pathStart = `/${NodeService.typeName}/`;

export class NodeDoor {
  readonly #options: NodeDoorOptions;
  readonly #keyDigest: Buffer;
  readonly #exchanges = new Set<Exchange>();
  #isLeaving = false;

  constructor(options: NodeDoorOptions) {
    this.#options = options;
    this.#keyDigest = computeDigest(options.clusterKey);
  }

  /** Whether a request is for this service. */
  owns({ url }: WireRequest): boolean {
    return url?.startsWith(pathStart) ?? false;
  }

  /** Why a request for this service must not come in: it has not the key. Asked of every one, on every wire. */
  findRefusal({ headers }: WireRequest): ServiceError | undefined {
    const given = headers[callHeaderNames.internal];
    return this.#findRefusal(typeof given === "string" ? given : undefined);
  }

  /** Adds the service, which looks at the key itself too: it is safe wherever it is added. */
  addTo(router: ConnectRouter): void {
    router.service(
      NodeService,
      { exchange: (requests, { signal }) => this.#exchange(requests, signal) },
      {
        readMaxBytes: limits.peerMessageBytesMax,
        requestGate: ({ requestHeader }) => {
          const refusal = this.#findRefusal(requestHeader.get(callHeaderNames.internal) ?? undefined);
          if (refusal) throw toConnectError(refusal);
        },
      },
    );
  }

  /** What is under way is answered and the streams end; nothing more is taken. */
  drain(): void {
    this.#isLeaving = true;
    for (const exchange of this.#exchanges) exchange.leave();
  }

  async *#exchange(requests: AsyncIterable<ExchangeRequest>, gone: AbortSignal): AsyncGenerator<ExchangeResponse> {
    const { world, log } = this.#options;
    if (this.#isLeaving) throw toConnectError(new ServiceError("unavailable", "this node is leaving"));
    const exchange = new Exchange(this.#options);
    this.#exchanges.add(exchange);
    try {
      yield* exchange.run(requests, gone);
    } catch (error) {
      // A caller that is gone hears nothing of it, and its leaving is no fault of ours.
      if (gone.aborted) return;
      // What cannot be read as a message is refused by the library, in its own words.
      if (error instanceof ConnectError) throw error;
      throw toConnectError(refusalFor(error, "a stream of another node", world, log));
    } finally {
      this.#exchanges.delete(exchange);
    }
  }

  #findRefusal(key: string | undefined): ServiceError | undefined {
    if (key === undefined) return new ServiceError("unauthorized", "this call needs the cluster key");
    // Digests have one length, so the comparison takes the same time for every guess.
    return timingSafeEqual(computeDigest(key), this.#keyDigest)
      ? undefined
      : new ServiceError("unauthorized", "the cluster key is not the one of this node");
  }
}

function computeDigest(key: string): Buffer {
  return createHash("sha256").update(key).digest();
}
