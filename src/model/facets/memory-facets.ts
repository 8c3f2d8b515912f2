/**
 * What there is of memories and transcripts: types, topics, sources, sessions, and paths of metadata.
 *
 * Always true: memories that have expired or that policy removes are not counted. What no index tells is counted among
 * the newest rows, and said to be approximate where there are older ones.
 */
import { limits } from "../../base/limits.ts";
import type { SqlParameter } from "../../sqlite/connection/connection.ts";
import { presence } from "../memory/memory-presence.ts";
import type { View } from "../core/transaction.ts";
import { pageOf, type Facet, type FacetPage, type FacetQuery, type Lister } from "./facet.ts";

/** The newest memories, among which types and sources are counted. */
const memoriesLookedAtMax = 20_000;
/** The newest metadata that is read for its paths, and its characters together. */
const metadataLookedAtMax = 2_000;
const metadataCharsMax = 4 * 1024 * 1024;
/** Paths of metadata that are told apart. */
const pathsMax = 1_000;

interface Group {
  readonly name: string;
  readonly n: number;
}

/** Groups of the newest memories by a column. */
function grouped(view: View, query: FacetQuery, column: "type" | "source"): FacetPage {
  const present = presence(view, ["active"]);
  const groups = view.connection.all<Group>(
    `SELECT ${column} AS name, count(*) AS n
     FROM (SELECT * FROM __service_memory ORDER BY row DESC LIMIT ?) AS m
     WHERE m.${column} > ? AND ${present.sql} GROUP BY m.${column} ORDER BY m.${column} LIMIT ?`,
    memoriesLookedAtMax,
    query.after?.[0] ?? "",
    ...present.params,
    query.limit + 1,
  );
  const isApproximate = hasMore(view, "__service_memory", memoriesLookedAtMax);
  const toFacet = ({ name, n }: Group): Facet => ({ name, count: n, ...(isApproximate && { isApproximate }) });
  return { ...pageOf(groups, query, toFacet, ({ name }) => [name]), ...(isApproximate && { isApproximate }) };
}

function hasMore(view: View, table: string, rows: number): boolean {
  return view.connection.get(`SELECT 1 FROM ${table} LIMIT 1 OFFSET ?`, rows) !== undefined;
}

/** Types of memories. */
export const listTypes: Lister = (view, query) => grouped(view, query, "type");

/** Who said what is remembered. */
export const listSources: Lister = (view, query) => grouped(view, query, "source");

interface Topic {
  readonly name: string;
  readonly type: string;
}

/** Topics that have a memory now, with how many they ever had and have still. */
export const listTopics: Lister = (view, query) => {
  const [after, afterType] = query.after ?? ["", ""];
  const topics = view.connection.all<Topic>(
    `SELECT topic_key AS name, type FROM __service_memory
     WHERE topic_key IS NOT NULL AND superseded_by IS NULL AND (topic_key, type) > (?, ?)
     ORDER BY topic_key, type LIMIT ?`,
    after ?? "",
    afterType ?? "",
    query.limit + 1,
  );
  return pageOf(
    topics,
    query,
    ({ name, type }) => ({
      name,
      type,
      ...query.looks.count(view, "FROM __service_memory WHERE topic_key = ? AND type = ?", name, type),
    }),
    ({ name, type }) => [name, type],
  );
};

/** Sessions, with their turns. */
export const listSessionFacets: Lister = (view, query) => {
  const sessions = view.connection.all<{ name: string }>(
    "SELECT id AS name FROM __service_session WHERE id > ? ORDER BY id LIMIT ?",
    query.after?.[0] ?? "",
    query.limit + 1,
  );
  return pageOf(
    sessions,
    query,
    ({ name }) => ({ name, ...query.looks.count(view, "FROM __service_turn WHERE session_id = ?", name) }),
    ({ name }) => [name],
  );
};

/** Paths that are seen in the metadata of memories. */
export const listMemoryMetadata: Lister = (view, query) => {
  const present = presence(view, ["active"]);
  return pathsIn(view, query, {
    table: "__service_memory_metadata",
    sql: `SELECT x.metadata FROM (SELECT * FROM __service_memory_metadata ORDER BY memory DESC LIMIT ?) AS x
          CROSS JOIN __service_memory AS m ON m.row = x.memory WHERE ${present.sql}`,
    params: present.params,
  });
};

/** Paths that are seen in the metadata of turns. */
export const listTurnMetadata: Lister = (view, query) =>
  pathsIn(view, query, {
    table: "__service_turn_detail",
    sql: `SELECT metadata FROM (SELECT metadata FROM __service_turn_detail ORDER BY turn DESC LIMIT ?)
          WHERE metadata IS NOT NULL`,
    params: [],
  });

interface Seen {
  count: number;
  readonly types: Set<string>;
}

function pathsIn(
  view: View,
  query: FacetQuery,
  { table, sql, params }: { readonly table: string; readonly sql: string; readonly params: readonly SqlParameter[] },
): FacetPage {
  if (!view.connection.hasTable(table)) return { facets: [] };
  let isApproximate = hasMore(view, table, metadataLookedAtMax);
  const seen = new Map<string, Seen>();
  let chars = 0;
  for (const { metadata } of view.connection.all<{ metadata: string }>(sql, metadataLookedAtMax, ...params)) {
    chars += metadata.length;
    if (chars > metadataCharsMax) {
      isApproximate = true;
      break;
    }
    view.connection.look();
    const paths = new Map<string, Set<string>>();
    collect(paths, "", JSON.parse(metadata));
    for (const [path, types] of paths) {
      const known = seen.get(path);
      if (known) known.count++;
      else if (seen.size < pathsMax && path.length <= limits.pathCharsMax) seen.set(path, { count: 1, types });
      else isApproximate = true;
      for (const type of types) known?.types.add(type);
    }
  }
  const after = query.after?.[0] ?? "";
  const names = [...seen.keys()].filter((name) => name > after).toSorted();
  const toFacet = (name: string): Facet => {
    const { count, types } = seen.get(name)!;
    return { name, count, types: [...types].toSorted(), ...(isApproximate && { isApproximate }) };
  };
  return { ...pageOf(names, query, toFacet, (name) => [name]), ...(isApproximate && { isApproximate }) };
}

/** Every path of the value with the types of what stands there; of a list, what stands in it. */
function collect(paths: Map<string, Set<string>>, at: string, value: unknown): void {
  if (at !== "") {
    const types = paths.get(at) ?? new Set();
    paths.set(at, types.add(value === null ? "null" : Array.isArray(value) ? "array" : typeof value));
  }
  if (Array.isArray(value)) for (const item of value) collect(paths, at, item);
  else if (typeof value === "object" && value !== null)
    for (const [name, item] of Object.entries(value)) collect(paths, at === "" ? name : `${at}.${name}`, item);
}
