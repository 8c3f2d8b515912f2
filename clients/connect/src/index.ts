/**
 * `@palimpsest/connect`: the services of the interface and their messages, as they are generated from the proto files,
 * and a transport to a node.
 *
 * Always true: nothing is here by hand but the transport; any other of Connect's (gRPC by `@connectrpc/connect-node`)
 * takes the services as well. Must not know: what `@palimpsest/client` does by itself, such as retries.
 */
import type { Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";

export * from "../../../gen/palimpsest/v1/branch_pb.ts";
export * from "../../../gen/palimpsest/v1/change_pb.ts";
export * from "../../../gen/palimpsest/v1/control_pb.ts";
export * from "../../../gen/palimpsest/v1/data_pb.ts";
export * from "../../../gen/palimpsest/v1/file_pb.ts";
export * from "../../../gen/palimpsest/v1/memory_pb.ts";

export interface PalimpsestTransportOptions {
  /** The node, or what stands before several. Default: `http://127.0.0.1:8080`. */
  readonly url?: string | URL | undefined;
  /** The credential, or what gives it before each call. */
  readonly token?: string | (() => string | Promise<string>) | undefined;
  /** Another `fetch`. */
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/** A transport by Connect over `fetch`: unary calls and streams of the node, in Node.js, browsers and edges. */
export function createPalimpsestTransport({ url, token, fetch }: PalimpsestTransportOptions = {}): Transport {
  return createConnectTransport({
    baseUrl: String(url ?? "http://127.0.0.1:8080").replace(/\/+$/, ""),
    useBinaryFormat: true,
    ...(fetch !== undefined && { fetch }),
    interceptors: [
      (next) => async (request) => {
        const credential = typeof token === "function" ? await token() : token;
        if (credential !== undefined) request.header.set("authorization", `Bearer ${credential}`);
        return next(request);
      },
    ],
  });
}
