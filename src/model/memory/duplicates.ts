/**
 * Which memory that is there is the same as a new one, and what makes two the same: type, topic, summary and content;
 * for a task also its session, and whom it is about where that is said.
 *
 * Always true: equal memories have equal fingerprints whatever the order of their JSON fields or the spelling of their
 * numbers, and 64-bit ids that a double would merge stay apart. Neither source nor keywords nor vector take part.
 */
import { hash } from "node:crypto";
import { isBatched } from "../core/database-state.ts";
import { isNumber, formatNumber, type Json } from "../core/docs-json.ts";
import type { View } from "../core/transaction.ts";
import { fingerprintParameters, fingerprintRows } from "./fingerprint-index.ts";
import { statesSql } from "../standing/states.ts";
import { presence } from "./memory-presence.ts";

export interface Identity {
  readonly type: string;
  readonly topicKey: string | undefined;
  readonly summary: string;
  readonly content: Json;
  readonly sessionId: string | undefined;
  readonly subject?: string | undefined;
}

/** A memory that is the same; `present` is 0 when it has expired and waits for a sweep. */
export interface Same {
  readonly row: number;
  readonly id: string;
  readonly expiresAt: number | null;
  readonly present: number;
}

/** The memory of that fingerprint which is in the state. */
export function findDuplicate(
  view: View,
  identity: Uint8Array,
  state: "active" | "proposed" = "active",
): Same | undefined {
  const present = presence(view, [state]);
  const [rows, ...params] = isBatched(view.connection)
    ? [`m.row IN (${fingerprintRows}) AND`, ...fingerprintParameters(identity)]
    : [""];
  return view.connection.get(
    `SELECT m.row, m.id, m.expires_at AS expiresAt, ${present.sql} AS present FROM __service_memory AS m ` +
      `WHERE ${rows} m.fingerprint = ? AND ${statesSql("m", [state])}`,
    ...present.params,
    ...params,
    identity,
  );
}

/** SHA-256 of the identity's canonical JSON: 32 bytes. */
export function fingerprint(identity: Identity): Uint8Array {
  const { type, topicKey = null, summary, content, sessionId = null, subject } = identity;
  const about = subject === undefined ? [] : [subject];
  return hash(
    "sha256",
    canonicalText([type, topicKey, summary, content, type === "task" ? sessionId : null, ...about]),
    "buffer",
  );
}

/**
 * The same text for the same value, whatever the order of fields or the spelling of numbers; different for different
 * ones.
 */
export function canonicalText(value: Json): string {
  if (isNumber(value)) return canonicalNumber(formatNumber(value));
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const fields = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1));
    return `{${fields.map(([field, inner]) => `${JSON.stringify(field)}:${canonicalText(inner)}`).join(",")}}`;
  }
  return JSON.stringify(value);
}

const plainInteger = /^(?:0|-?[1-9]\d{0,14})$/;
const numberParts = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i;

/**
 * Sign, digits without zeros at either end, and a power of ten: exact for any size. Short integers stay as they are.
 */
function canonicalNumber(source: string): string {
  if (plainInteger.test(source)) return source;
  const [, sign, whole, fraction = "", exponent = "0"] = numberParts.exec(source)!;
  const digits = (whole! + fraction).replace(/^0+/, "");
  const significant = digits.replace(/0+$/, "");
  if (significant === "") return "0";
  const power = BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - significant.length);
  const isShortInteger = power >= 0n && BigInt(significant.length) + power <= 15n;
  return isShortInteger ? `${sign}${significant}${"0".repeat(Number(power))}` : `${sign}${significant}e${power}`;
}
