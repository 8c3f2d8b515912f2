/**
 * Payloads as structured clones of V8: the protocol `1/…`, and all that builds of version 0.1.0 speak.
 *
 * Spoken with such builds alone, so that a cluster is upgraded from them node by node, and only where both nodes run on
 * the same major version of V8: a clone of another may mean something else. Version 0.2.0 is the last that can meet
 * them, as an upgrade goes through every release (docs/formats.md): from 0.3.0 on, this file and its line in
 * node-protocol can go. Always true: arrays that are read have memory of their own. Must not know: commands, streams.
 */
import { DefaultDeserializer, serialize } from "node:v8";
import { malformed } from "./malformed-message.ts";

const nothing = new Uint8Array(0);

export function encodeClone(value: unknown): Uint8Array {
  return value === undefined ? nothing : serialize(value);
}

/** Throws a ServiceError when the bytes are no clone. */
export function decodeClone(payload: Uint8Array): unknown {
  if (payload.length === 0) return undefined;
  const reader = new Cloned(payload);
  try {
    reader.readHeader();
    return reader.readValue();
  } catch (error) {
    // V8 says no more than that it cannot read it.
    throw malformed(`a structured clone (${error instanceof Error ? error.name : "unreadable"})`);
  }
}

/** Part of the runtime's documented way to extend it, though its type does not show it. */
const { _readHostObject: readView } = DefaultDeserializer.prototype as unknown as {
  _readHostObject(): ArrayBufferView;
};

/**
 * Reads a clone into arrays that have their own memory. The runtime's are views of the whole message, and a view that
 * is sent to a thread takes all of what it looks at with it: every vector of a batch would be copied with all others.
 */
class Cloned extends DefaultDeserializer {
  _readHostObject(): ArrayBufferView {
    const view = readView.call(this);
    // A new Buffer may be a part of memory that others have too.
    const ArrayType = (Buffer.isBuffer(view) ? Uint8Array : view.constructor) as new (
      from: ArrayBufferView,
    ) => ArrayBufferView;
    return view.byteLength === view.buffer.byteLength ? view : new ArrayType(view);
  }
}
