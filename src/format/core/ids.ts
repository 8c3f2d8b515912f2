/**
 * What the ids of records and nodes look like: ULIDs, alone or behind a prefix, and UUIDs.
 *
 * Always true: an id is safe in an object's key, and says nothing of what a tenant stored.
 */

/** A ULID, as a part of a pattern. */
export const ulidText = "[0-7][0-9A-HJKMNP-TV-Z]{25}";
/** A UUID, as a part of a pattern. */
export const uuidText = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}";
/** A node's identity, as a part of a pattern. */
export const nodeText = "[A-Za-z0-9_-]{1,64}";

const ulidPattern = new RegExp(`^${ulidText}$`);
const nodePattern = new RegExp(`^${nodeText}$`);
const memoryIdPattern = new RegExp(`^mem_${ulidText}$`);
const erasureIdPattern = new RegExp(`^ers_${ulidText}$`);
const webhookIdPattern = new RegExp(`^whk_${ulidText}$`);
const ulidDigits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const ulidTimeDigits = 10;

/** When a ULID was made, in Unix milliseconds. */
export function ulidTimeMs(id: string): number {
  let timeMs = 0;
  for (const digit of id.slice(0, ulidTimeDigits)) timeMs = timeMs * ulidDigits.length + ulidDigits.indexOf(digit);
  return timeMs;
}

/** The beginning of every ULID that is made in this millisecond. */
export function ulidTime(atMs: number): string {
  let text = "";
  for (let rest = atMs; text.length < ulidTimeDigits; rest = Math.floor(rest / ulidDigits.length))
    text = ulidDigits[rest % ulidDigits.length]! + text;
  return text;
}

/** Whether the text is a ULID. */
export function isUlid(text: string): boolean {
  return ulidPattern.test(text);
}

/** Whether the text can be a node's identity. */
export function isNodeId(text: string): boolean {
  return nodePattern.test(text);
}

/** Whether the value can be a memory's id: `mem_` and a ULID. */
export function isMemoryId(value: unknown): value is string {
  return typeof value === "string" && memoryIdPattern.test(value);
}

/** Whether the value can be an erasure's id: `ers_` and a ULID. */
export function isErasureId(value: unknown): value is string {
  return typeof value === "string" && erasureIdPattern.test(value);
}

/** Whether the value can be a webhook's id: `whk_` and a ULID. */
export function isWebhookId(value: unknown): value is string {
  return typeof value === "string" && webhookIdPattern.test(value);
}
