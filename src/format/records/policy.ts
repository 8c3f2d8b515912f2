/**
 * Governance policies: what a document may say, which of two values is the stricter, and the object that keeps one.
 *
 * | key                               | content                                     |
 * |-----------------------------------|---------------------------------------------|
 * | `policies/<ns>/namespace`         | the policy of a namespace                   |
 * | `policies/<ns>/profiles/<profile>`| what a profile demands of itself beyond it  |
 *
 * | field      | type           | meaning                                                             |
 * |------------|----------------|---------------------------------------------------------------------|
 * | v          | integer        | format version, 1                                                   |
 * | revision   | integer        | counts the changes, from 1                                          |
 * | updated_at | integer        | Unix ms of the last change                                          |
 * | nonce      | string         | 32 hex digits of chance: no two puts write the same bytes           |
 * | policy     | object or null | the document as it was given, unknown fields too; null when cleared |
 *
 * Always true: a document that passed here has every known field in its range, so enforcing it never judges a value. A
 * field that is null says nothing. Unknown fields are kept for the programs that know them. Must not know: who may set
 * a policy, what the node's own bounds are, how a value is enforced.
 */
import { decodeUtf8, encodeUtf8, toHex, utf8Length } from "../../base/bytes.ts";
import { invalid, StoreError } from "../../base/faults/errors.ts";
import { findNearestWord } from "../../base/faults/near-words.ts";
import { limits } from "../../base/limits.ts";
import { formats, requireVersion } from "../core/versions.ts";

export const policyBytesMax = 32 * 1024;
/** Unknown fields of a policy that an answer warns of. */
const policyWarningsMax = 20;
export const policyDepthMax = 8;
/** Sources that a policy may trust. */
const sourcesMax = 100;

/** Where the text of an AI call, or what a webhook tells, may go, the loosest first. */
export const egressOrder = ["allow", "self_hosted_only", "deny"] as const;
export type Egress = (typeof egressOrder)[number];

type CapPath =
  | "retention.pitr_secs"
  | "retention.pitr_snapshot_secs"
  | "memory.task_ttl_max_secs"
  | "memory.event_max_age_secs"
  | "memory.superseded_max_age_secs"
  | "memory.superseded_max_count"
  | "audit.retention_secs"
  | "erasure.grace_secs";
type EgressPath = "ai_egress.extract" | "ai_egress.ask" | "ai_egress.embed" | "egress.webhooks";
type SourcesPath = "memory.trusted_sources";
type FlagPath = "audit.enabled" | "audit.include_reads" | "audit.include_data" | "erasure.purge_on_forget";
export type PolicyPath = CapPath | EgressPath | FlagPath | SourcesPath;

/** The known fields of a policy by their dotted paths; what is absent is not said. */
export type PolicyValues = { readonly [Path in CapPath]?: number } & { readonly [Path in EgressPath]?: Egress } & {
  readonly [Path in FlagPath]?: boolean;
} & { readonly [Path in SourcesPath]?: readonly string[] };

/** A policy as its author wrote it: a JSON object, unknown fields included. */
export type PolicyDocument = Readonly<Record<string, unknown>>;

/** The scope of a policy: what concerns a namespace as a whole, its profiles cannot set. */
export type PolicyLevel = "namespace" | "profile";

interface FieldRule {
  readonly allowed: string;
  readonly isAllowed: (value: unknown) => boolean;
  /** Whether one value lets through what the other does not. */
  readonly isLooser: (value: never, than: never) => boolean;
  /** What both let through. */
  readonly stricter: (one: never, other: never) => unknown;
  readonly namespaceOnly: boolean;
}

/** Values in an order: the greater, the stricter. */
function ordered<Value>(strictness: (value: Value) => number): Pick<FieldRule, "isLooser" | "stricter"> {
  const isLooser = (value: Value, than: Value): boolean => strictness(value) < strictness(than);
  return { isLooser, stricter: (one: Value, other: Value) => (isLooser(one, other) ? other : one) };
}

/** A smaller cap is the stricter one. */
function cap(unit: string, least: number, namespaceOnly = false): FieldRule {
  return {
    allowed: `a whole number${unit}, at least ${least}`,
    isAllowed: (value) => Number.isSafeInteger(value) && (value as number) >= least,
    ...ordered((value: number) => -value),
    namespaceOnly,
  };
}

