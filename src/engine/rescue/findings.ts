/**
 * What a look at a store or a data directory can find: each kind with how bad it is, what it means and what to do.
 *
 * Always true:
 * - a kind's name never changes its meaning, as machines read it
 * - findings are told worst first
 * - no more than `findingsMax` are kept, and how many there were is known
 *
 * Must not know: how anything is found.
 */

/** Findings that are kept to be told in order, about half a KiB each; further ones are counted. */
const findingsMax = 10_000;

/**
 * Worst first. `critical`: data is missing or of no use. `warning`: an operator has to act. `note`: as it should be.
 */
const severities = ["critical", "warning", "note"] as const;

export type Severity = (typeof severities)[number];

interface Kind {
  readonly severity: Severity;
  readonly means: string;
  /** `{store}`, `{uuid}` and `{data}` are replaced by the place of the finding. */
  readonly todo: string;
}

const repairIt = "palimpsest repair --object-store {store} --uuid {uuid}";
const orRestore = `${repairIt}; or restore the database from a backup`;
const nothing = "nothing";

/** Every kind of finding. */
export const findingKinds = {
  // A database in object storage
  head_missing: {
    severity: "critical",
    means: "no node opens the branch, and none takes it for empty",
    todo: `stop the nodes, then ${orRestore}`,
  },
  head_unreadable: {
    severity: "critical",
    means: "no node opens the branch",
    todo: `stop the nodes, then ${orRestore}`,
  },
  catalog_missing: {
    severity: "critical",
    means: "the database's branches cannot be told, and nothing of it is collected",
    todo: repairIt,
  },
  catalog_unreadable: {
    severity: "critical",
    means: "the database's branches cannot be told, and nothing of it is collected",
    todo: repairIt,
  },
  object_missing: {
    severity: "critical",
    means: "states that need it cannot be restored; a node whose disk has the newest state goes on",
    todo: orRestore,
  },
  object_rotten: {
    severity: "critical",
    means: "states that need it cannot be restored; a node whose disk has the newest state goes on",
    todo: orRestore,
  },
  line_gap: {
    severity: "critical",
    means: "no object is named for these transaction ids, so later states cannot be restored",
    todo: orRestore,
  },
  state_unsound: {
    severity: "critical",
    means: "the branch cannot be opened from object storage alone",
    todo: orRestore,
  },
  history_missing: {
    severity: "critical",
    means: "the branch's past and its checkpoints cannot be gone back to; its present is whole",
    todo: orRestore,
  },
  history_unreadable: {
    severity: "critical",
    means: "the branch's past and its checkpoints cannot be gone back to; its present is whole",
    todo: orRestore,
  },
  format_newer: {
    severity: "warning",
    means: "a newer build has written it, and this one does not read it",
    todo: "run doctor with that build; do not repair",
  },
  database_unclaimed: {
    severity: "warning",
    means: "no name leads to the database: its claim was lost, or its deletion was",
    todo: `${repairIt} --name NAME puts the claim back; or remove db/{uuid}/`,
  },
  database_spare: {
    severity: "note",
    means: "an empty database that a node has made ahead; one whose node is gone for good is of no use to anybody",
    todo: "nothing; or remove db/{uuid}/ once its node is gone for good",
  },
  head_unlisted: {
    severity: "note",
    means: "a fork that was never announced, or a branch that was deleted; it is collected",
    todo: nothing,
  },
  unreferenced: { severity: "note", means: "they are being published, or wait to be collected", todo: nothing },
  condemned: { severity: "note", means: "they are deleted once their grace is over", todo: nothing },
  database_deleted: { severity: "note", means: "its objects are being removed", todo: nothing },
  // A store beside its databases
  claim_unreadable: {
    severity: "critical",
    means: "calls of this name fail",
    todo:
      "palimpsest repair --object-store {store} --uuid UUID --name NAME, with the uuid of the unclaimed " +
      "database that it was",
  },
  claim_twice: {
    severity: "critical",
    means: "two names lead to one database",
    todo: "find out which is right, and remove the object of the other claim",
  },
  database_lost: {
    severity: "critical",
    means:
      "a name leads to a database of which nothing is there but other traces say that it was written; nodes " +
      "would take it for empty",
    todo: "stop the nodes, then restore it from a backup",
  },
  claim_unwritten: { severity: "note", means: "the name was taken and nothing was written yet", todo: nothing },
  purge_unneeded: {
    severity: "note",
    means: "a deletion that did not come to pass has left its marker",
    todo: nothing,
  },
  policy_unreadable: {
    severity: "warning",
    means: "nothing leaves this namespace for an outside model until it is replaced",
    todo: "palimpsest policy put",
  },
  coupon_unreadable: {
    severity: "critical",
    means: "the erasure is not carried on, and never completes",
    todo: "ask for the same erasure again",
  },
  erasure_blocked: {
    severity: "warning",
    means: "a checkpoint or a branch keeps the data that is to be erased",
    todo: "GET the erasure: blocked_by names what to delete",
  },
  erasure_late: {
    severity: "warning",
    means: "it is due and not completed",
    todo:
      "GET the erasure: waiting_for says why; palimpsest forget-node ends the wait for a node that never " +
      "comes back",
  },
  erasure_unfinished: { severity: "note", means: "it goes on by itself", todo: nothing },
  backup_incomplete: {
    severity: "critical",
    means: "this is a backup that was not finished, or a restore that was not",
    todo: "give the same command again: it goes on where it was",
  },
  backup_complete: {
    severity: "note",
    means: "this is a backup; a node must not run on it",
    todo: "palimpsest restore --all --object-store {store} --to URL",
  },
  foreign: {
    severity: "note",
    means: "they have names that no build up to this one gives",
    todo: "if nobody knows them, a newer build may have put them",
  },
  not_all: { severity: "warning", means: "there is more than one look keeps in mind", todo: "give --database" },
  // A data directory
  file_ahead: {
    severity: "warning",
    means: "only this disk has these transactions",
    todo: "start the node on this directory and store: it ships them; keep the directory until then",
  },
  file_orphaned: {
    severity: "warning",
    means: "another node has claimed the branch since; what the file has beyond object storage is in no history",
    todo: "the node sets it aside when it opens the branch; sqlite3 reads it (docs/disasters.md)",
  },
  file_unknown: {
    severity: "warning",
    means: "the manifest does not know the claim that wrote it",
    todo: "keep the file until you know what it holds beyond object storage; sqlite3 reads it (docs/disasters.md)",
  },
  file_stale: {
    severity: "note",
    means: "it is of a timeline that the branch has left, and is replaced on its next use",
    todo: nothing,
  },
  head_older: {
    severity: "critical",
    means: "object storage was put back to an older state than this node has seen: the node refuses the branch",
    todo:
      "put the newer state back; or start the node with --accept-rollback {uuid}, which sets the file aside " +
      "and goes on from the older state",
  },
  file_unheaded: {
    severity: "critical",
    means: "the file holds a branch of which object storage has no readable manifest",
    todo: `keep the file: it may hold all there is; then ${repairIt}`,
  },
  file_unreadable: {
    severity: "warning",
    means: "it is no database that can be read",
    todo: "the node sets it aside and restores the branch; look at the disk",
  },
  file_patching: {
    severity: "note",
    means: "a roll forward was cut short; the branch is restored on its next use",
    todo: nothing,
  },
  file_foreign: {
    severity: "warning",
    means: "its database is not in this object storage",
    todo: "make sure that directory and store belong together before a node runs on them",
  },
  file_behind: { severity: "note", means: "it is brought forward on its next use", todo: nothing },
  quarantine: {
    severity: "warning",
    means: "it may hold acknowledged writes that are in no history",
    todo: "sqlite3 reads it (docs/disasters.md); delete it when you have what you need",
  },
  leftovers: { severity: "note", means: "a crash has left them; the next start removes them", todo: nothing },
  node_running: { severity: "note", means: "what it shows of local files is a moment's", todo: nothing },
  node_forgotten: {
    severity: "warning",
    means: "this node was declared gone for good and does not start again",
    todo: "wipe the directory",
  },
  directory_foreign: { severity: "note", means: "no build up to this one puts it there", todo: nothing },
} as const satisfies Record<string, Kind>;

