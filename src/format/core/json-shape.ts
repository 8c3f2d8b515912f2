/**
 * What a JSON value from outside must look like, as a table of checks.
 *
 * Always true: a check takes any value and never throws; a shape has the members that it names and no others, so
 * nothing unknown is carried along unnoticed. Strings are well-formed UTF-16. Must not know: any format.
 */
import { isWellFormed } from "../../base/bytes.ts";

/** Whether a value is as it must be. A check of what may be absent also takes undefined. */
export type Check = (value: unknown) => boolean;

/** The latest time that a calendar knows, in Unix milliseconds. */
const timeMsMax = 8.64e15;

/** Whether the value is a JSON object. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Text of whatever length. */
export function isText(value: unknown): value is string {
  return typeof value === "string" && isWellFormed(value);
}

/** A whole number from 0 that a double holds exactly. */
export const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;

/** Unix milliseconds. */
export const isTimeMs: Check = (value) => isCount(value) && (value as number) <= timeMsMax;

/** Text that keeps the rule. */
export function textThat(isRight: (text: string) => boolean): Check {
  return (value) => isText(value) && isRight(value);
}

/** Text that the pattern matches. */
export function matching(pattern: RegExp): Check {
  return (value) => typeof value === "string" && pattern.test(value);
}

/** One of these. */
export function oneOf(...values: readonly unknown[]): Check {
  return (value) => values.includes(value);
}

/** What the check takes, or nothing. */
export function maybe(check: Check): Check {
  return (value) => value === undefined || check(value);
}

/** An array of what the check takes. */
export function listOf(check: Check, countMax: number): Check {
  return (value) => Array.isArray(value) && value.length <= countMax && value.every(check);
}

/** An object of any names, each with what the check takes. */
export function mapOf(check: Check, countMax: number): Check {
  return (value) =>
    isObject(value) &&
    Object.keys(value).length <= countMax &&
    Object.entries(value).every(([name, member]) => isText(name) && check(member));
}

/** An object of these members and no others. */
export function shapeOf(members: Readonly<Record<string, Check>>): Check {
  return (value) =>
    isObject(value) &&
    Object.keys(value).every((name) => Object.hasOwn(members, name)) &&
    Object.entries(members).every(([name, check]) => check(Object.hasOwn(value, name) ? value[name] : undefined));
}
