/**
 * Which protocols a node speaks, and which of them it speaks with another node.
 *
 * Always true: two nodes speak the newest protocol that both know, or none; a build that knows no `protocols` finds in
 * `protocol` the only one that it speaks. Must not know: streams, what a payload holds.
 */
import type { ExchangeRequest } from "../../../gen/palimpsest/node/v1/node_pb.ts";
import { decodeClone, encodeClone } from "./clone-codec.ts";
import { decodeValue } from "./value-decoder.ts";
import { encodeValue } from "./value-encoder.ts";

/** Protocols that a greeting may name. */
export const peerProtocolsMax = 16;

/** A protocol, and how payloads are written and read in it. */
export interface PayloadCodec {
  /** Its name in greetings. */
  readonly protocol: string;
  encode(value: unknown): Uint8Array;
  /** Throws a ServiceError when the bytes are no value. */
  decode(payload: Uint8Array): unknown;
}

/** The protocols of this build, newest first, on a V8 of that version. */
export function codecsOn(v8Version: string): readonly [PayloadCodec, ...PayloadCodec[]] {
  return [
    { protocol: "2", encode: encodeValue, decode: decodeValue },
    { protocol: `1/${v8Version.split(".", 1)[0]!}`, encode: encodeClone, decode: decodeClone },
  ];
}

export const ownCodecs = codecsOn(process.versions.v8);

/** What a caller greets with. */
export function buildGreeting(codecs: readonly PayloadCodec[]): Pick<ExchangeRequest, "protocol" | "protocols"> {
  return { protocol: codecs.at(-1)!.protocol, protocols: codecs.map(({ protocol }) => protocol) };
}

/** What is spoken with a caller that greets so; undefined when there is nothing in common. */
export function commonCodec(
  codecs: readonly PayloadCodec[],
  greeting: Pick<ExchangeRequest, "protocol" | "protocols">,
): PayloadCodec | undefined {
  const offered = offeredProtocols(greeting);
  return codecs.find(({ protocol }) => offered.includes(protocol));
}

/** Protocols in words, whichever node has sent them. */
export function toldProtocols(protocols: readonly string[]): string {
  const told = protocols.filter((protocol) => protocol !== "").map((protocol) => protocol.slice(0, toldCharsMax));
  return told.length === 0 ? "nothing" : told.join(" and ");
}

/** What a caller speaks. */
export function offeredProtocols({
  protocol,
  protocols,
}: Pick<ExchangeRequest, "protocol" | "protocols">): readonly string[] {
  return protocols.length === 0 ? [protocol] : protocols.slice(0, peerProtocolsMax);
}

/** A name is not longer, and what is longer is not repeated. */
const toldCharsMax = 16;