const secs = (namespaceOnly = false): FieldRule => cap(" of seconds", limits.policySecsMin, namespaceOnly);

const egress: FieldRule = {
  allowed: `one of ${egressOrder.join(", ")}`,
  isAllowed: (value) => egressOrder.includes(value as Egress),
  ...ordered((value: Egress) => egressOrder.indexOf(value)),
  namespaceOnly: false,
};

/** What is on is stricter than what is off. */
function flag(namespaceOnly = false): FieldRule {
  return {
    allowed: "true or false",
    isAllowed: (value) => typeof value === "boolean",
    ...ordered(Number),
    namespaceOnly,
  };
}

/** Who is trusted: fewer are stricter, and only who is trusted by both is trusted by both together. */
const sources: FieldRule = {
  allowed: `a list of at most ${sourcesMax} different texts of 1 to ${limits.sourceBytesMax} bytes`,
  isAllowed: (value) =>
    Array.isArray(value) &&
    value.length <= sourcesMax &&
    new Set(value).size === value.length &&
    value.every((one) => typeof one === "string" && one !== "" && utf8Length(one) <= limits.sourceBytesMax),
  isLooser: (value: readonly string[], than: readonly string[]) => value.some((one) => !than.includes(one)),
  stricter: (one: readonly string[], other: readonly string[]) => one.filter((source) => other.includes(source)),
  namespaceOnly: false,
};

/** Every known field, by its path. */
const fieldRules: Readonly<Record<PolicyPath, FieldRule>> = {
  "retention.pitr_secs": secs(),
  "retention.pitr_snapshot_secs": secs(),
  "memory.task_ttl_max_secs": secs(),
  "memory.event_max_age_secs": secs(),
  "memory.superseded_max_age_secs": secs(),
  "memory.superseded_max_count": cap("", 1),
  "memory.trusted_sources": sources,
  "ai_egress.extract": egress,
  "ai_egress.ask": egress,
  "ai_egress.embed": egress,
  "egress.webhooks": egress,
  "audit.enabled": flag(true),
  "audit.include_reads": flag(true),
  "audit.include_data": flag(true),
  "audit.retention_secs": secs(true),
  "erasure.grace_secs": cap(" of seconds", 0),
  "erasure.purge_on_forget": flag(),
};

const paths = Object.keys(fieldRules) as PolicyPath[];
const groups = [...new Set(paths.map((path) => path.split(".")[0]!))];

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The known fields of a document. Throws invalid_request that names every field with a value it cannot have. */
export function readPolicy(document: PolicyDocument, level: PolicyLevel): PolicyValues {
  const values: Record<string, unknown> = {};
  const problems = groups
    .filter((group) => !isObject(document[group] ?? {}))
    .map((group) => `${group} must be an object`);
  for (const path of paths) {
    const [group, field] = path.split(".") as [string, string];
    const rule = fieldRules[path];
    const holder = document[group];
    const value = isObject(holder) ? (holder[field] ?? undefined) : undefined;
    if (value === undefined) continue;
    if (rule.namespaceOnly && level === "profile") problems.push(`${path} can be set for a whole namespace only`);
    else if (!rule.isAllowed(value)) problems.push(`${path} must be ${rule.allowed}`);
    values[path] = value;
  }
  if (problems.length > 0) throw invalid(`the policy is not valid: ${problems.join("; ")}`);
  return values;
}

/**
 * What a document says that is unknown here, by dotted paths, with the known field that may have been meant. It is kept
 * and given back, and enforces nothing.
 */
export function unknownFields(document: PolicyDocument): readonly string[] {
  const unknown = Object.entries(document).flatMap(([group, fields]) => {
    if (!groups.includes(group)) return [group];
    return isObject(fields)
      ? Object.keys(fields)
          .map((field) => `${group}.${field}`)
          .filter((path) => !paths.includes(path as PolicyPath))
      : [];
  });
  return unknown.slice(0, policyWarningsMax).map((path) => {
    const meant = findNearestWord(path, path.includes(".") ? paths : groups);
    return (
      `${printable(path)} is not known to this node, and enforces ` +
      `nothing${meant === undefined ? "" : `; did you mean ${meant}?`}`
    );
  });
}

/** A name that a client wrote, made fit for a message. */
function printable(name: string): string {
  return /^[\w.-]{1,64}$/.test(name) ? name : JSON.stringify(name.slice(0, 64).toWellFormed());
}

