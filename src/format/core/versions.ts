/**
 * Which version of each format at rest this build writes, and which versions it reads. The one table of them: every
 * reader and writer takes its numbers from here, `palimpsest formats` prints it, and docs/formats.md says the rule.
 *
 * Always true: a version that a release has written is read by every later one; a new version is written only into
 * stores whose layout says so (`writtenVersions`), or after a release that reads it, so that two releases in a row work
 * on one store side by side, and the older one can take over what the newer has written. What a newer build wrote is
 * refused by name and left as it is: it is neither rotten nor absent.
 */
import { assert } from "../../base/faults/assert.ts";
import { StoreError } from "../../base/faults/errors.ts";

/** A format at rest. */
export interface FormatVersions {
  /** With its article, for messages: `a manifest`. */
  readonly what: string;
  /** The object's key or the file's name, with `<…>` for what varies. */
  readonly where: string;
  /** How its bytes say which version they are of. */
  readonly told: string;
  readonly writes: readonly number[];
  readonly reads: readonly number[];
}

const sealed = "byte 4, behind the magic";
const json = "member `v`";

export const formats = {
  manifest: { what: "a manifest", where: "db/<uuid>/head/<branch>", told: sealed, writes: [1], reads: [1] },
  catalog: { what: "a catalog", where: "db/<uuid>/catalog", told: sealed, writes: [1], reads: [1] },
  history: { what: "a history", where: "db/<uuid>/hist/<id>", told: sealed, writes: [1], reads: [1] },
  segment: { what: "a segment", where: "db/<uuid>/seg/<id>", told: sealed, writes: [1, 2], reads: [1, 2] },
  nameClaim: { what: "a database name claim", where: "names/<database>.json", told: json, writes: [1], reads: [1] },
  policy: { what: "a policy", where: "policies/<ns>/…", told: json, writes: [1], reads: [1] },
  auditEvent: {
    what: "an audit event",
    where: "audit/<ns>/<day>/<id>",
    told: `${json} of each line`,
    writes: [1, 2],
    reads: [1, 2],
  },
  coupon: {
    what: "the coupon of an erasure",
    where: "erasures/<uuid>/<id>",
    told: json,
    writes: [1, 2, 3],
    reads: [1, 2, 3],
  },
  receipt: {
    what: "the receipt of an erasure",
    where: "in its coupon",
    told: "member `v` of its payload, and the domain that is signed",
    writes: [1, 2, 3],
    reads: [1, 2, 3],
  },
  copyRecord: {
    what: "the record of a node's copy",
    where: "copies/<uuid>/<node>/<copy>",
    told: json,
    writes: [1],
    reads: [1],
  },
  webhook: { what: "a webhook", where: "hooks/<uuid>/<id>", told: json, writes: [1], reads: [1] },
  publicKey: { what: "a public key", where: "keys/public/<kid>", told: json, writes: [1], reads: [1] },
  backup: { what: "what a backup says of itself", where: "backup", told: json, writes: [1], reads: [1] },
  // Objects of one word, and the signing key in PEM, say no version of their own: that of the whole store holds for
  // them.
  store: {
    what: "an object store",
    where: "format.json",
    told: "member `layout`",
    writes: [1, 2, 3],
    reads: [1, 2, 3],
  },
  dataDirectory: {
    what: "a data directory",
    where: "format.json of SERVICE_DATA_DIR",
    told: "member `layout`",
    writes: [1],
    reads: [1],
  },
  seen: {
    what: "what a node has seen of a branch",
    where: "seen/<uuid>/<branch> of SERVICE_DATA_DIR",
    told: json,
    writes: [1],
    reads: [1],
  },
  setAside: {
    what: "the label of what was set aside",
    where: "quarantine/<uuid>/<name>.json of SERVICE_DATA_DIR",
    told: json,
    writes: [1],
    reads: [1],
  },
  spare: {
    what: "the note of a database made ahead",
    where: "spares/<uuid> of SERVICE_DATA_DIR",
    told: `${json} of its first line`,
    writes: [1],
    reads: [1],
  },
  database: {
    what: "a database file",
    where: "<data>/db/<uuid>/<branch>.db, and in segments",
    told: "column `format` of `__service_state`",
    writes: [1, 2, 3],
    reads: [1, 2, 3],
  },
} as const satisfies Record<string, FormatVersions>;

/** The layout of a store that this build makes. */
export const newestLayout = Math.max(...formats.store.writes);

/** Versions of what is written anew; what is there stays as it is. */
export interface WrittenVersions {
  /** Of database files that are made. */
  readonly database: number;
  /** Of segments of several transactions. */
  readonly segment: number;
  /** Of coupons, at most. */
  readonly coupon: number;
}

/**
 * By the layout of the store. A build that does not read a layout does not start on the store, so it never meets what
 * only later ones read.
 */
const writtenVersions: Readonly<Record<number, WrittenVersions>> = {
  1: { database: 1, segment: 1, coupon: 2 },
  2: { database: 2, segment: 2, coupon: 3 },
  3: { database: 3, segment: 2, coupon: 3 },
};

/** What is written into a store of this layout, by default the newest, which `requireVersion` has let pass. */
export function findWrittenVersions(layout: number = newestLayout): WrittenVersions {
  const versions = writtenVersions[layout];
  assert(versions !== undefined, "every layout that is read says what is written into it");
  return versions;
}

/** Sound, but written by a newer build: this one must leave it as it is, and an operator upgrade it. */
export class NewerFormat extends StoreError {
  constructor({ what, reads }: FormatVersions, version: number) {
    super(
      "misconfigured",
      `${what} has format version ${version}, written by a newer build; this build ` +
        `reads ${formatVersions(reads)}: upgrade it`,
    );
  }
}

function formatVersions(versions: readonly number[]): string {
  return versions.length === 1
    ? `version ${versions[0]}`
    : `versions ${versions.slice(0, -1).join(", ")} and ${versions.at(-1)}`;
}

/**
 * Refuses a version that this build does not read: NewerFormat when a newer build knows it, StoreError("corrupt") when
 * none can.
 */
export function requireVersion(format: FormatVersions, version: unknown): asserts version is number {
  if (format.reads.includes(version as number)) return;
  if (Number.isSafeInteger(version) && (version as number) > Math.max(...format.reads))
    throw new NewerFormat(format, version as number);
  throw new StoreError("corrupt", `${format.what} has no format version that any build has written`);
}

/**
 * Whether the error says that something at rest cannot be used by this build, whatever the cause: it must not hide what
 * can.
 */
export function isUnreadable(error: unknown): error is StoreError {
  return error instanceof NewerFormat || (error instanceof StoreError && error.kind === "corrupt");
}

/** The table as Markdown. */
export function formatsMarkdown(): string {
  const rows = Object.values(formats).map(
    ({ what, where, told, writes, reads }) =>
      `| ${what} | \`${where}\` | ${told} | ${writes.join(", ")} | ${reads.join(", ")} |`,
  );
  return ["| format | where | its version is | written | read |", "|---|---|---|---|---|", ...rows, ""].join("\n");
}
