/**
 * The way out for the clients of providers: to the configured address, with nothing that the protocol does not need,
 * and with an answer of bounded size.
 *
 * Always true: no redirect is followed, as it could carry texts and the key to a host that no policy was asked about;
 * of the headers that a client package makes, only those that the protocols need are sent.
 */
import { ModelFailure } from "./model-failure.ts";

/**
 * What the protocols need. What a package tells of the machine that it runs on, or takes from the process's variables,
 * stays here.
 */
const sentHeaders = new Set([
  "accept",
  "authorization",
  "content-type",
  "x-api-key",
  "anthropic-version",
  "anthropic-beta",
]);

/** A fetch whose answers have a bounded number of bytes; one with more fails while it is read. */
export function boundedFetch(bytesMax: number): typeof fetch {
  return async (input, init) => {
    const headers = [...new Headers(init?.headers)].filter(([name]) => sentHeaders.has(name));
    const response = await fetch(input, { ...init, headers, redirect: "error" });
    if (response.body === null) return response;
    let leftBytes = bytesMax;
    const bound = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        leftBytes -= chunk.length;
        if (leftBytes >= 0) controller.enqueue(chunk);
        else controller.error(new ModelFailure("unusable"));
      },
    });
    return new Response(response.body.pipeThrough(bound), {
      status: response.status,
      statusText: response.statusText,
      headers: response.headers,
    });
  };
}
