/** Conversions between bytes and text that say no instead of guessing. */

const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

/** The text, or undefined when the bytes are not UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return strictUtf8.decode(bytes);
  } catch {
    return undefined;
  }
}

export function encodeUtf8(text: string): Uint8Array {
  return encoder.encode(text);
}

/** The bytes in lower-case hexadecimal digits. */
export function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
}

/** Length in UTF-8 bytes, without encoding. */
export function utf8Length(text: string): number {
  return Buffer.byteLength(text, "utf8");
}

/** Whether the text survives UTF-8: it has no lone surrogate. */
export function isWellFormed(text: string): boolean {
  return text.isWellFormed();
}
