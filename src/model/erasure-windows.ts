/**
 * What is known of a record that is erased, and the windows by which a copy of it is found on pages.
 *
 * Always true: a window ends within the record's names and the beginning of its value, so that it is the record's own
 * as far as its names are. Must not know: which records are erased.
 */
import { encodeUtf8 } from "../base/bytes.ts";
import { windowBytes } from "../format/erasure/traces.ts";
import { encodeRecord, integer, nothing, text, unread, type Stored } from "./core/record-bytes.ts";
import type { VersionRow } from "./files/file-store.ts";

/** What stays of a record of the target when its content was looked at. */
export interface KnownRecord {
  /** A keyed hash of its names and its content, in hex. */
  readonly id: string;
  /** 32 bytes by which a copy of it is found on pages; absent where it is too short for them. */
  readonly window?: Uint8Array | undefined;
  /** The owner of its vector. */
  readonly vector?: { readonly kind: "turn" | "collection"; readonly owner: number } | undefined;
  /** Of a subject: the kind and the names by which changes of it are noted. */
  readonly noted?: readonly (string | number)[] | undefined;
  /** Of a subject: what it is, in the word that its kind is counted by. */
  readonly counted?: string | undefined;
}

/** A record of the target while it is there. */
export interface FoundRecord extends Omit<KnownRecord, "id"> {
  /** Its content, beside the names that the target has. */
  readonly said: readonly (string | number | null | Uint8Array)[];
}

/** Bytes of a value that a window ends with, or more where its name is short: before them is the end of the name. */
const valueStartBytes = 16;

/** The last bytes of a record's beginning, if there are enough. */
function endOf(record: Uint8Array): Uint8Array | undefined {
  return record.length < windowBytes ? undefined : record.subarray(-windowBytes);
}

/** Of a record's names and the beginning of its value. */
function windowInto(value: Stored, ...names: readonly Stored[]): Uint8Array | undefined {
  const { length } = encodeRecord(nothing, ...names, { ...value, bytes: new Uint8Array() });
  const start = value.bytes.subarray(0, Math.max(valueStartBytes, windowBytes - length));
  return endOf(encodeRecord(nothing, ...names, { ...value, bytes: start }));
}

/** As a list, which has none where the record is too short. */
export function windowsOf(window: Uint8Array | undefined): readonly Uint8Array[] {
  return window ? [window] : [];
}

function asText(value: string): Stored {
  return text(encodeUtf8(value));
}

export interface KvRow {
  readonly key: string;
  readonly expiresAt: number | null;
  readonly value: Uint8Array;
  readonly valueBytes: number;
}

/** Of a key's row. */
export function kvWindow(ns: string, { key, expiresAt, value, valueBytes }: KvRow): Uint8Array | undefined {
  const time = expiresAt === null ? nothing : integer(expiresAt);
  return windowInto({ ...unread(12, valueBytes), bytes: value }, asText(ns), asText(key), time);
}

export interface DocRow {
  readonly id: string;
  readonly doc: Uint8Array;
  readonly docBytes: number;
}

/** Of a document's row. */
export function docWindow({ id, doc, docBytes }: DocRow): Uint8Array | undefined {
  return windowInto({ ...unread(13, docBytes), bytes: doc }, asText(id));
}

/** A version by what made it and when; its path comes before that, and what follows is the same for the same text. */
export function versionWindow({ path, version, change, otherPath, txid, writtenAt, ...rest }: VersionRow) {
  const values = [nothing, asText(path), integer(version), asText(change)];
  const other = otherPath === null ? nothing : asText(otherPath);
  const known = [...values, other, integer(txid), integer(writtenAt)];
  const hash = rest.hash === null ? nothing : unread(13, rest.hash.length);
  const more = [hash, ...[rest.size, rest.text].map((one) => (one === null ? nothing : typeOnly(integer(one))))];
  return endOf(encodeRecord(...known, ...more));
}

function typeOnly({ serialType }: Stored): Stored {
  return { serialType, bytes: new Uint8Array() };
}
