/**
 * What is wrong with one database in object storage, told as findings.
 *
 * Always true: it tells what an inventory says and looks at nothing itself, so that examining a store and proving a
 * copy of one give the same thing the same name. Must not know: the store, who reads the findings.
 */
import { databasePrefix } from "../../format/keys/object-keys.ts";
import { isWritten } from "../history/catalogs.ts";
import type { Findings, FindingPlace } from "./findings.ts";
import { listRefs, type BranchInventory, type DatabaseInventory, type Looked } from "./inventory.ts";

/** What is wrong with a database, as far as names, lengths and what was read tell. */
export function reportDatabase(findings: Findings, inventory: DatabaseInventory, place: FindingPlace): void {
  reportCatalog(findings, inventory, place);
  for (const branch of inventory.branches) reportBranch(findings, inventory, branch, place);
  reportTallies(findings, inventory, place);
}

function reportCatalog(findings: Findings, { catalog, uuid }: DatabaseInventory, place: FindingPlace): void {
  const key = `${databasePrefix(uuid)}catalog`;
  if (catalog.kind === "missing") findings.add("catalog_missing", { ...place, key }, "the catalog is missing");
  else if (catalog.kind === "unreadable")
    findings.add(catalog.isNewer ? "format_newer" : "catalog_unreadable", { ...place, key }, catalog.why);
}

/** What is wrong with one branch. */
function reportBranch(
  findings: Findings,
  { faults, catalog, uuid }: DatabaseInventory,
  { id, listed: named, manifest, history, gaps }: BranchInventory,
  outer: FindingPlace,
): void {
  const place: FindingPlace = { ...outer, branch: named?.name ?? id };
  const key = `${databasePrefix(uuid)}head/${id}`;
  if (named === undefined && catalog.kind === "sound")
    return findings.add("head_unlisted", { ...place, key }, "the catalog does not list the branch of this manifest");
  const isBegun = catalog.kind === "sound" && !isWritten(catalog.value);
  if (manifest.kind === "missing" && isBegun)
    return findings.add("claim_unwritten", { ...place, key }, "its first write was begun and has not come to be");
  if (manifest.kind === "missing") return findings.add("head_missing", { ...place, key }, "the manifest is missing");
  if (manifest.kind === "unreadable")
    return findings.add(manifest.isNewer ? "format_newer" : "head_unreadable", { ...place, key }, manifest.why);
  reportHistory(findings, history, manifest.value.history?.id, {
    ...place,
    key: `${databasePrefix(uuid)}hist/${manifest.value.history?.id}`,
  });
  for (const { firstTxid, lastTxid } of gaps)
    findings.add(
      "line_gap",
      { ...place, key },
      `the manifest names no object for transaction ids ${firstTxid} to ${lastTxid}`,
    );
  const own = new Map(listRefs(manifest.value, history).map((ref) => [ref.id, ref]));
  const present = new Set(manifest.value.refs.map((ref) => ref.id));
  for (const [ref, { firstTxid, lastTxid }] of own) {
    const fault = faults.get(`seg/${ref}`);
    if (!fault) continue;
    const timeline = present.has(ref) ? "of the newest state's timeline" : "of the past";
    const why = fault.kind === "rotten" ? "is not what was written" : fault.why;
    const what = `object ${ref} (transaction ids ${firstTxid} to ${lastTxid}, ${timeline}) ${why}`;
    findings.add(
      fault.kind === "missing" ? "object_missing" : "object_rotten",
      { ...place, key: `${databasePrefix(uuid)}seg/${ref}` },
      what,
    );
  }
}

function reportHistory(
  findings: Findings,
  history: Looked<unknown> | undefined,
  id: string | undefined,
  place: FindingPlace,
): void {
  if (history?.kind === "missing") findings.add("history_missing", place, `the history object ${id} is missing`);
  if (history?.kind === "unreadable")
    findings.add(
      history.isNewer ? "format_newer" : "history_unreadable",
      place,
      `the history object ${id}: ${history.why}`,
    );
}

function reportTallies(
  findings: Findings,
  { unreferenced, condemned, foreign, uuid }: DatabaseInventory,
  place: FindingPlace,
): void {
  if (unreferenced.count > 0)
    findings.add(
      "unreferenced",
      place,
      `nothing refers to ${unreferenced.count} objects of ${unreferenced.bytes} bytes: ${unreferenced.keys.join(", ")}`,
    );
  if (condemned > 0) findings.add("condemned", place, `${condemned} objects wait for their deletion`);
  if (foreign.count > 0)
    findings.add(
      "foreign",
      { ...place, key: databasePrefix(uuid) + foreign.keys[0] },
      `${foreign.count} objects of ${foreign.bytes} bytes: ${foreign.keys.join(", ")}`,
    );
}