export type FindingKind = keyof typeof findingKinds;

/** Where something was found. Names and keys only, never content. */
export interface FindingPlace {
  readonly uuid?: string | undefined;
  /** The database's name. */
  readonly database?: string | undefined;
  /** The branch's name, or its id when no catalog names it. */
  readonly branch?: string | undefined;
  /** An object's key, or a file's path in the data directory. */
  readonly key?: string | undefined;
}

export interface Finding extends FindingPlace {
  readonly kind: FindingKind;
  /** What there is, in one sentence without its end. */
  readonly what: string;
}

export class Findings {
  readonly #kept: Record<Severity, Finding[]> = { critical: [], warning: [], note: [] };
  readonly counts: Record<Severity, number> = { critical: 0, warning: 0, note: 0 };

  add(kind: FindingKind, place: FindingPlace, what: string): void {
    const { severity } = findingKinds[kind];
    this.counts[severity]++;
    // A worse finding never gives way to a lesser one.
    if (this.#kept[severity].length < findingsMax) this.#kept[severity].push({ kind, ...place, what });
  }

  /** Those that are kept, worst first, in the order in which they were found. */
  get all(): readonly Finding[] {
    return severities.flatMap((severity) => this.#kept[severity]);
  }

  /** Whether no operator has to act. */
  get isWell(): boolean {
    return this.counts.critical === 0 && this.counts.warning === 0;
  }
}

/** What to do about the finding, as a person gives it. */
export function formatTodo(
  { kind, uuid }: Finding,
  where: { readonly store: string | undefined; readonly data: string | undefined },
): string {
  return findingKinds[kind].todo
    .replaceAll("{store}", where.store ?? "URL")
    .replaceAll("{data}", where.data ?? "DIR")
    .replaceAll("{uuid}", uuid ?? "UUID");
}
