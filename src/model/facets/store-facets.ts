/**
 * What there is in a database's other stores: namespaces of keys, collections, folders of files, tables of the user's.
 *
 * Always true: what is counted is counted by an index or not at all. Must not know: memories, transcripts.
 */
import { fromSubject, subjectsAfter } from "../core/subjects.ts";
import type { View } from "../core/transaction.ts";
import { findCollection } from "../docs/docs-index.ts";
import { declaredMetric } from "../vectors/vector-metrics.ts";
import { pageOf, type Facet, type Lister, type Looks } from "./facet.ts";

/** Namespaces of keys, with the keys that live. */
export const listKeySpaces: Lister = (view, query) => {
  const names: string[] = [];
  // One look into the index for each: the namespaces are not kept anywhere else.
  for (let after = query.after?.[0] ?? ""; names.length <= query.limit;) {
    const next = view.connection.get<{ ns: string }>(
      "SELECT ns FROM __service_kv WHERE ns > ? ORDER BY ns LIMIT 1",
      after,
    );
    if (!next) break;
    names.push(next.ns);
    after = next.ns;
  }
  return pageOf(
    names,
    query,
    (name) => ({
      name,
      ...query.looks.count(
        view,
        "FROM __service_kv WHERE ns = ? AND (expires_at IS NULL OR expires_at > ?)",
        name,
        view.nowMs,
      ),
    }),
    (name) => [name],
  );
};

/** Collections of documents, with their indexes. */
export const listDocCollections: Lister = (view, query) => {
  const rows = view.connection.all<{ name: string }>(
    "SELECT name FROM __service_doc_collections WHERE name > ? ORDER BY name LIMIT ?",
    query.after?.[0] ?? "",
    query.limit + 1,
  );
  return pageOf(
    rows,
    query,
    ({ name }) => {
      const { table, indexes } = findCollection(view, name)!;
      return { name, ...query.looks.count(view, `FROM ${table}`), indexes: indexes.map(({ path }) => path.text) };
    },
    ({ name }) => [name],
  );
};

/** Collections of vectors. */
export const listVectorCollections: Lister = (view, query) => {
  const rows = view.connection.all<{ space: number; name: string; dimension: number }>(
    `SELECT space, name, dimension FROM __service_vector_space WHERE kind = 'collection' AND name > ?
     ORDER BY name LIMIT ?`,
    query.after?.[0] ?? "",
    query.limit + 1,
  );
  return pageOf(
    rows,
    query,
    ({ name, ...space }) => {
      const metric = declaredMetric(view, space);
      return {
        name,
        dimension: space.dimension,
        ...query.looks.count(view, "FROM __service_vector_item WHERE space = ?", space.space),
        ...(metric !== undefined && { metric }),
      };
    },
    ({ name }) => [name],
  );
};

/** Whom records are about, with how many there are of all kinds. */
export const listSubjects: Lister = (view, query) =>
  pageOf(
    subjectsAfter(view, query.after?.[0] ?? "", query.limit + 1),
    query,
    (name) => ({ name, ...query.looks.count(view, fromSubject, name) }),
    (name) => [name],
  );

/** What sorts right after every path in a folder: the character after the slash that ends its name. */
function folderEnd(folder: string): string {
  return `${folder.slice(0, -1)}0`;
}

/** Folders at the top of the tree of files; the files that lie in none have the empty name. */
export const listFolders: Lister = (view, query) => {
  if (!view.connection.hasTable("__service_file")) return { facets: [] };
  const folders: Facet[] = [];
  const [from = ""] = query.after ?? [];
  let at = from === "" ? "" : folderEnd(from);
  let atTop = 0;
  let isCut = false;
  for (;;) {
    isCut = query.looks.isOver || folders.length === query.limit;
    const next = view.connection.get<{ path: string }>(
      "SELECT path FROM __service_file WHERE path >= ? ORDER BY path LIMIT 1",
      at,
    )?.path;
    if (next === undefined) isCut = false;
    if (next === undefined || isCut) break;
    const slash = next.indexOf("/");
    if (slash < 0) {
      query.looks.take();
      atTop++;
      at = `${next}\u0000`;
      continue;
    }
    const folder = next.slice(0, slash + 1);
    folders.push({ name: folder, ...countFolder(view, query.looks, folder) });
    at = folderEnd(folder);
  }
  // Files between the folders of this page; those between the last one and the next are on the next page.
  const top: readonly Facet[] = atTop > 0 ? [{ name: "", count: atTop }] : [];
  const last = folders.at(-1);
  return { facets: [...top, ...folders], ...(isCut && last && { last: [last.name] }) };
};

function countFolder(view: View, looks: Looks, folder: string): Pick<Facet, "count" | "isApproximate"> {
  return looks.count(view, "FROM __service_file WHERE path >= ? AND path < ?", folder, folderEnd(folder));
}

/** The user's own tables; rows of virtual ones are not counted, as what they are is for the user to say. */
export const listTables: Lister = (view, query) => {
  const rows = view.connection.all<{ name: string; type: string }>(
    `SELECT name, type FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual')
       AND lower(substr(name, 1, 10)) <> '__service_' AND substr(name, 1, 7) <> 'sqlite_' AND name > ?
     ORDER BY name LIMIT ?`,
    query.after?.[0] ?? "",
    query.limit + 1,
  );
  return pageOf(
    rows,
    query,
    ({ name, type }) => ({
      name,
      ...(type === "table" && query.looks.count(view, `FROM "${name.replaceAll('"', '""')}"`)),
    }),
    ({ name }) => [name],
  );
};
