/**
 * Server-sent events (the HTML standard's `text/event-stream`) out of the bytes of an answer.
 *
 * Always true: an event is given whole or not at all, and only the unfinished one is held, up to `eventCharsMax`. Must
 * not know: what events mean.
 */

/** One event: its name, and its data as it came. */
export interface ServerEvent {
  readonly name: string;
  readonly data: string;
}

/** A node's events stay below 2 MiB: 256 KiB of names, escaped. What is longer is none of a node. */
const eventCharsMax = 4 * 1024 * 1024;

export class EventReader {
  readonly #decoder = new TextDecoder();
  #text = "";

  /** The events that these bytes complete. Throws RangeError where one does not end. */
  feed(bytes: Uint8Array): readonly ServerEvent[] {
    // What has been looked at holds no end, but may hold half of one.
    const from = Math.max(0, this.#text.length - 3);
    this.#text += this.#decoder.decode(bytes, { stream: true });
    const end = /\r?\n\r?\n/g;
    end.lastIndex = from;
    const events: ServerEvent[] = [];
    let begin = 0;
    for (let found = end.exec(this.#text); found !== null; found = end.exec(this.#text)) {
      const event = readEvent(this.#text.slice(begin, found.index));
      if (event !== undefined) events.push(event);
      begin = end.lastIndex;
    }
    this.#text = this.#text.slice(begin);
    if (this.#text.length > eventCharsMax) throw new RangeError(`an event is longer than ${eventCharsMax} characters`);
    return events;
  }
}

/** The event of a block of lines; undefined where it has no data, as a comment that keeps a connection open. */
function readEvent(block: string): ServerEvent | undefined {
  let name = "message";
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line)!;
    if (field === "event") name = value!;
    else if (field === "data") data.push(value!);
  }
  return data.length === 0 ? undefined : { name, data: data.join("\n") };
}
