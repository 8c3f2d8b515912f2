/** Streams of messages between nodes, as a test sends and reads them itself. */
import { ConnectError } from "@connectrpc/connect";
import { type ExchangeRequest, type ExchangeResponse } from "../../gen/palimpsest/node/v1/node_pb.ts";

export async function* of(...messages: ExchangeRequest[]): AsyncGenerator<ExchangeRequest> {
  yield* messages;
}

export async function* foreverAfter(...messages: ExchangeRequest[]): AsyncGenerator<ExchangeRequest> {
  yield* messages;
  await new Promise(() => {});
}

export async function saidBy(
  messages: AsyncIterable<ExchangeResponse>,
): Promise<{ said: ExchangeResponse[]; error: ConnectError | undefined }> {
  const said: ExchangeResponse[] = [];
  try {
    for await (const message of messages) said.push(message);
  } catch (error) {
    return { said, error: ConnectError.from(error) };
  }
  return { said, error: undefined };
}