/** How many levels of arrays and objects a value has; a scalar has none. */
function computeDepth(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Object.values(value).reduce<number>((deepest, item) => Math.max(deepest, computeDepth(item)), 0);
}

/** Whether every number in it is the one that was written: a double holds no larger integers. */
function isExact(value: unknown): boolean {
  if (typeof value === "number") return Math.abs(value) <= Number.MAX_SAFE_INTEGER;
  return typeof value !== "object" || value === null || Object.values(value).every(isExact);
}

/** Reads a policy that a client gives, as JSON text that was parsed once; null clears. Throws invalid_request. */
export function parsePolicy(text: string, level: PolicyLevel): PolicyDocument | undefined {
  if (utf8Length(text) > policyBytesMax) throw invalid(`policy must be at most ${policyBytesMax} bytes of JSON`);
  const document: unknown = JSON.parse(text);
  if (document === null) return undefined;
  if (!isObject(document)) throw invalid("policy must be an object, or null to clear it");
  if (computeDepth(document) > policyDepthMax) throw invalid(`policy is nested deeper than ${policyDepthMax} levels`);
  if (!isExact(document)) throw invalid("policy holds a number beyond 2^53, which would not come back as it was given");
  readPolicy(document, level);
  return document;
}

function isLooser<Path extends PolicyPath>(path: Path, value: PolicyValues[Path], than: PolicyValues[Path]): boolean {
  if (value === undefined || than === undefined) return false;
  return fieldRules[path].isLooser(value as never, than as never);
}

/**
 * The fields in which `own` is looser than `base`, which says something of them. What only one of them limits is not
 * looser.
 */
export function looserFields(own: PolicyValues, base: PolicyValues): PolicyPath[] {
  return paths.filter((path) => isLooser(path, own[path], base[path]));
}

/** Field by field the strictest of what is said. */
export function strictest(...policies: readonly PolicyValues[]): PolicyValues {
  const values: Record<string, unknown> = {};
  for (const path of paths) {
    for (const { [path]: value } of policies) {
      if (value === undefined) continue;
      const yet = values[path];
      values[path] = yet === undefined ? value : fieldRules[path].stricter(yet as never, value as never);
    }
  }
  return values;
}

/** A policy at rest. */
export interface StoredPolicy {
  /** Counts the changes, from 1. */
  readonly revision: number;
  readonly updatedAtMs: number;
  /** 16 random bytes: no two puts write the same object. */
  readonly nonce: Uint8Array;
  /** Undefined when it was cleared. */
  readonly document: PolicyDocument | undefined;
}

const noncePattern = /^[0-9a-f]{32}$/;

export function encodePolicy({ revision, updatedAtMs, nonce, document }: StoredPolicy): Uint8Array {
  return encodeUtf8(
    JSON.stringify({
      v: formats.policy.writes[0],
      revision,
      updated_at: updatedAtMs,
      nonce: toHex(nonce),
      policy: document ?? null,
    }),
  );
}

/** The object as JSON, or undefined when it is none. The parser's own message would quote it. */
function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(decodeUtf8(bytes) ?? "");
  } catch {
    return undefined;
  }
}

/**
 * Throws StoreError("corrupt") for anything but a policy with values that we know, NewerFormat for one of a newer
 * build: never "no policy".
 */
export function decodePolicy(bytes: Uint8Array, level: PolicyLevel): StoredPolicy & { readonly values: PolicyValues } {
  const object = parseJson(bytes);
  const { v, revision, updated_at: updatedAtMs, nonce, policy } = isObject(object) ? object : {};
  if (isObject(object)) requireVersion(formats.policy, v);
  const isWhole =
    Number.isSafeInteger(revision) &&
    Number.isSafeInteger(updatedAtMs) &&
    typeof nonce === "string" &&
    noncePattern.test(nonce) &&
    (policy === null || isObject(policy));
  if (!isWhole) throw new StoreError("corrupt", "a policy object is not JSON, or has an unknown form");
  const document = policy ?? undefined;
  try {
    const values = readPolicy(document ?? {}, level);
    return {
      revision: revision as number,
      updatedAtMs: updatedAtMs as number,
      nonce: new Uint8Array(Buffer.from(nonce, "hex")),
      document,
      values,
    };
  } catch (error) {
    throw new StoreError("corrupt", "a policy object has a value that no policy can have", { cause: error });
  }
}
